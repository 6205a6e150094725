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
lanes however small the cache is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core import neighbours, random, store
from solarjax.core.count import count_step
from solarjax.core.lanes import Lanes, Rules, over_lanes, row_of, take
from solarjax.core.lookup import settle, top_k
from solarjax.core.metrics import Sums, zero_sums
from solarjax.core.observe import Step, build_view, score
from solarjax.core.relevance import queries_of_items
from solarjax.core.store import Store
from solarjax.core.tables import Schedule, Tables
from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode
from solarjax.core.types import NO_SLOT
from solarjax.core.victims import choose_victims


class Carry(NamedTuple):
    """Scan carry, lane axis last.

    store, state: cache and policy.           query_count, offer_count: `[B] i32` clocks shown to the policy.
    similarity: `[N, B] f32` residents against the NEXT step's query. Carried, because a loop boundary is what makes
        XLA gather it once instead of once per reader.
    sums: counters.
    nearest: see `core.neighbours`; None where the policy reads none, or all pairs.
    """

    store: Store
    state: Any
    query_count: Array
    offer_count: Array
    similarity: Array
    sums: Sums
    nearest: Array | None = None


class Outcome(NamedTuple):
    """Per-step output, only built on request. `[T, B]` each.

    hit: bool, a scored query found a relevant item.        admitted: bool.
    slot: i32 slot written, NO_SLOT if none.                evicted: i32 item replaced, NO_ITEM if none.
    retrieved: `[T, k, B] i32` items by rank, NO_ITEM-padded.
    """

    hit: Array
    admitted: Array
    slot: Array
    evicted: Array
    retrieved: Array


def rollout(rules: Rules, tables: Tables, schedule: Schedule, lanes: Lanes) -> tuple[Carry, Outcome | None]:
    """Runs B lanes over their traces; pure, jittable with `rules` static.

    Returns:
      The final carry, and the per-step outcome if `rules.per_step`.
    """
    size = lanes.capacity.shape[0]
    params = dict(lanes.params)
    if rules.coverage and tables.queries_of is None:
        tables = tables._replace(queries_of=queries_of_items(tables))
    state = over_lanes(lambda p: rules.make(**p).init(rules.num_slots), params, size=size)
    zero = jnp.zeros(size, jnp.int32)
    carry = Carry(
        store=store.empty(rules.num_slots, size),
        state=state,
        query_count=zero,
        offer_count=zero,
        similarity=jnp.full((rules.num_slots, size), -jnp.inf, jnp.float32),
        sums=zero_sums(size, rules.categories),
        nearest=nobody_near(rules, size),
    )
    steps = jnp.arange(schedule.query.shape[0], dtype=jnp.int32)
    following = jnp.concatenate([schedule.query[1:], jnp.full_like(schedule.query[:1], NO_QUERY)])
    # Stacked, so that spreading a row to its lanes is one gather.
    on_miss = [] if schedule.arrival_on_miss is None else [schedule.arrival_on_miss]
    plan = [schedule.query, following, schedule.arrival, schedule.mode, schedule.second_half, *on_miss]
    integers = jnp.stack([x.astype(jnp.int32) for x in plan], axis=1)

    def body(carry: Carry, row: tuple) -> tuple[Carry, Outcome | None]:
        t, plan, slope_weight, future_uses, next_use = row
        query, next_query, arrival, mode, second_half, *other = plan[:, lanes.pair]
        step = Step(
            t=t,
            query=query,
            arrival=arrival,
            arrival_on_miss=other[0] if other else None,
            mode=mode.astype(jnp.uint8),
            second_half=second_half != 0,
            slope_weight=slope_weight[lanes.pair],
            # [P, M] per step: gathered by resident later, never spread to lanes.
            future_uses=future_uses,
            next_use=next_use,
            last_asked=schedule.last_asked,
        )
        return advance(rules, tables, lanes, step, next_query, carry)

    rows = (steps, integers, schedule.slope_weight, schedule.future_uses, schedule.next_use)
    return lax.scan(body, carry, rows)


