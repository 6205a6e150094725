"""Facts that are replaced: old versions look just like the current one, so keeping more retrieves worse."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from solarjax.core.params import Param
from solarjax.core.random import key_words
from solarjax.core.trace import StepMode
from solarjax.workloads.draws import integers, order, orders, stream
from solarjax.workloads.geometry import count, geometry_params
from solarjax.workloads.pools import frozen_pool
from solarjax.workloads.topics import Topics, steps_of
from solarjax.workloads.types import Instance, Workload, WorkloadError, WorkloadSpec

FROZEN = "frozen"
ONLINE = "online"
LATEST = "latest"
UNIFORM = "uniform"


def make(
    *,
    n_topics: int,
    n_eras: int,
    items_per_era: int,
    n_queries: int,
    protocol: str,
    pool: str,
    **geometry,
) -> Workload:
    """Each era brings `items_per_era` new items, equally many per topic and in random order.

    The centres do not move, so the eras cannot be told apart by content; relevant to a query are its topic's
    items of the CURRENT era only. Items are numbered in order of arrival: item i belongs to era
    `i // items_per_era`.
      `protocol=frozen`: a frozen pool of the first K of a fill order, then `n_queries` queries of uniform
        topic about the last era. The order is `pool=latest` (newest first) or `pool=uniform` (a uniform
        permutation, the negative control: the share of current items is then the same at every K).
        T = M + n_queries.
      `protocol=online`: at each step a query of uniform topic, about the era of the item that arrives after
        it; all scored. T = Q = M, `n_queries` and `pool` are ignored. Relevant are all items of the era, also
        those still to come.

    Raises:
      WorkloadError: if `items_per_era` is no multiple of `n_topics`, or if that many centres cannot be that
        far apart.
    """
    if items_per_era % n_topics:
        raise WorkloadError(
            f"stale_versions: items_per_era = {items_per_era} must be a multiple of n_topics = {n_topics}"
        )
    topics = Topics(n_topics, n_eras * items_per_era // n_topics, **geometry)
    topics.check("stale_versions")
    num_items = topics.num_items

    def generate(key: Array) -> Instance:
        words = key_words(key)
        centres, ok = topics.centres(words)
        item_topic = (orders(stream(words, "order"), n_eras, items_per_era) % n_topics).reshape(num_items)
        item_era = jnp.arange(num_items, dtype=jnp.int32) // items_per_era
        asked = n_queries if protocol == FROZEN else num_items
        topic = integers(stream(words, "topic"), asked, n_topics)
        current = jnp.full((asked,), n_eras - 1, jnp.int32) if protocol == FROZEN else item_era
        items = topics.items(words, centres, item_topic)
        queries = topics.queries(words, centres, topic)
        relevance = (topic[:, None] == item_topic[None, :]) & (current[:, None] == item_era[None, :])
        if protocol == FROZEN:
            newest_first = jnp.arange(num_items - 1, -1, -1, dtype=jnp.int32)
            fill_order = newest_first if pool == LATEST else order(stream(words, "fill"), num_items)
            return frozen_pool(items, queries, relevance, fill_order, ok)
        step = jnp.arange(num_items, dtype=jnp.int32)
        return Instance(items, queries, relevance, step, step, steps_of(StepMode.SCORED, num_items), ok)

    params = {
        "n_topics": n_topics,
        "n_eras": n_eras,
        "items_per_era": items_per_era,
        "n_queries": n_queries,
        "protocol": protocol,
        "pool": pool,
        **geometry,
    }
    num_queries = n_queries if protocol == FROZEN else num_items
    num_steps = num_items + n_queries if protocol == FROZEN else num_items
    return Workload("stale_versions", params, num_steps, num_items, num_queries, topics.dim, generate)


SPEC = WorkloadSpec(
    make=make,
    params={
        "n_topics": count(50, "number of topics", high=10_000),
        "n_eras": count(5, "versions of each topic", high=1_000),
        "items_per_era": count(1000, "new items in an era, a multiple of n_topics", high=100_000),
        "n_queries": count(1000, "scored queries (protocol=frozen)", high=100_000),
        "protocol": Param(
            FROZEN,
            "a frozen pool, or a stream of arrivals with queries",
            choices=(FROZEN, ONLINE),
            static=True,
        ),
        "pool": Param(
            LATEST,
            "which items fill a frozen pool first: newest, or any",
            choices=(LATEST, UNIFORM),
            static=True,
        ),
        **geometry_params(min_sep=0.3, item_noise=0.05, query_noise=0.15),
    },
    paper="this project: a case where forgetting must help",
    summary="topics whose items are replaced era by era; only the current era answers",
)
