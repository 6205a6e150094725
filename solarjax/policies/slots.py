"""Small helpers on slot arrays, shared by every policy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import View

_LAST = np.int32(2**31 - 1)


def earliest(mask: Array, view: View) -> Array:
    """Slot of the earliest inserted resident within `mask [N] bool`; `[] i32`. Undefined if the mask is empty."""
    num_slots = view.inserted.shape[0]
    return jnp.where(mask, view.inserted, _LAST).min() % np.int32(num_slots)


def argmin_resident(score: Array, view: View) -> Array:
    """Slot of the resident with the smallest `score [N]`; ties to the earliest inserted. `[] i32`."""
    top = jnp.asarray(jnp.inf if jnp.issubdtype(score.dtype, jnp.floating) else _LAST, score.dtype)
    masked = jnp.where(view.occupied, score, top)
    return earliest((masked == masked.min()) & view.occupied, view)


def at_slot(slot: Array, num_slots: int) -> Array:
    """One-hot `[N] bool`. A comparison vectorises over lanes where a scatter would not."""
    return jnp.arange(num_slots, dtype=jnp.int32) == slot


def top_mean(values: Array, valid: Array, count: int) -> Array:
    """Mean of the `count` largest of `values [..., N]` within `valid`; over what is there if fewer, 0 if none.

    `count` passes of max: exact for ties as well, since equal values are interchangeable in a mean.
    """
    rest = jnp.where(valid, values, -jnp.inf)
    index = jnp.arange(values.shape[-1], dtype=jnp.int32)
    total = jnp.zeros(values.shape[:-1], values.dtype)
    number = jnp.zeros(values.shape[:-1], values.dtype)
    for _ in range(count):
        best = rest.max(axis=-1)
        there = best > -jnp.inf
        total = total + jnp.where(there, best, 0)
        number = number + there.astype(values.dtype)
        first = jnp.where(rest == best[..., None], index, _LAST).min(axis=-1)
        rest = jnp.where(index == first[..., None], -jnp.inf, rest)
    return total / jnp.maximum(number, 1)
