"""The online path: one request at a time against one cache, as a service would run a policy.

Lookup over the stored embeddings, policy, write: one compiled call per decision. Nothing is known of relevance online,
so the quality of a retrieval is its best cosine, clipped to [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core import random
from solarjax.core.lookup import top_k
from solarjax.core.store import EMPTY_ORDER
from solarjax.core.trace import NO_ITEM
from solarjax.core.types import NO_SLOT, Scores, View
from solarjax.core.victims import VICTIM_STREAM
from solarjax.policies.registry import PolicyCase


class Cache(NamedTuple):
    """ids: `[K] i32`.  order: `[K] i32` as `core.store.Store.order`.  embedding: `[K, D] f32` unit rows.
    similarity: `[K, K] f32` their cosines.  size, inserts, steps: `[] i32`.  state: the policy's."""

    ids: Array
    order: Array
    embedding: Array
    similarity: Array
    size: Array
    inserts: Array
    steps: Array
    state: Any


class Decided(NamedTuple):
    """slots: `[k] i32` retrieved, by rank.  written: `[] bool`.  evicted: `[] i32`, NO_ITEM if none."""

    slots: Array
    written: Array
    evicted: Array


def online(case: PolicyCase, capacity: int, dim: int, k: int, key: Array) -> tuple[Cache, Callable]:
    """An empty cache and `step(cache, query [D], item [D], item_id []) -> (cache, Decided)`, not compiled.

    Args:
      key: `[2] u32` key words; step t uses `fold_in(key, t)`, as the engine does.
    """
    policy = case.spec.make(**dict(case.static), **{n: jnp.float32(v) for n, v in case.traced})
    zero = jnp.int32(0)
    empty = Cache(
        ids=jnp.full(capacity, NO_ITEM, jnp.int32), order=jnp.full(capacity, EMPTY_ORDER, jnp.int32),
        embedding=jnp.zeros((capacity, dim), jnp.float32), similarity=jnp.zeros((capacity, capacity), jnp.float32),
        size=zero, inserts=zero, steps=zero, state=policy.init(capacity),
    )  # fmt: skip
    slot_number = jnp.arange(capacity, dtype=jnp.int32)

    def step(cache: Cache, query: Array, item: Array, item_id: Array) -> tuple[Cache, Decided]:
        occupied = cache.ids >= 0
        none = np.float32(-jnp.inf)
        similarity = jnp.where(occupied, cache.embedding @ query, none)
        near = jnp.where(occupied, cache.embedding @ item, none)
        ranked = top_k(similarity[:, None], cache.order[:, None], k)
        slots, values, retrieved = ranked.slots[:, 0], ranked.values[:, 0], ranked.mask[:, 0]
        found = (slots >= 0).astype(jnp.float32).sum()
        best = jnp.clip(values[0], 0, 1)
        mean = jnp.clip(jnp.where(slots >= 0, values, 0).sum() / jnp.maximum(found, 1), 0, 1)
        full = cache.size >= capacity
        view = View(
            t=cache.steps, query_count=cache.steps + 1, offer_count=cache.steps + 1, capacity=jnp.int32(capacity),
            size=cache.size, occupied=occupied, resident_id=cache.ids, inserted=cache.order,
            free_slot=jnp.where(full, np.int32(NO_SLOT), cache.size), has_query=jnp.bool_(True), similarity=similarity,
            retrieved=retrieved, retrieved_slots=slots, touched=retrieved, disliked=jnp.zeros_like(retrieved),
            miss=1 - best, scores=Scores(best, best, best, best, best, mean, best), has_candidate=jnp.bool_(True),
            candidate_id=item_id, candidate_resident=(cache.ids == item_id).any(), candidate_similarity=near,
        )  # fmt: skip
        now = random.fold_in(key, cache.steps)
        state, admit = policy.observe(now, cache.state, view)
        writes = admit & ~view.candidate_resident

        def replace() -> Array:
            pairs = (slot_number[:, None] != slot_number[None]) & occupied[:, None] & occupied[None]
            seen = view._replace(resident_similarity=jnp.where(pairs, cache.similarity, none))
            return policy.victim(random.fold_in(now, VICTIM_STREAM), state, seen).astype(jnp.int32)

        # One lane: the branch not taken costs nothing here.
        slot = lax.cond(writes & full, replace, lambda: cache.size)
        inserted = policy.insert(state, slot, view)
        here = (slot_number == slot) & writes
        row = jnp.where(slot_number == slot, np.float32(1), jnp.where(occupied, near, 0))
        moved = jnp.where(here[:, None], row[None], jnp.where(here[None], row[:, None], cache.similarity))
        after = Cache(
            ids=jnp.where(here, item_id, cache.ids),
            order=jnp.where(here, cache.inserts * capacity + slot, cache.order),
            embedding=jnp.where(here[:, None], item[None], cache.embedding),
            similarity=moved if case.needs.pairwise else cache.similarity,
            size=cache.size + (writes & ~full).astype(jnp.int32),
            inserts=cache.inserts + writes.astype(jnp.int32),
            steps=cache.steps + 1,
            state=jax.tree.map(lambda new, old: jnp.where(writes, new, old), inserted, state),
        )
        gone = jnp.where(here, cache.ids, np.int32(NO_ITEM)).max()
        return after, Decided(slots, writes, gone)

    return empty, step
