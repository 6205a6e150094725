"""Topic structure: who belongs to which topic, whose turn it is, and what is relevant.

Items are numbered topic by topic: item i belongs to topic `i // items_per_topic`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from solarjax.core.trace import StepMode
from solarjax.core.types import Key
from solarjax.workloads.draws import orders, stream
from solarjax.workloads.geometry import check_separable, noisy, separated_centres
from solarjax.workloads.types import Instance


class Topics(NamedTuple):
    """Sizes and geometry of a set of topics (`geometry_params` has the units)."""

    n_topics: int
    items_per_topic: int
    dim: int
    min_sep: float
    item_noise: float
    query_noise: float

    def check(self, name: str) -> None:
        """Raises `WorkloadError` if that many centres provably cannot be that far apart."""
        check_separable(name, self.n_topics, self.dim, self.min_sep)

    @property
    def num_items(self) -> int:
        """M."""
        return self.n_topics * self.items_per_topic

    def item_topic(self) -> Array:
        """Topic of each item, `[M] i32`."""
        return jnp.arange(self.num_items, dtype=jnp.int32) // self.items_per_topic

    def centres(self, key: Key) -> tuple[Array, Array]:
        """Centres `[n_topics, D] f32` and whether they were found, `[] bool`; reads stream "centres"."""
        return separated_centres(stream(key, "centres"), self.n_topics, self.dim, self.min_sep)

    def items(self, key: Key, centres: Array, topic: Array) -> Array:
        """Embeddings `[M, D] f32` of items with these topics `[M] i32`; reads stream "items"."""
        return noisy(stream(key, "items"), centres[topic], self.item_noise)

    def queries(self, key: Key, centres: Array, topic: Array) -> Array:
        """Embeddings `[Q, D] f32` of queries with these topics `[Q] i32`; reads stream "queries"."""
        return noisy(stream(key, "queries"), centres[topic], self.query_noise)


def occurrence(topic: Array, n_topics: int) -> Array:
    """How often the topic of each step was met at earlier steps, `[T] i32`, from topics `[T] i32`."""
    met = jax.nn.one_hot(topic, n_topics, dtype=jnp.int32)
    before = jnp.cumsum(met, axis=0) - met
    return jnp.take_along_axis(before, topic[:, None], axis=1)[:, 0]


def round_robin(topic: Array, n_topics: int, items_per_topic: int) -> Array:
    """The next item of each step's topic, `[T] i32`: pools are walked in order, so ids arrive again."""
    return topic * items_per_topic + occurrence(topic, n_topics) % items_per_topic


def random_relevance(key: Key, topic: Array, topics: Topics, n_relevant: int) -> Array:
    """`[Q, M] bool`: `n_relevant` distinct items of each query's topic `[Q] i32`, uniform. Consumes `key`."""
    num_queries = topic.shape[0]
    place = orders(key, num_queries, topics.items_per_topic)[:, :n_relevant]
    item = topic[:, None] * topics.items_per_topic + place
    row = jnp.broadcast_to(jnp.arange(num_queries, dtype=jnp.int32)[:, None], item.shape)
    return jnp.zeros((num_queries, topics.num_items), bool).at[row, item].set(True)


def topic_instance(key: Key, topic: Array, topics: Topics) -> Instance:
    """One query and one arrival of the same topic at each step, all scored; the whole pool is relevant.

    Args:
      key: `[2] u32`, read through the streams of `Topics`; `topic` must come from another stream of it.
      topic: `[T] i32` topic of each step.
      topics: sizes and geometry.

    Returns:
      The instance, with Q = T.
    """
    num_steps = topic.shape[0]
    item_topic = topics.item_topic()
    centres, ok = topics.centres(key)
    return Instance(
        items=topics.items(key, centres, item_topic),
        queries=topics.queries(key, centres, topic),
        relevance=topic[:, None] == item_topic[None, :],
        query=jnp.arange(num_steps, dtype=jnp.int32),
        arrival=round_robin(topic, topics.n_topics, topics.items_per_topic),
        mode=steps_of(StepMode.SCORED, num_steps),
        ok=ok,
    )


def steps_of(mode: StepMode, n: int) -> Array:
    """`[n] u8` steps of one mode."""
    return jnp.full((n,), int(mode), jnp.uint8)
