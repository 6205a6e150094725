"""Least frequently used."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, View
from solarjax.policies.combine import Victim
from solarjax.policies.slots import argmin_resident, at_slot


class LFUState(NamedTuple):
    """access_count: `[N] i32` accesses since insertion, which itself counts 0."""

    access_count: Array


def lfu() -> Victim:
    """Evicts the resident with the fewest accesses; ties go to the earliest inserted. Counts die with the resident."""

    def touch(state: LFUState, view: View) -> LFUState:
        return LFUState(state.access_count + view.touched.astype(jnp.int32))

    def choose(key: Key, state: LFUState, view: View) -> Array:
        del key  # deterministic
        return argmin_resident(state.access_count, view)

    def insert(state: LFUState, slot: Array, view: View) -> LFUState:
        return LFUState(jnp.where(at_slot(slot, len(view.occupied)), np.int32(0), state.access_count))

    return Victim(lambda num_slots: LFUState(jnp.zeros(num_slots, jnp.int32)), touch, choose, insert)
