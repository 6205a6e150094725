"""Least recently used."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from solarjax.core.types import Key, View
from solarjax.policies.combine import Victim
from solarjax.policies.slots import argmin_resident, at_slot


class LRUState(NamedTuple):
    """last_accessed: `[N] i32` step of the last access; insertion is one."""

    last_accessed: Array


def lru() -> Victim:
    """Evicts the resident accessed longest ago. Being in the top-k is an access, relevant or not (unless the sweep's
    feedback says otherwise). Residents retrieved in the same step tie; ties go to the earliest inserted."""

    def touch(state: LRUState, view: View) -> LRUState:
        return LRUState(jnp.where(view.touched, view.t, state.last_accessed))

    def choose(key: Key, state: LRUState, view: View) -> Array:
        del key  # deterministic
        return argmin_resident(state.last_accessed, view)

    def insert(state: LRUState, slot: Array, view: View) -> LRUState:
        return LRUState(jnp.where(at_slot(slot, len(view.occupied)), view.t, state.last_accessed))

    return Victim(lambda num_slots: LRUState(jnp.zeros(num_slots, jnp.int32)), touch, choose, insert)
