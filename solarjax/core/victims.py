"""Running the victim rule, for all lanes or only for those that need one.

A costly rule (posterior sampling, pairwise similarities) runs on small gathered blocks of the lanes that
replace a resident in this step. With a gate that opens on 10-17 % of the steps that is most of the saving;
`lax.cond` under `vmap` would evaluate the rule for everyone.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core import random
from solarjax.core.lanes import Lanes, Rules, over_lanes, take
from solarjax.core.lookup import materialize
from solarjax.core.tables import Tables
from solarjax.core.types import View, given

VICTIM_STREAM = 1
"""`fold_in` constant that separates the victim's draws from the admission's within a step."""
BLOCK = 32
"""Lanes sampled together: large enough to vectorise, small enough that a gate wastes little."""


def choose_victims(
    rules: Rules, tables: Tables, lanes: Lanes, key: Array, state: Any, view: View, needed: Array
) -> Array:
    """Slot to replace, `[B] i32`; meaningful only where `needed [B] bool`."""
    size = needed.shape[0]
    operands = (lanes.table, dict(lanes.params), key, state, view)
    if not rules.costly_victim:
        return _choose(rules, tables, operands, size)

    block = min(BLOCK, size)
    todo = jnp.nonzero(needed, size=size, fill_value=size)[0].astype(jnp.int32)
    todo = jnp.concatenate([todo, jnp.full(-size % block, size, jnp.int32)])
    count = needed.sum(dtype=jnp.int32)

    def choose_block(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        number, slots = carry
        index = lax.dynamic_slice(todo, (number * np.int32(block),), (block,))
        picked = jax.tree.map(lambda x: jnp.take(x, index, axis=-1, mode="clip"), operands)
        chosen = _choose(rules, tables, picked, block)
        return number + 1, slots.at[index].set(chosen, mode="drop")

    start = (jnp.int32(0), jnp.zeros(size, jnp.int32))
    return lax.while_loop(lambda carry: carry[0] * np.int32(block) < count, choose_block, start)[1]


def _choose(rules: Rules, tables: Tables, operands: tuple[Array, Any, Array, Any, View], size: int) -> Array:
    table, params, key, state, view = operands
    axes = jax.tree.map(lambda _: -1, view)
    if rules.pairwise:
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

    if not rules.pairwise:
        return over_lanes(one, params, key, state, view, size=size)
    return jax.vmap(one, in_axes=(-1, -1, -1, axes), out_axes=-1, axis_size=size)(params, key, state, view)
