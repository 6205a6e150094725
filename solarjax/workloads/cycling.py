"""Topics in a fixed cycle: the order that defeats eviction by age once the topics outnumber the slots."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from solarjax.core.random import key_words
from solarjax.workloads.geometry import count, geometry_params
from solarjax.workloads.topics import Topics, topic_instance
from solarjax.workloads.types import Instance, Workload, WorkloadSpec


def make(*, n_topics: int, items_per_topic: int, n_cycles: int, **geometry) -> Workload:
    """Step t has topic `t mod n_topics`; query and arrival share it. T = Q = n_topics * n_cycles.

    Source: arXiv 2607.00394, section 6.5.1, with K = 10 and n_topics in {10, 15, 20, 30, 50}. Items per
    topic, cycles and noise are those of the authors' release. Only the embeddings are random.

    Raises:
      WorkloadError: if that many centres cannot be that far apart.
    """
    topics = Topics(n_topics, items_per_topic, **geometry)
    topics.check("cycling")
    num_steps = n_topics * n_cycles

    def generate(key: Array) -> Instance:
        words = key_words(key)
        topic = jnp.arange(num_steps, dtype=jnp.int32) % n_topics
        return topic_instance(words, topic, topics)

    params = {**topics._asdict(), "n_cycles": n_cycles}
    return Workload("cycling", params, num_steps, topics.num_items, num_steps, topics.dim, generate)


SPEC = WorkloadSpec(
    make=make,
    params={
        "n_topics": count(20, "topics m in the cycle", high=10_000),
        "items_per_topic": count(5, "items in the pool of a topic", high=10_000),
        "n_cycles": count(10, "times the cycle is walked", high=100_000),
        **geometry_params(),
    },
    paper="arXiv 2607.00394, section 6.5.1",
    summary="topics asked in a fixed cycle; each step's arrival is its topic's next item",
)
