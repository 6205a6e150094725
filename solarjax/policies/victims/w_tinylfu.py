"""W-TinyLFU: a small recency window, a segmented main region, and a frequency sketch that decides who stays."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core.types import Key, View
from solarjax.policies.combine import Victim
from solarjax.policies.exact_keys import accessed, count, least, leaving, share, some
from solarjax.policies.slots import at_slot

WINDOW, PROBATION, PROTECTED = (np.int32(i) for i in range(3))
MULTIPLIERS = tuple(np.uint32(m) for m in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F))
"""One odd multiplier per row of the sketch. The first is 2^32 over the golden ratio: it spreads consecutive ids evenly,
so few items never collide in all rows."""
_COUNTER_MAX = np.uint8(15)
_SAMPLE = np.int32(10)
"""The sketch is halved each time it has counted this many accesses per slot of the cache."""
_MIN_BITS = np.int32(6)


class WTinyLFUState(NamedTuple):
    """region: `[N] i32` WINDOW, PROBATION or PROTECTED.  last_accessed: `[N] i32` step that orders each region.
    sketch: `[4, C] u8` counters, at most 15.  counted: `[] i32` accesses since the sketch was halved, half before."""

    region: Array
    last_accessed: Array
    sketch: Array
    counted: Array


def _bits(capacity: Array) -> Array:
    """log2 of the counters in use per row: the power of two not below 2 K, at least 64. It depends on K alone, so that
    a lane does not see how many slots its batch has."""
    return jnp.maximum(np.int32(32) - lax.clz(capacity * 2 - 1), _MIN_BITS)


def _columns(item: Array, capacity: Array) -> list[Array]:
    """Counter of `item [] i32` in each row (multiply-shift hashing)."""
    shift = (np.int32(32) - _bits(capacity)).astype(jnp.uint32)
    return [((item.astype(jnp.uint32) * m) >> shift).astype(jnp.int32) for m in MULTIPLIERS]


def _estimate(sketch: Array, item: Array, capacity: Array) -> Array:
    """`[] i32`: the smallest of the item's counters."""
    width = sketch.shape[1]
    rows = [
        jnp.where(at_slot(c, width), sketch[row], np.uint8(0)).max() for row, c in enumerate(_columns(item, capacity))
    ]
    return jnp.stack(rows).min().astype(jnp.int32)


def w_tinylfu(window_fraction: Array | float, protected_fraction: Array | float) -> Victim:
    """Evicts the window's least recently used, unless its frequency exceeds that of the main region's victim.

    Every arrival enters the window. What overflows from it competes with the main region's victim, the least recently
    used of probation (of protected, if that is empty): the one with the smaller estimated frequency leaves, the main
    victim only if it is strictly less. An access in probation moves a resident to protected; what overflows there
    returns to probation as its most recent. The sketch counts each access and each new arrival, at most 15 per counter.

    Args:
      window_fraction: `[]` share of the window, rounded down to at least one slot (paper: 0.01).
      protected_fraction: `[]` share of the rest that is protected, rounded down (paper: 0.8).

    References:
      Einziger, Friedman, Manes. TinyLFU: a highly efficient cache admission policy. ACM Transactions on Storage
      13(4), 2017.
    Carried over to semantic hits as `policies.exact_keys` says; frequencies belong to item ids.
    Differs from the paper: a count-min sketch of four rows without a doorkeeper or conservative update; accesses of one
    step are counted together, then it is halved if due.
    """

    def touch(state: WTinyLFUState, view: View) -> WTinyLFUState:
        hit = accessed(view)
        last = jnp.where(hit, view.t, state.last_accessed)
        region = jnp.where(hit & (state.region == PROBATION), PROTECTED, state.region)
        limit = share(protected_fraction, view.capacity - share(window_fraction, view.capacity, 1), 0)
        depth = len(view.retrieved_slots)
        # One step accesses k + 1 residents at most, so no more can be too many.
        for _ in range(depth + 1):
            protected = region == PROTECTED
            slot = jnp.where(count(protected) > limit, least(protected, last, view), np.int32(-1))
            here = at_slot(slot, len(region))
            region, last = jnp.where(here, PROBATION, region), jnp.where(here, view.t, last)

        seen_again = some(view.touched & (view.resident_id == view.candidate_id))
        items = [leaving(at_slot(view.retrieved_slots[r], len(hit)) & view.touched, view) for r in range(depth)]
        items.append(jnp.where(view.has_candidate & ~seen_again, view.candidate_id, np.int32(-1)))
        sketch = state.sketch
        width = sketch.shape[1]
        for item in items:
            rows = [at_slot(c, width) & (item >= 0) for c in _columns(item, view.capacity)]
            sketch = sketch + jnp.stack(rows).astype(jnp.uint8)
        sketch = jnp.minimum(sketch, _COUNTER_MAX)
        counted = state.counted + count(jnp.stack(items) >= 0)
        due = counted >= _SAMPLE * view.capacity
        return WTinyLFUState(
            region=region,
            last_accessed=last,
            sketch=jnp.where(due, sketch >> np.uint8(1), sketch),
            counted=jnp.where(due, counted >> np.int32(1), counted),
        )

    def overflow(state: WTinyLFUState, view: View) -> tuple[Array, Array]:
        """The window's least recently used, and whether one more would be too many."""
        window = view.occupied & (state.region == WINDOW)
        return least(window, state.last_accessed, view), count(window) >= share(window_fraction, view.capacity, 1)

    def choose(key: Key, state: WTinyLFUState, view: View) -> Array:
        del key  # deterministic
        newer, _ = overflow(state, view)
        main = view.occupied & (state.region != WINDOW)
        probation = main & (state.region == PROBATION)
        older = least(jnp.where(some(probation), probation, main), state.last_accessed, view)
        fame = [
            _estimate(state.sketch, leaving(at_slot(slot, len(main)), view), view.capacity) for slot in (newer, older)
        ]
        return jnp.where(some(main) & (fame[0] > fame[1]), older, newer)

    def insert(state: WTinyLFUState, slot: Array, view: View) -> WTinyLFUState:
        newer, over = overflow(state, view)
        here = at_slot(slot, len(view.occupied))
        moves = at_slot(newer, len(view.occupied)) & over & ~here
        return state._replace(
            region=jnp.where(here, WINDOW, jnp.where(moves, PROBATION, state.region)),
            last_accessed=jnp.where(here | moves, view.t, state.last_accessed),
        )

    def init(num_slots: int) -> WTinyLFUState:
        width = 2 ** max(int(_MIN_BITS), (2 * num_slots - 1).bit_length())
        zeros = jnp.zeros(num_slots, jnp.int32)
        return WTinyLFUState(zeros, zeros, jnp.zeros((len(MULTIPLIERS), width), jnp.uint8), jnp.int32(0))

    return Victim(init, touch, choose, insert)
