"""LRU-K: evict by the time of the K-th last access, so that one access alone proves little."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, View
from solarjax.policies.combine import Victim
from solarjax.policies.exact_keys import (
    LAST,
    Ghosts,
    accessed,
    forget,
    ghost_of,
    least,
    leaving,
    no_ghosts,
    remember,
)
from solarjax.policies.slots import at_slot

DEEPEST = 4
"""Accesses that are remembered of each item."""
_NEVER = np.int32(-1)


class LRUKState(NamedTuple):
    """times: `[DEEPEST, N] i32` steps of the last accesses, latest first, -1 where there were fewer.
    ghosts: ids of evicted items.  ghost_times: `[DEEPEST, N] i32` their history."""

    times: Array
    ghosts: Ghosts
    ghost_times: Array


def _later(times: Array, now: Array) -> Array:
    """`[DEEPEST, N]`: the history with one more access in front."""
    return jnp.concatenate([jnp.broadcast_to(now, times[:1].shape), times[:-1]])


def lru_k(history: Array | float) -> Victim:
    """Evicts the resident whose `history`-th last access is longest ago.

    Those accessed less often come first, least recently accessed first. Insertion is an access.

    Args:
      history: `[]` the K of LRU-K, a whole number in 1..DEEPEST (paper: 2); 1 is LRU with re-arrivals as accesses.

    References:
      O'Neil, O'Neil, Weikum. The LRU-K page replacement algorithm for database disk buffering. SIGMOD 1993.
    Carried over to semantic hits as `policies.exact_keys` says.
    Differs from the paper: the correlated reference period is one step (accesses within a step are one); histories of
    evicted items are retained for the last K evictions (K the capacity) instead of for a period of time.
    """

    def touch(state: LRUKState, view: View) -> LRUKState:
        return state._replace(times=jnp.where(accessed(view), _later(state.times, view.t), state.times))

    def choose(key: Key, state: LRUKState, view: View) -> Array:
        del key  # deterministic
        wanted = jnp.arange(1, DEEPEST + 1, dtype=jnp.int32) == jnp.asarray(history).astype(jnp.int32)
        kth = jnp.where(wanted[:, None], state.times, np.int32(0)).sum(axis=0)
        oldest = jnp.where(view.occupied, kth, LAST).min()
        return least(view.occupied & (kth == oldest), state.times[0], view)

    def insert(state: LRUKState, slot: Array, view: View) -> LRUKState:
        here = at_slot(slot, len(view.occupied))
        ghost = ghost_of(state.ghosts, view.candidate_id)
        before = jnp.where(ghost, state.ghost_times, _NEVER).max(axis=1, keepdims=True)
        gone = jnp.where(here, state.times, _NEVER).max(axis=1, keepdims=True)
        full = view.size >= view.capacity
        ghosts, entry = remember(forget(state.ghosts, ghost), leaving(here, view), view.capacity, full, view)
        return LRUKState(
            times=jnp.where(here, _later(before, view.t), state.times),
            ghosts=ghosts,
            ghost_times=jnp.where(entry, gone, state.ghost_times),
        )

    def init(num_slots: int) -> LRUKState:
        never = jnp.full((DEEPEST, num_slots), _NEVER, jnp.int32)
        return LRUKState(never, no_ghosts(num_slots), never)

    return Victim(init, touch, choose, insert)
