"""Each resident's nearest other residents, followed from eviction to eviction.

A rule that asks how close a resident is to its nearest others would read all N * N pairs at every eviction. An eviction
changes one resident: everybody else loses one neighbour and meets one. A list of a few more neighbours than the rule
reads survives many losses, and only who has too few left looks at its whole row again. What the rule reads is what all
pairs give, to the last bit.

A list holds the largest cosines to other residents in falling order, equal ones as often as they occur, then -inf. How
many it holds varies; whatever is not in it is at most its last.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core.lanes import take
from solarjax.core.lookup import materialize

_NONE = np.float32(-np.inf)
_LAST = np.int32(2**31 - 1)
SPARE = 2
"""Neighbours kept beyond those that the rule reads: with more, more is moved; with fewer, more rows are read again."""


def empty(count: int, num_slots: int, lanes: int) -> Array:
    """Lists of nothing, `[B, count + SPARE, N] f32`: lanes first, so that a block of them moves whole rows."""
    return jnp.full((lanes, count + SPARE, num_slots), _NONE, jnp.float32)


def largest(values: Array, count: int) -> Array:
    """The `count` largest of `values [N, R]` in falling order, equal ones as often as they occur: `[count, R]`."""
    slot = jnp.arange(values.shape[0], dtype=jnp.int32)[:, None]
    found = []
    for _ in range(count):
        best = values.max(axis=0)
        at = jnp.where(values == best[None], slot, _LAST).min(axis=0)
        values = jnp.where(slot == at[None], _NONE, values)
        found.append(best)
    return jnp.stack(found)


def _apart(ids: Array, slot: Array) -> tuple[Array, Array, Array]:
    """Where `slot [b]` is, `[N, b] bool`; its item `[b]` (0 if there is no such slot); the other items `[N, b]`."""
    here = jnp.arange(ids.shape[0], dtype=jnp.int32)[:, None] == slot[None]
    return here, jnp.where(here, ids, np.int32(0)).max(axis=0), jnp.where(here, np.int32(-1), ids)


def _cosines(near: Array, table: Array, item: Array, ids: Array) -> Array:
    """Cosines of `item [b]` to each of `ids [N, b]`, -inf where negative. The table is symmetric to the bit: reading
    along a row of it is what a cache and a TLB can hold."""
    first = table * np.int32(near.shape[1]) + jnp.maximum(item, 0)  # padding may offer nothing
    return materialize(lambda: jnp.where(ids >= 0, take(near, first[None], ids), _NONE), table[0] >= 0)


def refresh(lists: Array, near: Array, table: Array, ids: Array, size: Array, count: int, needed: Array) -> Array:
    """Lists that hold at least `count` neighbours (all others where there are fewer); untouched but where needed.

    Args:
      lists: `[L, N, b] f32`, lanes last.   size: `[b] i32` residents.
      near: `[W, M, M] f32` cosines of items.   table: `[b] i32` index W.   ids: `[N, b] i32` items by slot.
      needed: `[b] bool` lanes whose lists are read; the loop runs as long as any of them is short.
    """
    slot = jnp.arange(ids.shape[0], dtype=jnp.int32)[:, None]
    held = (lists[:count] > _NONE).astype(jnp.float32).sum(axis=0)
    short = needed[None] & (ids >= 0) & (held < jnp.minimum(size - 1, np.int32(count)).astype(jnp.float32)[None])

    def look(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        # In each lane the first resident whose list is short; where none is, a slot that does not exist.
        todo, lists = carry
        at = jnp.where(todo, slot, np.int32(ids.shape[0])).min(axis=0)
        here, own, others = _apart(ids, at)
        new = largest(_cosines(near, table, own, others), lists.shape[0])
        return todo & ~here, jnp.where(here[None], new[:, None], lists)

    return lax.while_loop(lambda carry: carry[0].any(), look, (short, lists))[1]


def replace(lists: Array, near: Array, table: Array, ids: Array, slot: Array, item: Array) -> Array:
    """The lists after `item [b] i32`, new, has taken the place of the resident of `slot [b] i32`."""
    here, old, others = _apart(ids, slot)
    lost = _cosines(near, table, old, others)
    met = _cosines(near, table, item, others)
    # Of the entries equal to what is lost one goes. If the lost neighbour was not in the list but as near as its last,
    # that one goes instead: a shorter list, and still the largest.
    after = jnp.concatenate([lists[1:], jnp.full_like(lists[:1], _NONE)])
    lists = jnp.where(lists > lost[None], lists, after)
    # A new neighbour further away than the last may be further than others that the list does not hold.
    held = (lists > _NONE).astype(jnp.float32).sum(axis=0)
    last = jnp.where(lists > _NONE, lists, np.float32(np.inf)).min(axis=0)
    all_held = (others >= 0).astype(jnp.float32).sum(axis=0) - 1
    rest = jnp.where((met >= last) | (held >= all_held[None]), met, _NONE)
    ranks = []
    for rank in range(lists.shape[0]):
        ranks.append(jnp.maximum(lists[rank], rest))
        rest = jnp.minimum(lists[rank], rest)
    own = largest(met, lists.shape[0])
    return jnp.where(here[None], own[:, None], jnp.stack(ranks))
