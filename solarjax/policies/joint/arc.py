"""Adaptive replacement cache, carried over to semantic hits.

Two lists of residents (T1 seen once, T2 seen again) and two of ghosts (B1, B2: ids lately evicted from each).
A hit in a ghost list moves the target size p of T1. Exact keys become semantic hits thus: a resident that is
retrieved counts as seen again, so does one that arrives again, and an arrival whose id is a ghost is a ghost hit.

References:
  Megiddo, Modha. ARC: a self-tuning, low overhead replacement cache. FAST 2003.
Differs from the paper: as evaluated by the SOLAR authors. p moves by max(1, ratio); ghost lists hold K ids each
(the paper bounds |T1| + |B1| by K); a miss never evicts from a ghost list to make room elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.trace import NO_ITEM
from solarjax.core.types import Key, Policy, View
from solarjax.policies.slots import at_slot

_LAST = np.int32(2**31 - 1)


class ARCState(NamedTuple):
    """in_t2: `[N] bool` resident is in T2.  stamp: `[N] i32` unique recency.  clock: `[] i32` next stamp.
    ghost_id, ghost_stamp: `[2, N] i32` B1 and B2, NO_ITEM where empty.  target: `[] f32` p, the target size of T1.
    from_b1, from_b2: `[] bool` the latest candidate was found in that ghost list."""

    in_t2: Array
    stamp: Array
    clock: Array
    ghost_id: Array
    ghost_stamp: Array
    target: Array
    from_b1: Array
    from_b2: Array


def arc() -> Policy:
    """ARC as evaluated in the paper: always admits. Residents of one retrieval are touched in rank order."""

    def init(num_slots: int) -> ARCState:
        return ARCState(
            in_t2=jnp.zeros(num_slots, bool),
            stamp=jnp.zeros(num_slots, jnp.int32),
            clock=jnp.int32(0),
            ghost_id=jnp.full((2, num_slots), NO_ITEM, jnp.int32),
            ghost_stamp=jnp.zeros((2, num_slots), jnp.int32),
            target=jnp.float32(0),
            from_b1=jnp.bool_(False),
            from_b2=jnp.bool_(False),
        )

    def observe(key: Key, state: ARCState, view: View) -> tuple[ARCState, Array]:
        del key  # deterministic
        stamp, clock = state.stamp, state.clock
        for rank in range(len(view.retrieved_slots)):
            here = at_slot(view.retrieved_slots[rank], len(stamp)) & view.touched
            stamp = jnp.where(here, clock, stamp)
            clock = clock + view.has_query.astype(jnp.int32)
        again = (view.resident_id == view.candidate_id) & view.candidate_resident
        stamp = jnp.where(again, clock, stamp)
        clock = clock + view.candidate_resident.astype(jnp.int32)
        new = view.has_candidate & ~view.candidate_resident
        ghost = (state.ghost_id == view.candidate_id) & new
        in_b1, in_b2 = ghost[0].any(), ghost[1].any()
        b1, b2 = ((state.ghost_id >= 0).astype(jnp.float32).sum(axis=1)[i] for i in (0, 1))
        up = jnp.maximum(1, b2 / jnp.maximum(b1, 1))
        down = jnp.maximum(1, b1 / jnp.maximum(b2, 1))
        target = jnp.where(in_b1, jnp.minimum(state.target + up, view.capacity.astype(jnp.float32)), state.target)
        target = jnp.where(in_b2 & ~in_b1, jnp.maximum(target - down, 0), target)
        state = ARCState(
            in_t2=state.in_t2 | view.touched | again,
            stamp=stamp,
            clock=clock,
            ghost_id=jnp.where(ghost, np.int32(NO_ITEM), state.ghost_id),
            ghost_stamp=state.ghost_stamp,
            target=target,
            # They last until the next candidate: an idle step leaves the state as it is.
            from_b1=jnp.where(view.has_candidate, in_b1, state.from_b1),
            from_b2=jnp.where(view.has_candidate, in_b2 & ~in_b1, state.from_b2),
        )
        return state, view.has_candidate

    def victim(key: Key, state: ARCState, view: View) -> Array:
        del key  # deterministic
        t1 = view.occupied & ~state.in_t2
        t2 = view.occupied & state.in_t2
        count = t1.astype(jnp.int32).sum()
        over = count.astype(jnp.float32) > state.target
        at = state.from_b2 & (count == state.target.astype(jnp.int32))
        from_t1 = (t1.any() & (over | at)) | ~t2.any()
        pool = jnp.where(from_t1, t1, t2)
        oldest = jnp.where(pool, state.stamp, _LAST).min()
        return jnp.argmax(pool & (state.stamp == oldest)).astype(jnp.int32)

    def insert(state: ARCState, slot: Array, view: View) -> ARCState:
        num_slots = len(state.stamp)
        here = at_slot(slot, num_slots)
        evicts = (here & view.occupied).any()
        gone_id = jnp.where(here, view.resident_id, np.int32(NO_ITEM)).max()
        gone_t2 = (here & state.in_t2).any()
        # The evicted id takes a free place of its ghost list, or that of the oldest ghost once K are held.
        held = state.ghost_id >= 0
        full = held.astype(jnp.int32).sum(axis=1, keepdims=True) >= view.capacity
        age = jnp.where(held, state.ghost_stamp, jnp.where(full, _LAST, np.int32(-1)))
        place = jnp.argmin(age, axis=1).astype(jnp.int32)
        listed = jnp.stack([~gone_t2, gone_t2]) & evicts
        put = jnp.stack([at_slot(place[i], num_slots) & listed[i] for i in (0, 1)])
        return state._replace(
            in_t2=jnp.where(here, state.from_b1 | state.from_b2, state.in_t2),
            stamp=jnp.where(here, state.clock, state.stamp),
            clock=state.clock + 1,
            ghost_id=jnp.where(put, gone_id, state.ghost_id),
            ghost_stamp=jnp.where(put, state.clock, state.ghost_stamp),
        )

    return Policy(init, observe, victim, insert)
