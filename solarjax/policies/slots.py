"""Small helpers on slot arrays, shared by every policy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core.lookup import materialize
from solarjax.core.types import View, given

_LAST = np.int32(2**31 - 1)
_NONE = np.float32(-np.inf)


def earliest(mask: Array, view: View) -> Array:
    """Slot of the earliest inserted resident within `mask [N] bool`; `[] i32`. Undefined if the mask is empty."""
    num_slots = view.inserted.shape[0]
    return jnp.where(mask, view.inserted, _LAST).min() % np.int32(num_slots)


def argmin_resident(score: Array, view: View) -> Array:
    """Slot of the resident with the smallest `score [N]`; ties to the earliest inserted. `[] i32`."""
    if jnp.issubdtype(score.dtype, jnp.floating):
        # Computed once: compiled into both the minimum and the comparison, a sum with a product may be rounded once in
        # one and twice in the other, and then nobody equals the minimum.
        computed, anyone = score, lax.index_in_dim(view.occupied, 0, keepdims=False)  # slot 0 fills first
        score = materialize(lambda: computed, anyone)
    top = jnp.asarray(jnp.inf if jnp.issubdtype(score.dtype, jnp.floating) else _LAST, score.dtype)
    masked = jnp.where(view.occupied, score, top)
    return earliest((masked == masked.min()) & view.occupied, view)


def at_slot(slot: Array, num_slots: int) -> Array:
    """One-hot `[N] bool`. A comparison vectorises over lanes where a scatter would not."""
    return jnp.arange(num_slots, dtype=jnp.int32) == slot


def nearest_other(view: View) -> Array:
    """`[N] f32` cosine of each resident to the nearest other one, -inf where there is none."""
    if view.nearest is not None:
        return view.nearest[0]
    return given(view.resident_similarity, "resident_similarity").max(axis=1)


def nearest_mean(view: View, count: int) -> Array:
    """`[N] f32` mean cosine of each resident to its `count` nearest others; fewer if fewer, 0 if none."""
    if view.nearest is None:
        return top_mean(given(view.resident_similarity, "resident_similarity"), count)
    return _ordered_mean(view.nearest[:count])


def _ordered_mean(best: Array) -> Array:
    """`top_mean` of `best [count, N]`, falling along the first axis, to the last bit.

    Equal numbers are counted and multiplied as there: added one by one they could round otherwise.
    """
    total = jnp.zeros(best.shape[1:], best.dtype)
    there = best > _NONE
    for rank in range(best.shape[0]):
        first = best[rank] != best[rank - 1] if rank else jnp.ones(best.shape[1:], bool)
        times = sum((best[r] == best[rank]).astype(jnp.float32) for r in range(rank, best.shape[0]))
        total = total + jnp.where(first & there[rank], best[rank], np.float32(0)) * times
    used = there.astype(jnp.float32).sum(axis=0)
    return total / jnp.maximum(used, np.float32(1))


def top_mean(held: Array, count: int) -> Array:
    """Mean of the `count` largest of `held [..., N]`, -inf counting as absent; over what is there if fewer, 0 if none.

    `count` passes of max find the largest different values; one more tells whether any of them occurs twice, and only
    then a slower rule counts how often. Both add the same numbers in the same order, so a value does not depend on
    whether some other lane had equal values.
    """
    bounds = [held.max(axis=-1)]
    for _ in range(count - 1):
        bounds.append(jnp.where(held < bounds[-1][..., None], held, _NONE).max(axis=-1))
    # Counted in float32 (exact): integer sums go through a slower reduction.
    there = ((held >= bounds[-1][..., None]) & (held > _NONE)).astype(jnp.float32).sum(axis=-1)
    different = (jnp.stack(bounds) > _NONE).astype(jnp.float32).sum(axis=0)
    total = jnp.zeros(held.shape[:-1], held.dtype)
    for bound in bounds:
        total = total + jnp.where(bound > _NONE, bound, np.float32(0))

    def recount(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        # Reading the flag keeps the compiler from moving the slow rule out of the loop, where it would always run.
        again = jnp.where(carry[0], held, _NONE)
        total = jnp.zeros(held.shape[:-1], held.dtype)
        left = jnp.full(held.shape[:-1], count, jnp.float32)
        for bound in bounds:
            times = (again == bound[..., None]).astype(jnp.float32).sum(axis=-1)
            take = jnp.where(bound > _NONE, jnp.minimum(times, left), np.float32(0))
            total = total + jnp.where(take > 0, bound, np.float32(0)) * take
            left = left - take
        return jnp.bool_(False), total, np.float32(count) - left

    tied = (there > different).any()
    _, total, used = lax.while_loop(lambda carry: carry[0], recount, (tied, total, different))
    return total / jnp.maximum(used, np.float32(1))
