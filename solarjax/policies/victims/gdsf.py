"""Greedy-Dual-Size-Frequency: value is frequency times cost over size, on a clock that lets old fame fade."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, View
from solarjax.policies.combine import Victim
from solarjax.policies.exact_keys import accessed
from solarjax.policies.slots import argmin_resident, at_slot


class GDSFState(NamedTuple):
    """frequency: `[N] f32` accesses, insertion counts 1.  cost: `[N] f32` of a miss, >= 1.
    priority: `[N] f32`.  clock: `[] f32` priority of the latest victim."""

    frequency: Array
    cost: Array
    priority: Array
    clock: Array


def gdsf(miss_weight: Array | float) -> Victim:
    """Evicts the resident of least priority `clock + frequency * cost / size`, set at its last access.

    The clock is raised to the victim's priority. Size: every item takes one slot, so it is 1. Cost: what missing the
    item again would cost, `1 + miss_weight * delta`, delta the miss cost (1 - quality) of the query that the item
    arrived with. With `miss_weight` 0 all items cost the same: LFU with dynamic ageing.

    Args:
      miss_weight: `[]`, non-negative.

    References:
      Cherkasova. Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy. HP Laboratories
      HPL-98-69R1, 1998.
    Carried over to semantic hits as `policies.exact_keys` says.
    """

    def touch(state: GDSFState, view: View) -> GDSFState:
        hit = accessed(view)
        frequency = state.frequency + hit.astype(jnp.float32)
        priority = jnp.where(hit, state.clock + frequency * state.cost, state.priority)
        return state._replace(frequency=frequency, priority=priority)

    def choose(key: Key, state: GDSFState, view: View) -> Array:
        del key  # deterministic
        return argmin_resident(state.priority, view)

    def insert(state: GDSFState, slot: Array, view: View) -> GDSFState:
        here = at_slot(slot, len(view.occupied))
        gone = jnp.where(here, state.priority, np.float32(0)).max()
        clock = jnp.where(view.size >= view.capacity, gone, state.clock)
        cost = 1 + miss_weight * view.miss
        return GDSFState(
            frequency=jnp.where(here, np.float32(1), state.frequency),
            cost=jnp.where(here, cost, state.cost),
            priority=jnp.where(here, clock + cost, state.priority),
            clock=clock,
        )

    def init(num_slots: int) -> GDSFState:
        zeros = jnp.zeros(num_slots, jnp.float32)
        return GDSFState(zeros, zeros, zeros, jnp.float32(0))

    return Victim(init, touch, choose, insert)
