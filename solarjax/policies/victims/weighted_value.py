"""SOLAR-A's victim rule: a weighted sum of recency, frequency and novelty.

Reference: the authors' release (the paper calls it multi-score eviction and gives no formula).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, View
from solarjax.policies.combine import Victim
from solarjax.policies.slots import argmin_resident, at_slot, nearest_other


class WeightedValueState(NamedTuple):
    """last_accessed: `[N] i32` step of the last access or insertion.  access_count: `[N] i32`, 0 on insertion."""

    last_accessed: Array
    access_count: Array


def weighted_value(
    recency_weight: Array | float,
    frequency_weight: Array | float,
    novelty_weight: Array | float,
    recency_scale: Array | float,
) -> Victim:
    """Evicts the resident of least value `w_r exp(-(t - last_accessed) / scale) + w_f access_count / max(offers, 1)
    + w_n clip(1 - nearest-other cosine, 0, 1)`.

    `offers` counts every arrival so far, duplicates and the present one included. Alone, novelty is 1.
    """

    def touch(state: WeightedValueState, view: View) -> WeightedValueState:
        return WeightedValueState(
            jnp.where(view.touched, view.t, state.last_accessed),
            state.access_count + view.touched.astype(jnp.int32),
        )

    def choose(key: Key, state: WeightedValueState, view: View) -> Array:
        del key  # deterministic
        # Floor 0: alone, nothing is near; and a negative cosine is clipped below anyway.
        nearest = jnp.maximum(nearest_other(view), np.float32(0))
        idle = (view.t - state.last_accessed).astype(jnp.float32)
        offers = jnp.maximum(view.offer_count, 1).astype(jnp.float32)
        value = (
            recency_weight * jnp.exp(-idle / recency_scale)
            + frequency_weight * state.access_count.astype(jnp.float32) / offers
            + novelty_weight * jnp.clip(1 - nearest, 0, 1)
        )
        return argmin_resident(value, view)

    def insert(state: WeightedValueState, slot: Array, view: View) -> WeightedValueState:
        here = at_slot(slot, len(view.occupied))
        return WeightedValueState(
            jnp.where(here, view.t, state.last_accessed), jnp.where(here, np.int32(0), state.access_count)
        )

    def init(num_slots: int) -> WeightedValueState:
        return WeightedValueState(jnp.zeros(num_slots, jnp.int32), jnp.zeros(num_slots, jnp.int32))

    return Victim(init, touch, choose, insert)