def nobody_near(rules: Rules, size: int) -> Array | None:
    """`Carry.nearest` of B empty caches."""
    if rules.nearest == 0:
        return None
    return neighbours.empty(rules.nearest, rules.num_slots, size)


def advance(
    rules: Rules, tables: Tables, lanes: Lanes, step: Step, next_query: Array, carry: Carry
) -> tuple[Carry, Outcome | None]:
    """One step of B lanes, in the order of the step contract; `next_query [B] i32` is what the carry looks up ahead."""
    size = lanes.capacity.shape[0]
    before = carry.store
    asked = step.query >= 0
    row = row_of(tables.similarity, step.query, lanes.table)

    # 1. Lookup.
    ranked = top_k(carry.similarity, before.order, rules.k)

    # 2. Score.
    scores, retrieved_ids = score(rules, tables, row, ranked, before)
    hit = scores.hit > 0
    quality = getattr(scores, rules.quality)
    miss = jnp.where(asked, 1 - quality, np.float32(0))

    # 3. Policy.
    one = (step.t >= 0).astype(jnp.int32)
    shown = settle(asked & (step.mode != np.uint8(StepMode.FROZEN)), one)
    item = step.arrival
    if step.arrival_on_miss is not None:
        item = jnp.where(asked & ~hit, step.arrival_on_miss, item)
    room = before.size < lanes.capacity
    offered = (item >= 0) & ((step.mode != np.uint8(StepMode.FILL)) | room)
    item = settle(jnp.where(offered, item, np.int32(NO_ITEM)), one)
    clocks = (carry.query_count + shown.astype(jnp.int32), carry.offer_count + offered.astype(jnp.int32))
    view = build_view(rules, tables, lanes, step, before, clocks, ranked, carry.similarity, scores, miss, shown, item)
    params = dict(lanes.params)
    key = over_lanes(random.fold_in, lanes.key, jnp.broadcast_to(step.t, (size,)), size=size)
    state, admit = over_lanes(
        lambda p, k, s, v: rules.make(**p).observe(k, s, v), params, key, carry.state, view, size=size
    )

    # 4. Write.
    writes = settle(admit & offered & ~view.candidate_resident, one)
    evicts = writes & ~room
    victim, nearest = choose_victims(rules, tables, lanes, key, state, view, carry.nearest, evicts)
    slot = settle(jnp.where(room, before.size, victim), one)
    inserted = over_lanes(lambda p, s, i, v: rules.make(**p).insert(s, i, v), params, state, slot, view, size=size)
    state = jax.tree.map(lambda new, old: jnp.where(writes, new, old), inserted, state)
    after = store.write(before, slot, item, writes, one)

    next_row = settle(row_of(tables.similarity, next_query, lanes.table), one)
    asks = settle(next_query, one)
    known = (after.ids >= 0) & (asks >= 0)[None]
    ahead = jnp.where(known, take(tables.similarity, next_row[None], after.ids), np.float32(-jnp.inf))

    sums = count_step(rules, tables, carry.sums, scores, miss, step, row, view, writes, evicts)
    out = None
    if rules.per_step:
        replaced = (jnp.arange(rules.num_slots, dtype=jnp.int32)[:, None] == slot[None]) & evicts[None]
        out = Outcome(
            hit=hit & asked & (step.mode >= np.uint8(StepMode.SCORED)),
            admitted=writes,
            slot=jnp.where(writes, slot, np.int32(NO_SLOT)),
            evicted=jnp.where(replaced, before.ids, np.int32(NO_ITEM)).max(axis=0),
            retrieved=jnp.where(ranked.slots >= 0, retrieved_ids, np.int32(NO_ITEM)),
        )
    return Carry(after, state, *clocks, ahead, sums, nearest), out
