"""Does a larger frozen pool retrieve worse? The probe behind the "inverted U", and its negative control."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from solarjax.core.params import Param
from solarjax.core.random import key_words
from solarjax.workloads.draws import integers, order, stream
from solarjax.workloads.geometry import count, geometry_params
from solarjax.workloads.pools import frozen_pool, preferred_order
from solarjax.workloads.topics import Topics, random_relevance
from solarjax.workloads.types import Instance, Workload, WorkloadError, WorkloadSpec

PREFERRED = "preferred"
UNIFORM = "uniform"

NOISE_PARAMS = {
    "n_topics": count(50, "number of topics", high=10_000),
    "items_per_topic": count(100, "items of a topic", high=10_000),
    "n_queries": count(1000, "scored queries", high=100_000),
    "n_relevant": count(3, "relevant items of a query, drawn from its topic", high=10_000),
    **geometry_params(min_sep=0.3, item_noise=0.15),
}
"""Parameters shared with `retrieval_noise_stream`, which is the same data in another order."""


def check_relevant(name: str, n_relevant: int, items_per_topic: int) -> None:
    """Raises `WorkloadError` if a topic is too small for the relevant items of a query."""
    if n_relevant > items_per_topic:
        raise WorkloadError(f"{name}: n_relevant = {n_relevant} must be at most items_per_topic = {items_per_topic}")


def make(*, n_topics: int, items_per_topic: int, n_queries: int, n_relevant: int, pool: str, **geometry) -> Workload:
    """A frozen pool of the first K items of a fill order, then `n_queries` scored queries.

    A query has a uniform topic and `n_relevant` random relevant items of it. The fill order is
      `preferred`: the items relevant to at least one query, in uniform order, before the others. That is what
        the authors' release does: its pool of capacity K is a uniform subset of the relevant items while
        there are enough of them (about 2,250 of 5,000), so every further item is pure noise;
      `uniform`: a uniform permutation, as the paper describes the probe. The share of relevant items is then
        the same at every K, and a larger pool cannot hurt.
    The release draws each capacity's pool afresh; here they are nested, with the same law at each K.
    T = M + n_queries.

    Source: arXiv 2607.00394, section 6.5.3 (a).

    Raises:
      WorkloadError: if `n_relevant` exceeds `items_per_topic`, or if that many centres cannot be that far
        apart.
    """
    topics = Topics(n_topics, items_per_topic, **geometry)
    check_relevant("retrieval_noise_static", n_relevant, items_per_topic)
    topics.check("retrieval_noise_static")

    def generate(key: Array) -> Instance:
        words = key_words(key)
        centres, ok = topics.centres(words)
        topic = integers(stream(words, "topic"), n_queries, n_topics)
        relevance = random_relevance(stream(words, "relevance"), topic, topics, n_relevant)
        fill = stream(words, "fill")
        if pool == PREFERRED:
            fill_order = preferred_order(fill, jnp.any(relevance, axis=0))
        else:
            fill_order = order(fill, topics.num_items)
        return frozen_pool(
            topics.items(words, centres, topics.item_topic()),
            topics.queries(words, centres, topic),
            relevance,
            fill_order,
            ok,
        )

    params = {**topics._asdict(), "n_queries": n_queries, "n_relevant": n_relevant, "pool": pool}
    num_steps = topics.num_items + n_queries
    return Workload("retrieval_noise_static", params, num_steps, topics.num_items, n_queries, topics.dim, generate)


SPEC = WorkloadSpec(
    make=make,
    params={
        **NOISE_PARAMS,
        "pool": Param(
            PREFERRED,
            "which items fill the pool first: relevant ones, or any",
            choices=(PREFERRED, UNIFORM),
            static=True,
        ),
    },
    paper="arXiv 2607.00394, section 6.5.3 (a)",
    summary="a frozen pool of the first K items, relevant ones first or uniform",
)
