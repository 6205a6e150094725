"""Frozen pools: one FILL schedule whose first K arrivals are the pool of capacity K, for every K at once."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode
from solarjax.core.types import Key
from solarjax.workloads.draws import order
from solarjax.workloads.topics import steps_of
from solarjax.workloads.types import Instance


def preferred_order(key: Key, preferred: Array) -> Array:
    """The preferred items first, then the others, each group in uniform order; `[M] i32`. Consumes `key`.

    Args:
      preferred: `[M] bool`.
    """
    shuffled = order(key, preferred.shape[0])
    return shuffled[jnp.argsort(~preferred[shuffled], stable=True)]


def frozen_pool(items: Array, queries: Array, relevance: Array, fill_order: Array, ok: Array) -> Instance:
    """FILL with `fill_order`, then ask every query of the frozen pool.

    The engine offers FILL arrivals only while the cache has room, so the pool of capacity K is
    `fill_order[:K]`.

    Args:
      items, queries, relevance, ok: see `Instance`.
      fill_order: `[M] i32` permutation of the items.

    Returns:
      The instance: M FILL steps, then Q FROZEN ones; T = M + Q.
    """
    num_items, num_queries = items.shape[0], queries.shape[0]
    no_query = jnp.full((num_items,), NO_QUERY, jnp.int32)
    no_item = jnp.full((num_queries,), NO_ITEM, jnp.int32)
    return Instance(
        items=items,
        queries=queries,
        relevance=relevance,
        query=jnp.concatenate([no_query, jnp.arange(num_queries, dtype=jnp.int32)]),
        arrival=jnp.concatenate([fill_order, no_item]),
        mode=jnp.concatenate([steps_of(StepMode.FILL, num_items), steps_of(StepMode.FROZEN, num_queries)]),
        ok=ok,
    )
