"""A second clairvoyant HEURISTIC, for workloads in which many items answer the same query.

Counting future uses fills a cache with interchangeable items of the most popular topic. Here a later query is shared
among the residents that could answer it, so the second copy of an answer is worth little. It is not the optimum.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, Policy, State, View, given
from solarjax.policies.slots import argmin_resident

_LAST = np.int32(2**31 - 1)
UNIT = np.int32(2520)
"""Worth of a query that one item alone can answer: the least common multiple of 1..10."""


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
        own = given(view.future_relevance, "future_relevance").astype(jnp.int32)
        arriving = given(view.candidate_future_relevance, "candidate_future_relevance").astype(jnp.int32)
        # A duplicate's candidate is its resident: counted once.
        arriving = jnp.where(view.candidate_resident, np.int32(0), arriving)
        share = UNIT // jnp.maximum(own.sum(axis=1) + arriving, 1)
        return (own * share[:, None]).sum(axis=0), (arriving * share).sum()

    def observe(key: Key, state: State, view: View) -> tuple[State, Array]:
        del key  # deterministic
        resident, candidate = values(view)
        least = jnp.where(view.occupied, resident, _LAST).min()
        return state, view.has_candidate & ((view.size < view.capacity) | (candidate > least))

    def victim(key: Key, state: State, view: View) -> Array:
        del key, state
        return argmin_resident(values(view)[0], view)

    return Policy(lambda num_slots: (), observe, victim, lambda state, slot, view: state)
