"""First in, first out."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, View
from solarjax.policies.combine import Victim


class FIFOState(NamedTuple):
    """next_out: `[] i32` slot of the earliest inserted resident of a full cache."""

    next_out: Array


def fifo() -> Victim:
    """Evicts the earliest inserted resident.

    Slots fill from 0 upwards and this rule alone replaces them, so insertion order is slot order, cyclic: a pointer
    is enough.
    """

    def choose(key: Key, state: FIFOState, view: View) -> Array:
        del key, view  # deterministic
        return state.next_out

    def insert(state: FIFOState, slot: Array, view: View) -> FIFOState:
        following = jnp.where(slot + 1 >= view.capacity, np.int32(0), slot + 1)
        return FIFOState(jnp.where(view.size >= view.capacity, following, state.next_out))

    return Victim(lambda num_slots: FIFOState(jnp.int32(0)), lambda state, view: state, choose, insert)
