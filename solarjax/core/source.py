"""What the sweep needs from a collection of traces, and future tables for offline policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core.tables import Schedule, Tables
from solarjax.core.types import NEVER

Pair = tuple[int, int]
"""(trace index, seed)."""


class Block(NamedTuple):
    """Device arrays of P pairs. `table_of_pair`: `[P] i32` index into the tables (W = P, or shared by pairs)."""

    tables: Tables
    schedule: Schedule
    table_of_pair: np.ndarray


class Source(Protocol):
    """A set of traces with common padded shapes, so that one compilation serves them all.

    traces: labels.  num_steps T, num_queries Q, num_items M: padded sizes.
    shared_tables: True if tables belong to traces (recorded), False if each seed has its own workload.
    same_for_all_seeds: True if a trace is the same, order included, whatever the seed.
    categories: names of query categories, or ().  availability: count available relevant items.
    fingerprint: JSON-able identity of the content, for resuming.
    """

    traces: tuple[str, ...]
    num_steps: int
    num_queries: int
    num_items: int
    shared_tables: bool
    same_for_all_seeds: bool
    categories: tuple[str, ...]
    answers: bool
    availability: bool

    def fingerprint(self) -> dict: ...

    def bytes_per_pair(self, pairwise: bool, future: bool) -> int:
        """Device bytes that one more pair costs."""

    def block(self, pairs: Sequence[Pair], root_seed: int, pairwise: bool, future: bool) -> Block:
        """Builds the arrays; a pair's numbers do not depend on the others."""


def future_tables(relevant: Array, query: Array, scored: Array) -> tuple[Array, Array]:
    """What an offline policy may know after each step of one pair.

    Args:
      relevant: `[Q, M] bool`.  query: `[T] i32`, NO_QUERY where nothing is asked.  scored: `[T] bool`.

    Returns:
      future_uses `[T, M] i32`: scored queries after step t that find m relevant.
      next_use `[T, M] i32`: step of the first of them, NEVER if none.
    """
    steps = jnp.arange(query.shape[0], dtype=jnp.int32)
    used = relevant[jnp.maximum(query, 0)] & (scored & (query >= 0))[:, None]
    counts = used.astype(jnp.int32)
    uses = jnp.flip(jnp.cumsum(jnp.flip(counts, 0), axis=0), 0) - counts
    at = jnp.where(used, steps[:, None], np.int32(NEVER))
    ahead = jnp.concatenate([at[1:], jnp.full_like(at[:1], NEVER)])
    first = jnp.flip(lax.cummin(jnp.flip(ahead, 0), axis=0), 0)
    return uses, first
