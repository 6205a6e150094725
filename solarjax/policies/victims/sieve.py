"""SIEVE: a FIFO queue, one bit per resident, and a hand that sifts out what was not accessed."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, View
from solarjax.policies.combine import Victim
from solarjax.policies.exact_keys import LAST, accessed
from solarjax.policies.slots import at_slot

_TAIL = np.int32(-1)


class SieveState(NamedTuple):
    """visited: `[N] bool` accessed since insertion, or since the hand passed.
    hand: `[] i32` insertion key of the latest victim, the hand stands at the next newer resident; -1: at the oldest."""

    visited: Array
    hand: Array


class _Walk(NamedTuple):
    """victim: `[] i32` its insertion key.  passed: `[N] bool` whose bit the hand clears.  hand: `[] i32` afterwards."""

    victim: Array
    passed: Array
    hand: Array


def _walk(state: SieveState, view: View) -> _Walk:
    # The queue never changes its order, so the hand's way is a comparison of insertion keys: from where it stands to
    # the newest, then from the oldest on; if all bits are set it comes round to where it started.
    unseen = view.occupied & ~state.visited
    ahead = view.occupied & (view.inserted > state.hand)
    first_ahead = jnp.where(unseen & ahead, view.inserted, LAST).min()
    first = jnp.where(unseen, view.inserted, LAST).min()
    start = jnp.where(ahead, view.inserted, LAST).min()
    wraps = first_ahead == LAST
    victim = jnp.where(wraps, jnp.where(first == LAST, start, first), first_ahead)
    older = view.occupied & (view.inserted < victim)
    passed = jnp.where(wraps, ahead | older, ahead & older)
    newest = jnp.where(view.occupied, view.inserted, np.int32(-1)).max()
    return _Walk(victim, passed, jnp.where(victim == newest, _TAIL, victim))


def sieve() -> Victim:
    """Evicts the first resident without a visited bit that the hand meets on its way from old to new.

    References:
      Zhang, Yang, Yue, Vigfusson, Rashmi. SIEVE is simpler than LRU. NSDI 2024.
    Carried over to semantic hits as `policies.exact_keys` says; it has no ghosts.
    """

    def touch(state: SieveState, view: View) -> SieveState:
        return state._replace(visited=state.visited | accessed(view))

    def choose(key: Key, state: SieveState, view: View) -> Array:
        del key  # deterministic
        return _walk(state, view).victim % np.int32(len(state.visited))

    def insert(state: SieveState, slot: Array, view: View) -> SieveState:
        full, walk = view.size >= view.capacity, _walk(state, view)
        kept = state.visited & ~(walk.passed & full) & ~at_slot(slot, len(state.visited))
        return SieveState(kept, jnp.where(full, walk.hand, state.hand))

    return Victim(lambda num_slots: SieveState(jnp.zeros(num_slots, bool), jnp.int32(-1)), touch, choose, insert)
