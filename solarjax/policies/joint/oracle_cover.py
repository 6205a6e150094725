"""A second clairvoyant HEURISTIC, for workloads in which many items answer the same query.

Counting future uses fills a cache with interchangeable items of the most popular topic. Here a later query is shared
among the residents that could answer it, so the second copy of an answer is worth little. It is not the optimum.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, Policy, View, given
from solarjax.policies.slots import argmin_resident

_LAST = np.int32(2**31 - 1)
UNIT = np.int32(2520)
"""Worth of a query that one item alone can answer: the least common multiple of 1..10."""


class CoverState(NamedTuple):
    """least: `[] i32` slot of the least valuable resident when a new item last came to the full cache."""

    least: Array


def oracle_cover() -> Policy:
    """Keeps the items that carry the most later queries, each query shared among its carriers.

    value_i = sum over the queries q that are asked (scored) later and that item i answers of 1 / carriers(q), the
    number of cached items, candidate included, that answer q; in units of 1/2520 (divisible by 1..10) and rounded down,
    so that equal values are equal integers.
    In a full cache the least valuable resident is the victim (ties: earliest inserted), and the candidate is refused
    unless it is worth strictly more. Admits while there is room.

    References:
      Belady. A study of replacement algorithms for a virtual-storage computer. IBM Systems Journal 5(2), 1966.
    Differs from Belady: coverage instead of distance, since one semantic query has several relevant items; bypass is
    allowed; whether a relevant resident also makes the top-k is ignored.
    """

    def values(view: View) -> tuple[Array, Array]:
        own = _bits(given(view.future_queries, "future_queries"))  # [Q / 32, 32, N]
        arriving = _bits(given(view.candidate_future_queries, "candidate_future_queries"))
        # A duplicate's candidate is its resident: counted once.
        arriving = jnp.where(view.candidate_resident, np.int32(0), arriving)
        share = UNIT // jnp.maximum(own.sum(axis=2) + arriving, 1)
        return (own * share[:, :, None]).sum(axis=(0, 1)), (arriving * share).sum()

    def observe(key: Key, state: CoverState, view: View) -> tuple[CoverState, Array]:
        del key  # deterministic
        resident, candidate = values(view)
        least = jnp.where(view.occupied, resident, _LAST).min()
        new = view.has_candidate & ~view.candidate_resident & (view.size >= view.capacity)
        kept = CoverState(jnp.where(new, argmin_resident(resident, view), state.least))
        return kept, view.has_candidate & ((view.size < view.capacity) | (candidate > least))

    def victim(key: Key, state: CoverState, view: View) -> Array:
        del key, view
        return state.least

    return Policy(lambda num_slots: CoverState(jnp.int32(0)), observe, victim, lambda state, slot, view: state)


def _bits(words: Array) -> Array:
    """`[W, ...] u32 -> [W, 32, ...] i32` of 0 and 1."""
    shift = jnp.arange(32, dtype=jnp.uint32).reshape(1, 32, *[1] * (words.ndim - 1))
    return ((words[:, None] >> shift) & np.uint32(1)).astype(jnp.int32)
