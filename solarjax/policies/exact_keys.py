"""Carrying policies that were defined on exact keys over to semantic hits: accesses, queues and ghosts.

A classic cache is asked for a key: it is there or not. Here a query retrieves the k nearest residents and an item
arrives. The policies that use this file read "request of a key" as follows.
  * Hit: a resident that was retrieved (and counts as accessed under the sweep's feedback), or that arrives again. A
    resident that does both within one step is accessed once.
  * Miss: an item arrives that is not resident. A query that finds nothing relevant requests no key and is no miss.
  * Ghost: an evicted item whose id is remembered. It is hit when that very item arrives again, never by similarity.
    On a stream that offers every item once, ghosts are never hit.
Residents accessed in one step are equally recent; ties go to the earliest inserted, as everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.trace import NO_ITEM
from solarjax.core.types import View
from solarjax.policies.slots import earliest

LAST = np.int32(2**31 - 1)
"""Greater than every stamp, count and insertion key."""


def some(mask: Array) -> Array:
    """`[] bool`: any of `mask [N]`, as the integer maximum that vectorises over lanes."""
    return mask.astype(jnp.int32).max() > 0


def count(mask: Array) -> Array:
    """`[] i32`: how many of `mask [N]`."""
    return mask.astype(jnp.int32).sum()


def accessed(view: View) -> Array:
    """`[N] bool`: residents accessed in this step, by retrieval or by arriving again."""
    return view.touched | ((view.resident_id == view.candidate_id) & view.candidate_resident)


def least(mask: Array, score: Array, view: View) -> Array:
    """Slot of the smallest `score [N] i32` within `mask`; ties to the earliest inserted. Undefined if it is empty."""
    low = jnp.where(mask, score, LAST).min()
    return earliest(mask & (score == low), view)


def share(fraction: Array | float, total: Array, at_least: int) -> Array:
    """`[] i32`: floor(fraction * total), at least `at_least`: a part of the capacity in whole slots."""
    part = jnp.floor(jnp.asarray(fraction, jnp.float32) * total.astype(jnp.float32)).astype(jnp.int32)
    return jnp.maximum(part, np.int32(at_least))


class Ghosts(NamedTuple):
    """Ids of evicted items in order of eviction. ids: `[N] i32`, NO_ITEM where empty.  since: `[N] i32` step."""

    ids: Array
    since: Array


def no_ghosts(num_slots: int) -> Ghosts:
    """An empty list with room for `num_slots` ids."""
    return Ghosts(jnp.full(num_slots, NO_ITEM, jnp.int32), jnp.zeros(num_slots, jnp.int32))


def ghost_of(ghosts: Ghosts, item: Array) -> Array:
    """`[N] bool`: the entry of `item [] i32`, nowhere if it is not remembered or NO_ITEM."""
    return (ghosts.ids == item) & (item >= 0)


def forget(ghosts: Ghosts, where: Array) -> Ghosts:
    """Without the entries `where [N] bool`."""
    return ghosts._replace(ids=jnp.where(where, np.int32(NO_ITEM), ghosts.ids))


def remember(ghosts: Ghosts, item: Array, limit: Array, where: Array, view: View) -> tuple[Ghosts, Array]:
    """Appends `item [] i32` if `where [] bool`; beyond `limit [] i32` entries the oldest is dropped.

    Returns:
      The list, and `[N] bool` the entry that was written.
    """
    num_slots = len(ghosts.ids)
    slot = jnp.arange(num_slots, dtype=jnp.int32)
    held = ghosts.ids >= 0
    # At most one eviction per step, so (step, slot) is unique and increasing; free entries come before all of them.
    free = jnp.where(count(held) >= limit, LAST, slot - np.int32(num_slots))
    order = jnp.where(held, ghosts.since * np.int32(num_slots) + slot, free)
    entry = (order == order.min()) & where
    return Ghosts(jnp.where(entry, item, ghosts.ids), jnp.where(entry, view.t, ghosts.since)), entry


def leaving(here: Array, view: View) -> Array:
    """`[] i32`: id of the resident at the one-hot `here [N] bool`, NO_ITEM if the slot is empty."""
    return jnp.where(here, view.resident_id, np.int32(NO_ITEM)).max()
