"""The retrieval-noise items as a stream: can an online policy keep a pool that retrieves well?"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from solarjax.core.random import key_words
from solarjax.core.trace import NO_ITEM, StepMode
from solarjax.workloads.draws import integers, order, stream
from solarjax.workloads.retrieval_noise_static import NOISE_PARAMS, check_relevant
from solarjax.workloads.topics import Topics, random_relevance, steps_of
from solarjax.workloads.types import Instance, Workload, WorkloadSpec


def make(*, n_topics: int, items_per_topic: int, n_queries: int, n_relevant: int, **geometry) -> Workload:
    """Warm-up: each item arrives once, in random order, with a query of its topic; then queries alone.

    Every query, warm-up ones included, has `n_relevant` random relevant items of its topic (so the arriving
    item itself is relevant to its query only by chance). The warm-up has M steps and is not scored, the
    `n_queries` steps after it are: T = Q = M + n_queries.

    Source: arXiv 2607.00394, section 6.5.3 (b).

    Raises:
      WorkloadError: if `n_relevant` exceeds `items_per_topic`, or if that many centres cannot be that far
        apart.
    """
    topics = Topics(n_topics, items_per_topic, **geometry)
    check_relevant("retrieval_noise_stream", n_relevant, items_per_topic)
    topics.check("retrieval_noise_stream")
    num_steps = topics.num_items + n_queries

    def generate(key: Array) -> Instance:
        words = key_words(key)
        centres, ok = topics.centres(words)
        item_topic = topics.item_topic()
        arrival = order(stream(words, "arrival"), topics.num_items)
        scored = integers(stream(words, "topic"), n_queries, n_topics)
        topic = jnp.concatenate([item_topic[arrival], scored])
        return Instance(
            items=topics.items(words, centres, item_topic),
            queries=topics.queries(words, centres, topic),
            relevance=random_relevance(stream(words, "relevance"), topic, topics, n_relevant),
            query=jnp.arange(num_steps, dtype=jnp.int32),
            arrival=jnp.concatenate([arrival, jnp.full((n_queries,), NO_ITEM, jnp.int32)]),
            mode=jnp.concatenate([steps_of(StepMode.TRAIN, topics.num_items), steps_of(StepMode.SCORED, n_queries)]),
            ok=ok,
        )

    params = {**topics._asdict(), "n_queries": n_queries, "n_relevant": n_relevant}
    return Workload("retrieval_noise_stream", params, num_steps, topics.num_items, num_steps, topics.dim, generate)


SPEC = WorkloadSpec(
    make=make,
    params=NOISE_PARAMS,
    paper="arXiv 2607.00394, section 6.5.3 (b)",
    summary="each item once as a warm-up, in random order, then scored queries without arrivals",
)
