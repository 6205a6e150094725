"""The cache itself: which item sits in which slot. Owned by the engine; policies never write it."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.lookup import settle
from solarjax.core.trace import NO_ITEM
from solarjax.core.types import NO_SLOT

EMPTY_ORDER = np.int32(2**31 - 1)
"""`Store.order` of an empty slot: later than any resident."""


class Store(NamedTuple):
    """Slots of B lanes. Slots fill from 0 upwards and are never freed, so the lowest free slot is `size`.

    ids: `[N, B] i32` item in the slot, NO_ITEM where empty.
    order: `[N, B] i32` insertion number * N + slot: unique, increasing in insertion time, and it carries its slot, so
        one minimum finds both who came first and where it sits. EMPTY_ORDER where empty.
    size: `[B] i32` residents.
    inserts: `[B] i32` insertions so far.
    """

    ids: Array
    order: Array
    size: Array
    inserts: Array


def empty(num_slots: int, lanes: int) -> Store:
    """A store with every slot empty."""
    return Store(
        ids=jnp.full((num_slots, lanes), NO_ITEM, jnp.int32),
        order=jnp.full((num_slots, lanes), EMPTY_ORDER, jnp.int32),
        size=jnp.zeros(lanes, jnp.int32),
        inserts=jnp.zeros(lanes, jnp.int32),
    )


def write(store: Store, slot: Array, item: Array, where: Array, one: Array) -> Store:
    """Puts `item [B]` into `slot [B]` in the lanes of `where [B] bool`.

    A full lane replaces what is there; a lane with room must be given `slot == size`. `one`: see `lookup.settle`.
    """
    num_slots = store.ids.shape[0]
    target = settle(jnp.where(where, slot, np.int32(NO_SLOT)), one)
    number = settle(store.inserts * np.int32(num_slots) + slot, one)
    hit = jnp.arange(num_slots, dtype=jnp.int32)[:, None] == target[None]
    grows = where & (slot == store.size)
    return Store(
        ids=jnp.where(hit, item[None], store.ids),
        order=jnp.where(hit, number[None], store.order),
        size=store.size + grows.astype(jnp.int32),
        inserts=store.inserts + where.astype(jnp.int32),
    )


def check_order_range(num_slots: int, num_steps: int) -> None:
    """Raises ValueError if insertion keys of such a run would not fit int32."""
    if (num_steps + 1) * num_slots >= 2**31:
        raise ValueError(
            f"{num_steps} steps x {num_slots} slots exceed the insertion keys (steps x slots must stay below 2^31)"
        )
