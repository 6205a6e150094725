"""The step contract, and the scan over a block of lanes.

One step, in this order, for every policy:

  1. LOOKUP   the query's top-k residents by cosine; ties to the earliest inserted. The item arriving in this
              step is not in the cache yet, so it is invisible to its own query.
  2. SCORE    qualities of that retrieval; on scored steps they enter the counters.
  3. POLICY   `observe`: touch with the outcome, then decide on admission. A step without a query shows no lookup,
              a step without an arrival shows no candidate. On FROZEN steps the policy sees nothing.
  4. WRITE    if admitted and not resident already: into the free slot, else over the `victim`. A duplicate
              arrival has passed the gate (which may have reset) but nothing is inserted.

Policies are written for one lane and batched here; lanes are the LAST axis, so that a CPU vectorises over
lanes however small the cache is. A costly victim rule (`costly_victim`) runs only for the lanes that need one,
gathered into small blocks: with a gate that opens on 10-17 % of the steps that is most of the saving.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core import random, store
from solarjax.core.lookup import Ranked, top_k
from solarjax.core.metrics import Sums, score_retrieval, zero_sums
from solarjax.core.store import Store
from solarjax.core.tables import Schedule, Tables
from solarjax.core.trace import NO_ITEM, StepMode
from solarjax.core.types import NO_SLOT, Policy, Scores, View

VICTIM_STREAM = 1
"""`fold_in` constant that separates the victim's draws from the admission's within a step."""


class Lanes(NamedTuple):
    """What distinguishes the lanes of a block. Lane axis last.

    table: `[B] i32` index into `Tables`.     pair: `[B] i32` index into `Schedule`.
    capacity: `[B] i32` K.                    key: `[2, B] u32` policy key words of the lane.
    params: name -> `[B] f32` traced hyper-parameters.
    """

    table: Array
    pair: Array
    capacity: Array
    key: Array
    params: Mapping[str, Array]


class Rules(NamedTuple):
    """Static facts of a rollout; a new value means a new compilation.

    make(**params) -> Policy for one lane.    num_slots: N.     k: retrieval depth.
    quality: the `Scores` field whose complement is the miss cost.
    feedback: `retrieved` (every retrieved slot is touched), `liked` (only when the answer was good: quality >=
        `like_at`), or `liked_disliked` (also reports the others as disliked).
    costly_victim, candidate_similarity, pairwise, future: see `PolicySpec`.
    availability: count queries whose relevant items include a resident (one more gather per step).
    """

    make: Callable[..., Policy]
    num_slots: int
    k: int = 3
    quality: str = "hit"
    feedback: str = "retrieved"
    like_at: float = 0.5
    costly_victim: bool = False
    candidate_similarity: bool = False
    pairwise: bool = False
    future: bool = False
    availability: bool = False
    categories: int = 0
    per_step: bool = False


class _Step(NamedTuple):
    """One row of `Schedule`, spread to lanes (`[B]` each); the future tables stay `[P, M]`."""

    t: Array
    query: Array
    arrival: Array
    arrival_on_miss: Array | None
    mode: Array
    second_half: Array
    slope_weight: Array
    future_uses: Array | None
    next_use: Array | None


class Carry(NamedTuple):
    """Scan carry: store, policy state, clocks, counters. All with the lane axis last."""

    store: Store
    state: Any
    query_count: Array
    offer_count: Array
    sums: Sums


class Outcome(NamedTuple):
    """Per-step output, only built on request. `[T, B]` each.

    hit: bool.  admitted: bool.  slot: i32 slot written, NO_SLOT if none.  evicted: i32 item replaced, NO_ITEM if none.
    retrieved: `[T, k, B] i32` items by rank, NO_ITEM-padded.
    """

    hit: Array
    admitted: Array
    slot: Array
    evicted: Array
    retrieved: Array


def rollout(rules: Rules, tables: Tables, schedule: Schedule, lanes: Lanes) -> tuple[Carry, Outcome | None]:
    """Runs B lanes over their traces; pure and jittable with `rules` static.

    Returns:
      The final carry, and the per-step outcome if `rules.per_step`.
    """
    num_lanes = lanes.capacity.shape[0]
    state = _lanes(
        lambda params: rules.make(**params).init(rules.num_slots), dict(lanes.params), size=num_lanes
    )
    zero = jnp.zeros(num_lanes, jnp.int32)
    carry = Carry(
        store.empty(rules.num_slots, num_lanes), state, zero, zero, zero_sums(num_lanes, rules.categories)
    )
    num_steps = schedule.query.shape[0]

    def body(carry: Carry, row: tuple[Array, Schedule]) -> tuple[Carry, Outcome | None]:
        t, plan = row
        spread = (None if x is None else x[lanes.pair] for x in plan[:6])
        # The future tables are [P, M] per step: gathered by resident later, never spread to lanes.
        step = _Step(t, *spread, plan.future_uses, plan.next_use)
        return _advance(rules, tables, lanes, step, carry)

    return lax.scan(body, carry, (jnp.arange(num_steps, dtype=jnp.int32), schedule))


def _lanes(fn: Callable, *args: Any, size: int) -> Any:
    """`vmap` over the last axis of every leaf."""
    return jax.vmap(fn, in_axes=-1, out_axes=-1, axis_size=size)(*args)


def _advance(
    rules: Rules, tables: Tables, lanes: Lanes, step: _Step, carry: Carry
) -> tuple[Carry, Outcome | None]:
    size = lanes.capacity.shape[0]
    before = carry.store
    occupied = before.ids >= 0

    # 1. Lookup.
    asked = step.query >= 0
    row = lanes.table * np.int32(tables.similarity.shape[1]) + jnp.maximum(step.query, 0)
    similarity = jnp.where(
        occupied & asked[None], _take(tables.similarity, row[None], before.ids), np.float32(-jnp.inf)
    )
    ranked = top_k(similarity, before.order, rules.k)

    # 2. Score.
    scores, retrieved_ids = _score(rules, tables, row, ranked, before)
    scored = (step.mode >= np.uint8(StepMode.SCORED)) & asked
    hit = scores.hit > 0
    quality = getattr(scores, rules.quality)
    miss = jnp.where(asked, 1 - quality, np.float32(0))

    # 3. Policy.
    shown = asked & (step.mode != np.uint8(StepMode.FROZEN))
    item = (
        step.arrival if step.arrival_on_miss is None else jnp.where(hit, step.arrival, step.arrival_on_miss)
    )
    room = before.size < lanes.capacity
    offered = (item >= 0) & ((step.mode != np.uint8(StepMode.FILL)) | room)
    item = jnp.where(offered, item, np.int32(NO_ITEM))
    view = _view(rules, tables, lanes, step, carry, ranked, similarity, scores, miss, quality, shown, item)
    params = dict(lanes.params)
    key = _lanes(random.fold_in, lanes.key, jnp.broadcast_to(step.t, (size,)), size=size)
    state, admit = _lanes(
        lambda p, k, s, v: rules.make(**p).observe(k, s, v), params, key, carry.state, view, size=size
    )

    # 4. Write.
    writes = admit & offered & ~view.candidate_resident
    needs_victim = writes & ~room
    victim = _victims(rules, tables, lanes, params, key, state, view, needs_victim)
    slot = jnp.where(room, before.size, victim)
    inserted = _lanes(
        lambda p, s, i, v: rules.make(**p).insert(s, i, v), params, state, slot, view, size=size
    )
    state = jax.tree.map(lambda new, old: jnp.where(writes, new, old), inserted, state)
    after = store.write(before, slot, item, writes)

    sums = _count(
        rules,
        tables,
        carry.sums,
        scores,
        miss,
        step,
        row,
        scored,
        hit,
        asked,
        offered,
        view,
        writes,
        needs_victim,
        before,
    )
    out = None
    if rules.per_step:
        one = (jnp.arange(rules.num_slots, dtype=jnp.int32)[:, None] == slot[None]) & needs_victim[None]
        out = Outcome(
            hit=hit & scored,
            admitted=writes,
            slot=jnp.where(writes, slot, np.int32(NO_SLOT)),
            evicted=jnp.where(one, before.ids, np.int32(NO_ITEM)).max(axis=0),
            retrieved=jnp.where(ranked.slots >= 0, retrieved_ids, np.int32(NO_ITEM)),
        )
    carry = Carry(
        after,
        state,
        carry.query_count + shown.astype(jnp.int32),
        carry.offer_count + offered.astype(jnp.int32),
        sums,
    )
    return carry, out


def _take(table: Array, row: Array, ids: Array) -> Array:
    """`table` viewed as rows of M entries: element (row, ids), ids clamped at 0."""
    width = table.shape[-1]
    index = row * np.int32(width) + jnp.maximum(ids, 0)
    return table.reshape(-1).at[index].get(mode="promise_in_bounds")


def _score(rules: Rules, tables: Tables, row: Array, ranked: Ranked, cache: Store) -> tuple[Scores, Array]:
    there = ranked.slots >= 0
    ids = jnp.take_along_axis(cache.ids, jnp.maximum(ranked.slots, 0), axis=0)
    relevance = jnp.where(there, _take(tables.relevance, row[None], ids).astype(jnp.float32), np.float32(0))
    answer = None
    if tables.answer_recall is not None:
        answer = jnp.where(there, _take(tables.answer_recall, row[None], ids), np.float32(0))
    total = tables.relevant_total.reshape(-1)[row]
    return score_retrieval(relevance, ranked.values, answer, total, rules.k), ids


def _view(
    rules: Rules,
    tables: Tables,
    lanes: Lanes,
    step: _Step,
    carry: Carry,
    ranked: Ranked,
    similarity: Array,
    scores: Scores,
    miss: Array,
    quality: Array,
    shown: Array,
    item: Array,
) -> View:
    cache = carry.store
    occupied = cache.ids >= 0
    offered = item >= 0
    liked = quality >= np.float32(rules.like_at)
    retrieved = ranked.mask & shown[None]
    touched = retrieved if rules.feedback == "retrieved" else retrieved & liked[None]
    disliked = retrieved & ~liked[None] if rules.feedback == "liked_disliked" else jnp.zeros_like(retrieved)
    extra: dict[str, Array] = {}
    if rules.candidate_similarity:
        width = np.int32(tables.similarity.shape[-1])
        row = lanes.table * width + jnp.maximum(item, 0)
        near = _take(tables.item_similarity, row[None], cache.ids)
        extra["candidate_similarity"] = jnp.where(occupied & offered[None], near, np.float32(-jnp.inf))
    if rules.future:
        for name, table in (("future_uses", step.future_uses), ("next_use", step.next_use)):
            extra[name] = _take(table, lanes.pair[None], cache.ids)
            extra["candidate_" + name] = _take(table, lanes.pair, item)
    zero = jnp.where(shown, np.float32(1), np.float32(0))
    return View(
        t=jnp.broadcast_to(step.t, item.shape),
        query_count=carry.query_count + shown.astype(jnp.int32),
        offer_count=carry.offer_count + offered.astype(jnp.int32),
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
        miss=miss * zero,
        scores=Scores(*(s * zero for s in scores)),
        has_candidate=offered,
        candidate_id=item,
        candidate_resident=((cache.ids == item[None]) & offered[None]).any(axis=0),
        **extra,
    )


def _victims(
    rules: Rules,
    tables: Tables,
    lanes: Lanes,
    params: dict[str, Array],
    key: Array,
    state: Any,
    view: View,
    needed: Array,
) -> Array:
    """Victim slot per lane; meaningful where `needed`."""
    size = needed.shape[0]

    def choose(table: Array, params: Any, key: Array, state: Any, view: View, size: int) -> Array:
        if rules.pairwise:
            width = np.int32(tables.similarity.shape[-1])
            row = table[None] * width + jnp.maximum(view.resident_id, 0)
            view = view._replace(
                resident_similarity=_take(tables.item_similarity, row[:, None], view.resident_id[None])
            )

        def one(p: Any, k: Array, s: Any, v: View) -> Array:
            slot = rules.make(**p).victim(random.fold_in(k, VICTIM_STREAM), s, v)
            # A rule that names no resident cannot break the store: the earliest inserted goes instead.
            valid = (slot >= 0) & (slot < v.capacity)
            return jnp.where(valid, slot, v.inserted.min() % np.int32(rules.num_slots)).astype(jnp.int32)

        return _lanes(one, params, key, state, view, size=size)

    operands = (lanes.table, params, key, state, view)
    if not rules.costly_victim:
        return choose(*operands, size=size)

    # Blocks of an eighth: one block is nearly always enough for a gate, eight serve an always-admit policy.
    block = max(1, -(-size // 8))
    todo = jnp.nonzero(needed, size=size, fill_value=size)[0].astype(jnp.int32)
    todo = jnp.concatenate([todo, jnp.full(-size % block, size, jnp.int32)])
    count = needed.sum(dtype=jnp.int32)

    def more(carry: tuple[Array, Array]) -> Array:
        return carry[0] * np.int32(block) < count

    def choose_block(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        number, slots = carry
        index = lax.dynamic_slice(todo, (number * np.int32(block),), (block,))
        picked = jax.tree.map(lambda x: jnp.take(x, index, axis=-1, mode="clip"), operands)
        return number + 1, slots.at[index].set(choose(*picked, size=block), mode="drop")

    return lax.while_loop(more, choose_block, (jnp.int32(0), jnp.zeros(size, jnp.int32)))[1]


def _count(
    rules: Rules,
    tables: Tables,
    sums: Sums,
    scores: Scores,
    miss: Array,
    step: _Step,
    row: Array,
    scored: Array,
    hit: Array,
    asked: Array,
    offered: Array,
    view: View,
    writes: Array,
    evicts: Array,
    cache: Store,
) -> Sums:
    def one(flag: Array) -> Array:
        return flag.astype(jnp.int32)

    on = scored.astype(jnp.float32)
    good = scored & hit
    update: dict[str, Any] = {
        "requests": sums.requests + one(scored),
        "hits": sums.hits + one(good),
        "hits_second": sums.hits_second + one(good & step.second_half),
        "miss": sums.miss.add(miss * on),
        "slope": sums.slope.add(jnp.where(good, step.slope_weight, np.float32(0))),
        "queries": sums.queries + one(asked),
        "offers": sums.offers + one(offered),
        "duplicates": sums.duplicates + one(view.candidate_resident),
        "offers_full": sums.offers_full
        + one(offered & ~view.candidate_resident & (view.size >= view.capacity)),
        "admissions": sums.admissions + one(writes),
        "evictions": sums.evictions + one(evicts),
    }
    for name in ("recall", "precision", "f1", "max_similarity", "mean_similarity"):
        update[name] = getattr(sums, name).add(getattr(scores, name) * on)
    if tables.answer_recall is not None:
        update["answer_recall"] = sums.answer_recall.add(scores.answer_recall * on)
    if rules.availability:
        relevant = _take(tables.relevance, row[None], cache.ids).astype(jnp.float32) > 0
        update["available"] = sums.available + one(scored & (relevant & view.occupied).any(axis=0))
    if rules.categories:
        category = tables.category.reshape(-1)[row]
        group = (jnp.arange(rules.categories, dtype=jnp.int32)[:, None] == category[None]) & scored[None]
        update["category_requests"] = sums.category_requests + one(group)
        update["category_hits"] = sums.category_hits + one(group & hit[None])
    return sums._replace(**update)
