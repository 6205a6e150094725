"""Relevance tables: binary ones are packed, 32 items to a word.

A step reads the relevance of the k retrieved items in every lane, at random places of a table far larger than a
core's cache. Packed, a query's row is one cache line for 500 items instead of eight.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.tables import Tables

WORD = 32
"""Items per word."""


@jax.jit
def pack_bits(relevance: Array) -> Array:
    """`[..., M] bool -> [..., ceil(M / 32)] u32`; item m is bit m % 32 of word m // 32."""
    items = relevance.shape[-1]
    padded = jnp.pad(relevance, [(0, 0)] * (relevance.ndim - 1) + [(0, -items % WORD)])
    groups = padded.reshape(*relevance.shape[:-1], -1, WORD)
    bits = (groups[..., i].astype(jnp.uint32) << np.uint32(i) for i in range(WORD))
    return functools.reduce(jnp.bitwise_or, bits)


def queries_of_items(tables: Tables) -> Array:
    """`[M, W, ceil(Q / 32)] u32`: the other way round, and whatever the kind of relevance, see `Tables.queries_of`."""
    table, items = tables.relevance, tables.similarity.shape[2]
    if table.dtype == jnp.uint32:
        bits = (table[..., None] >> jnp.arange(WORD, dtype=jnp.uint32)) & np.uint32(1)
        table = bits.reshape(*table.shape[:-1], -1)[..., :items]
    return pack_bits(jnp.transpose(table > 0, (2, 1, 0)))


def packed(tables: Tables) -> Tables:
    """The tables with binary relevance packed; grades stay as they are."""
    if tables.relevance.dtype != bool:
        return tables
    return tables._replace(relevance=pack_bits(tables.relevance))


def relevance_of(tables: Tables, row: Array, ids: Array) -> Array:
    """Relevance `f32` of item `ids` to the query of `row` (see `lanes.row_of`); the two broadcast.

    Negative ids read item 0: the caller masks them.
    """
    table, item = tables.relevance, jnp.maximum(ids, 0)
    flat = table.reshape(-1)
    if table.dtype != jnp.uint32:
        return flat.at[row * np.int32(table.shape[-1]) + item].get(mode="promise_in_bounds").astype(jnp.float32)
    index = row * np.int32(table.shape[-1]) + (item >> np.int32(5))
    word = flat.at[index].get(mode="promise_in_bounds")
    return ((word >> (item & np.int32(31)).astype(jnp.uint32)) & np.uint32(1)).astype(jnp.float32)
