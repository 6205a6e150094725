"""From a lookup to its scores, and to what the policy may see of it."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.lanes import Lanes, Rules, take
from solarjax.core.lookup import Ranked, materialize, settle
from solarjax.core.metrics import score_retrieval
from solarjax.core.relevance import pack_bits, relevance_of
from solarjax.core.store import Store
from solarjax.core.tables import Tables
from solarjax.core.trace import NO_ITEM
from solarjax.core.types import NO_SLOT, Scores, View, given


class Step(NamedTuple):
    """One row of `Schedule`, spread to lanes (`[B]` each); `t` is `[]` and the future tables stay `[P, M]`."""

    t: Array
    query: Array
    arrival: Array
    arrival_on_miss: Array | None
    mode: Array
    second_half: Array
    slope_weight: Array
    future_uses: Array | None
    next_use: Array | None
    last_asked: Array | None


def score(rules: Rules, tables: Tables, row: Array, ranked: Ranked, cache: Store) -> tuple[Scores, Array]:
    """Scores of the lookup (`[B]` each) and the retrieved items `[k, B] i32` (undefined where the slot is NO_SLOT)."""
    there = ranked.slots >= 0
    lane = jnp.arange(row.shape[0], dtype=jnp.int32)
    flat = jnp.maximum(ranked.slots, 0) * np.int32(row.shape[0]) + lane[None]
    ids = cache.ids.reshape(-1).at[flat].get(mode="promise_in_bounds")
    relevance = jnp.where(there, relevance_of(tables, row[None], ids), np.float32(0))
    answer = None
    if tables.answer_recall is not None:
        answer = jnp.where(there, take(tables.answer_recall, row[None], ids), np.float32(0))
    total = tables.relevant_total.reshape(-1).at[row].get(mode="promise_in_bounds")
    return score_retrieval(relevance, ranked.values, answer, total), ids


def build_view(
    rules: Rules,
    tables: Tables,
    lanes: Lanes,
    step: Step,
    cache: Store,
    clocks: tuple[Array, Array],
    ranked: Ranked,
    similarity: Array,
    scores: Scores,
    miss: Array,
    shown: Array,
    item: Array,
) -> View:
    """The view of every lane, lane axis last. `shown [B]`: the policy sees the query; `item [B]`: the candidate."""
    one = (step.t >= 0).astype(jnp.int32)
    occupied = cache.ids >= 0
    offered = item >= 0
    # An id that no slot holds, an empty one (NO_ITEM) included, where nothing arrives.
    probe = settle(jnp.where(offered, item, np.int32(NO_ITEM - 1)), one)
    on = shown.astype(jnp.float32)
    liked = getattr(scores, rules.quality) >= np.float32(rules.like_at)
    retrieved = ranked.mask & shown[None]
    touched = retrieved if rules.feedback == "retrieved" else retrieved & liked[None]
    disliked = retrieved & ~liked[None] if rules.feedback == "liked_disliked" else jnp.zeros_like(retrieved)
    extra: dict[str, Array] = {}
    if rules.candidate_similarity:
        near_table = given(tables.item_similarity, "item_similarity")
        row = lanes.table * np.int32(near_table.shape[1]) + jnp.maximum(item, 0)
        near = materialize(lambda: take(near_table, row[None], cache.ids), step.t >= 0)
        extra["candidate_similarity"] = jnp.where(occupied & offered[None], near, np.float32(-jnp.inf))
    if rules.future:
        for name, table in (("future_uses", step.future_uses), ("next_use", step.next_use)):
            future = given(table, name)[None]
            extra[name] = take(future, lanes.pair[None], cache.ids)
            extra["candidate_" + name] = take(future, lanes.pair, item)
    if rules.coverage:
        later = given(step.last_asked, "last_asked")[:, lanes.pair] > step.t
        asked = pack_bits(later.T).T  # [Qw, B]
        table = given(tables.queries_of, "queries_of")
        word = jnp.arange(table.shape[2], dtype=jnp.int32)[:, None, None]

        def serves(ids: Array) -> Array:
            row = jnp.maximum(ids, 0) * np.int32(table.shape[1]) + lanes.table[None]  # [n, B]
            index = row[None] * np.int32(table.shape[2]) + word
            found = table.reshape(-1).at[index].get(mode="promise_in_bounds")
            return jnp.where(ids[None] >= 0, found & asked[:, None], np.uint32(0))

        # Where no lane is full and offered something new, nobody reads it.
        full = offered & (cache.size >= lanes.capacity) & ~(cache.ids == probe[None]).any(axis=0)
        extra["future_queries"] = materialize(lambda: serves(cache.ids), full.any())
        extra["candidate_future_queries"] = materialize(lambda: serves(item[None])[:, 0], full.any())
    return View(
        t=jnp.broadcast_to(step.t, item.shape),
        query_count=settle(clocks[0], one),
        offer_count=settle(clocks[1], one),
        capacity=lanes.capacity,
        size=cache.size,
        occupied=occupied,
        resident_id=cache.ids,
        inserted=cache.order,
        free_slot=jnp.where(cache.size < lanes.capacity, cache.size, np.int32(NO_SLOT)),
        has_query=shown,
        similarity=jnp.where(shown[None], similarity, np.float32(-jnp.inf)),
        retrieved=retrieved,
        retrieved_slots=jnp.where(shown[None], ranked.slots, np.int32(NO_SLOT)),
        touched=touched,
        disliked=disliked,
        miss=miss * on,
        scores=Scores(*(s * on for s in scores)),
        has_candidate=offered,
        candidate_id=item,
        candidate_resident=(cache.ids == probe[None]).astype(jnp.float32).max(axis=0) > 0,
        **extra,
    )
