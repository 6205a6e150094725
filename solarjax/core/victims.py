"""Running the victim rule, for all lanes or only for those that need one.

A costly rule (posterior sampling, similarities of residents) runs on small gathered blocks of the lanes that
replace a resident in this step.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core import neighbours, random
from solarjax.core.lanes import Lanes, Rules, over_lanes, take
from solarjax.core.lookup import materialize
from solarjax.core.subset import take_lanes, while_blocks
from solarjax.core.tables import Tables
from solarjax.core.types import View, given

VICTIM_STREAM = 1
"""`fold_in` constant that separates the victim's draws from the admission's within a step."""


def choose_victims(
    rules: Rules,
    tables: Tables,
    lanes: Lanes,
    key: Array,
    state: Any,
    view: View,
    nearest: Array | None,
    needed: Array,
) -> tuple[Array, Array | None]:
    """Slot to replace, `[B] i32`, meaningful only where `needed [B] bool`; and `nearest` once it is replaced.

    Args:
      nearest: lists of `core.neighbours`, or None where all pairs are read.
    """
    size = needed.shape[0]
    operands = (lanes.table, dict(lanes.params), key, state, view)
    if not rules.costly_victim:
        return _choose(rules, tables, operands, size), nearest

    def choose_block(index: Array, carry: tuple[Array, Array | None]) -> tuple[Array, Array | None]:
        slots, nearest = carry
        picked, block = take_lanes(operands, index), index.shape[0]
        if nearest is None:
            return slots.at[index].set(_choose(rules, tables, picked, block), mode="drop"), None
        lists = jnp.moveaxis(jnp.take(nearest, index, axis=0, mode="clip"), 0, -1)
        chosen, lists = _choose_and_follow(rules, tables, picked, lists, index < size)
        after = nearest.at[index].set(jnp.moveaxis(lists, -1, 0), mode="drop")
        return slots.at[index].set(chosen, mode="drop"), after

    return while_blocks(needed, choose_block, (jnp.zeros(size, jnp.int32), nearest))


def _choose_and_follow(
    rules: Rules, tables: Tables, operands: tuple[Array, Any, Array, Any, View], lists: Array, needed: Array
) -> tuple[Array, Array]:
    """`_choose` for lanes that replace a resident where `needed [b]`, by lists `[L, N, b]`; and the lists afterwards.

    What fills a block up is a lane that may never have replaced anybody. Its lists are not kept, so completing them
    would be a look at all its residents, and again at the next step.
    """
    near = given(tables.item_similarity, "item_similarity")
    table, params, key, state, view = operands
    lists = neighbours.refresh(lists, near, table, view.resident_id, view.size, rules.nearest, needed)
    seen = view._replace(nearest=lists[: rules.nearest])
    slot = _choose(rules, tables, (table, params, key, state, seen), needed.shape[0])
    return slot, neighbours.replace(lists, near, table, view.resident_id, slot, view.candidate_id)


def _choose(rules: Rules, tables: Tables, operands: tuple[Array, Any, Array, Any, View], size: int) -> Array:
    table, params, key, state, view = operands
    axes = jax.tree.map(lambda _: -1, view)
    pairwise = rules.pairwise and view.nearest is None
    if pairwise:
        # Lanes first here: the N * N reads of one lane stay within its own table, which a cache and a TLB can hold.
        near, ids = given(tables.item_similarity, "item_similarity"), view.resident_id.T
        row = table[:, None] * np.int32(near.shape[1]) + jnp.maximum(ids, 0)
        slot = jnp.arange(ids.shape[1], dtype=jnp.int32)
        other = (slot[:, None] != slot[None])[None]

        def gather() -> Array:
            there = other & (ids >= 0)[:, None, :]
            return jnp.where(there, take(near, row[:, :, None], ids[:, None, :]), np.float32(-jnp.inf))

        pairs = materialize(gather, view.t[0] >= 0)
        view = view._replace(resident_similarity=pairs)
        axes = axes._replace(resident_similarity=0)

    def one(p: Any, k: Array, s: Any, v: View) -> Array:
        slot = rules.make(**p).victim(random.fold_in(k, VICTIM_STREAM), s, v)
        # A rule that names no resident cannot break the store: the earliest inserted goes instead.
        valid = (slot >= 0) & (slot < v.capacity)
        first = v.inserted.min() % np.int32(rules.num_slots)
        return jnp.where(valid, slot, first).astype(jnp.int32)

    if not pairwise:
        return over_lanes(one, params, key, state, view, size=size)
    return jax.vmap(one, in_axes=(-1, -1, -1, axes), out_axes=-1, axis_size=size)(params, key, state, view)
