"""S3-FIFO: a small FIFO that filters, a main FIFO with second chances, and a list of ids."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, View
from solarjax.policies.combine import Victim
from solarjax.policies.exact_keys import (
    LAST,
    Ghosts,
    accessed,
    count,
    forget,
    ghost_of,
    least,
    leaving,
    no_ghosts,
    remember,
    share,
    some,
)
from solarjax.policies.slots import at_slot

_CAP = np.int32(3)
_NONE = np.int32(-1)


class S3FIFOState(NamedTuple):
    """in_main: `[N] bool` resident is in M, else in S.  frequency: `[N] i32` accesses, at most 3.
    position: `[N] i32` place in M, smallest at the tail, equal ones in order of insertion; unused in S.
    ghosts: G, ids evicted from S."""

    in_main: Array
    frequency: Array
    position: Array
    ghosts: Ghosts


def _top(state: S3FIFOState, view: View) -> Array:
    return jnp.where(view.occupied & state.in_main, state.position, _NONE).max()


def _evict(state: S3FIFOState, view: View, small_fraction: Array | float) -> tuple[Array, Array, S3FIFOState]:
    """The victim's slot, whether it leaves from S, and the state after the walk that found it.

    Both walks in closed form. S: everybody before the first with frequency <= 1 moves to M. M: the reinsertions are
    whole rounds until the smallest frequency is 0, and one more step for those before the first of them.
    """
    small = view.occupied & ~state.in_main
    walks_small = count(small).astype(jnp.float32) >= small_fraction * view.capacity.astype(jnp.float32)
    first = jnp.where(small & (state.frequency <= 1), view.inserted, LAST).min()
    promoted = small & walks_small & (view.inserted < first)
    from_small = walks_small & (first < LAST)

    in_main = state.in_main | promoted
    frequency = jnp.where(promoted, np.int32(0), state.frequency)
    position = jnp.where(promoted, _top(state, view) + 1, state.position)

    main = view.occupied & in_main
    rounds = jnp.where(main, frequency, LAST).min()
    tail = least(main & (frequency == rounds), position, view)
    here = at_slot(tail, len(main))
    place, birth = (jnp.where(here, x, _NONE).max() for x in (position, view.inserted))
    before = main & ((position < place) | ((position == place) & (view.inserted < birth)))
    walked = main & ~from_small
    frequency = jnp.where(walked, frequency - rounds - before.astype(jnp.int32), frequency)
    low, high = jnp.where(main, position, LAST).min(), jnp.where(main, position, _NONE).max()
    # A shift by the whole span keeps the order of those that go to the head; they start again from the tail's place,
    # so that positions stay within the number of insertions.
    position = jnp.where(before & walked, position + (high - low + 1), position)
    lowest = jnp.where(main & ~(here & ~from_small), position, LAST).min()
    position = jnp.where(main, position - lowest, np.int32(0))
    slot = jnp.where(from_small, first % np.int32(len(main)), tail)
    return slot, from_small, S3FIFOState(in_main, frequency, position, state.ghosts)


def s3_fifo(small_fraction: Array | float) -> Victim:
    """Evicts from the tail of S while S holds its share of the cache, else from the tail of M.

    A new item enters S, or M if its id is in G. At the tail of S an item accessed more than once moves to M (its count
    is cleared), another one leaves and its id enters G. At the tail of M an item with a positive count returns to the
    head with one less, one without leaves.

    Args:
      small_fraction: `[]` share of S (paper: 0.1). G remembers as many ids as M then has slots, at least one.

    References:
      Yang, Zhang, Qiu, Yue, Rashmi. FIFO queues are all you need for cache eviction. SOSP 2023 (algorithm 1).
    Carried over to semantic hits as `policies.exact_keys` says.
    Differs from the paper: one insertion evicts one resident, so M has no limit of its own to evict by when an item
    moves there from S; if all of S moves, the walk goes on in M.
    """

    def touch(state: S3FIFOState, view: View) -> S3FIFOState:
        more = state.frequency + accessed(view).astype(jnp.int32)
        return state._replace(frequency=jnp.minimum(more, _CAP))

    def choose(key: Key, state: S3FIFOState, view: View) -> Array:
        del key  # deterministic
        return _evict(state, view, small_fraction)[0]

    def insert(state: S3FIFOState, slot: Array, view: View) -> S3FIFOState:
        here, full = at_slot(slot, len(view.occupied)), view.size >= view.capacity
        _, from_small, walked = _evict(state, view, small_fraction)
        state = jax.tree.map(lambda new, old: jnp.where(full, new, old), walked, state)
        limit = jnp.maximum(view.capacity - share(small_fraction, view.capacity, 0), np.int32(1))
        ghosts, _ = remember(state.ghosts, leaving(here, view), limit, full & from_small, view)
        ghost = ghost_of(ghosts, view.candidate_id)
        others = state._replace(in_main=state.in_main & ~here)
        return S3FIFOState(
            in_main=jnp.where(here, some(ghost), state.in_main),
            frequency=jnp.where(here, np.int32(0), state.frequency),
            position=jnp.where(here, _top(others, view) + 1, state.position),
            ghosts=forget(ghosts, ghost),
        )

    def init(num_slots: int) -> S3FIFOState:
        zeros = jnp.zeros(num_slots, jnp.int32)
        return S3FIFOState(jnp.zeros(num_slots, bool), zeros, zeros, no_ghosts(num_slots))

    return Victim(init, touch, choose, insert)
