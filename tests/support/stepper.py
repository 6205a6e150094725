"""One policy driven step by step, by a plain Python loop and without compilation.

What a live replay does, and an independent reading of `View`: every field is filled from Python lists and numpy,
none by the engine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from solarjax.core import random
from solarjax.core.lanes import Lanes, Rules
from solarjax.core.store import EMPTY_ORDER
from solarjax.core.trace import NO_ITEM, StepMode
from solarjax.core.types import NEVER, NO_SLOT, Scores, View
from solarjax.core.victims import VICTIM_STREAM
from tests.support.worlds import World, scored_steps


class Stepped(NamedTuple):
    """One step: what the policy saw, its state around `observe`, and what happened."""

    view: View
    before: Any
    after: Any
    retrieved: list[int]
    admitted: bool
    slot: int
    evicted: int


def step_through(rules: Rules, world: World, lanes: Lanes, lane: int, steps: int) -> list[Stepped]:
    """The first `steps` steps of one lane of a batch."""
    pair, capacity = int(lanes.pair[lane]), int(lanes.capacity[lane])
    params = {name: _float32(values[lane]) for name, values in lanes.params.items()}
    key = jnp.asarray(np.asarray(lanes.key)[:, lane])
    keys = jax.jit(jax.vmap(random.fold_in, in_axes=(None, 0)))(key, np.arange(steps, dtype=np.int32))
    done = []
    with jax.disable_jit():
        policy = rules.make(**params)
        state = policy.init(rules.num_slots)
        cache = _Cache(rules, world, pair, capacity)
        for t in range(steps):
            view, found, item = cache.look(t)
            now = keys[t]
            before = state
            state, admit = policy.observe(now, state, view)
            after = state
            slot, evicted = NO_SLOT, NO_ITEM
            admitted = bool(admit) and item != NO_ITEM and item not in cache.ids
            if admitted:
                slot = cache.size
                if slot >= capacity:
                    asked = view._replace(resident_similarity=cache.pairs() if rules.pairwise else None)
                    slot = int(policy.victim(random.fold_in(now, VICTIM_STREAM), state, asked))
                    evicted = cache.ids[slot]
                state = policy.insert(state, _int32(slot), view)
                cache.write(slot, item)
            done.append(Stepped(view, before, after, found, admitted, slot, evicted))
    return done


def _int32(x: int) -> jax.Array:
    return jnp.asarray(np.int32(x))


def _float32(x: float) -> jax.Array:
    return jnp.asarray(np.float32(x))


def _bool(x: bool) -> jax.Array:
    return jnp.asarray(np.bool_(x))


class _Cache:
    """Residents by slot, the clocks, and the view of each step."""

    def __init__(self, rules: Rules, world: World, pair: int, capacity: int):
        self.rules, self.capacity, self.pair, self.world = rules, capacity, pair, world
        self.trace = world.traces[pair]
        self.ids = [NO_ITEM] * rules.num_slots
        self.inserted = [int(EMPTY_ORDER)] * rules.num_slots
        self.size = self.inserts = self.queries = self.offers = 0

    def write(self, slot: int, item: int) -> None:
        self.size += self.ids[slot] == NO_ITEM
        self.ids[slot] = item
        self.inserted[slot] = self.inserts * self.rules.num_slots + slot
        self.inserts += 1

    def pairs(self) -> jax.Array:
        """Row: a slot; column: another resident, -inf for none and for the slot itself."""
        ids = np.array(self.ids)
        near = self.world.tables.item_similarity[self.pair][np.ix_(np.maximum(ids, 0), np.maximum(ids, 0))]
        return jnp.asarray(np.where(np.eye(len(ids), dtype=bool) | (ids < 0)[None], np.float32(-np.inf), near))

    def look(self, t: int) -> tuple[View, list[int], int]:
        """The view of step t, the ids retrieved by rank, and the item on offer."""
        rules, trace, tables, pair = self.rules, self.trace, self.world.tables, self.pair
        query, mode, item = int(trace.query[t]), trace.mode[t], int(trace.arrival[t])
        residents = [s for s in range(rules.num_slots) if self.ids[s] != NO_ITEM]
        cosine = {s: float(tables.similarity[query, pair, self.ids[s]]) for s in residents if query >= 0}
        slots = sorted(cosine, key=lambda s: (-cosine[s], self.inserted[s]))[: rules.k]
        found = [self.ids[s] for s in slots]
        scores = self._scores(query, found) if query >= 0 else dict.fromkeys(Scores._fields, 0.0)
        if query >= 0 and not scores["hit"] and trace.arrival_on_miss is not None:
            item = int(trace.arrival_on_miss[t])
        if mode == StepMode.FILL and self.size >= self.capacity:
            item = NO_ITEM
        shown = query >= 0 and mode != StepMode.FROZEN
        self.queries += shown
        self.offers += item != NO_ITEM
        liked = scores[rules.quality] >= rules.like_at
        seen = slots if shown else []
        extra: dict[str, Any] = {}
        if rules.candidate_similarity:
            near = tables.item_similarity[pair, item]
            extra["candidate_similarity"] = self._floats({s: near[self.ids[s]] for s in residents if item >= 0})
        if rules.future:
            plan = self.world.schedule
            uses, ahead = plan.future_uses[t, pair], plan.next_use[t, pair]
            extra["future_uses"] = self._ints({s: uses[self.ids[s]] for s in residents}, 0)
            extra["next_use"] = self._ints({s: ahead[self.ids[s]] for s in residents}, NEVER)
            extra["candidate_future_uses"] = _int32(uses[item] if item >= 0 else 0)
            extra["candidate_next_use"] = _int32(ahead[item] if item >= 0 else NEVER)
        if rules.coverage:
            later = trace.relevance_matrix()[:, [*self.ids, item]] > 0  # id -1 reads a column that is masked below
            asked = {int(trace.query[s]) for s in np.flatnonzero(scored_steps(trace)) if s > t}
            later &= np.array([q in asked for q in range(len(later))])[:, None]
            later &= np.array([*self.ids, item]) != NO_ITEM
            words = np.zeros((-(-len(later) // 32), later.shape[1]), np.uint32)
            for q in range(len(later)):
                words[q // 32] |= later[q].astype(np.uint32) << np.uint32(q % 32)
            extra["future_queries"] = jnp.asarray(words[:, :-1])
            extra["candidate_future_queries"] = jnp.asarray(words[:, -1])
        view = View(
            t=_int32(t),
            query_count=_int32(self.queries),
            offer_count=_int32(self.offers),
            capacity=_int32(self.capacity),
            size=_int32(self.size),
            occupied=self._mask(residents),
            resident_id=jnp.asarray(np.array(self.ids, np.int32)),
            inserted=jnp.asarray(np.array(self.inserted, np.int32)),
            free_slot=_int32(self.size if self.size < self.capacity else NO_SLOT),
            has_query=_bool(shown),
            similarity=self._floats(cosine if shown else {}),
            retrieved=self._mask(seen),
            retrieved_slots=jnp.asarray(np.array(seen + [NO_SLOT] * (rules.k - len(seen)), np.int32)),
            touched=self._mask(seen if rules.feedback == "retrieved" or liked else []),
            disliked=self._mask(seen if rules.feedback == "liked_disliked" and not liked else []),
            miss=_float32(1 - scores[rules.quality] if shown else 0),
            scores=Scores(*(_float32(scores[name] if shown else 0) for name in Scores._fields)),
            has_candidate=_bool(item != NO_ITEM),
            candidate_id=_int32(item),
            candidate_resident=_bool(item in self.ids and item != NO_ITEM),
            **extra,
        )
        return view, found, item

    def _scores(self, query: int, found: list[int]) -> dict[str, float]:
        tables, pair = self.world.tables, self.pair
        gained = sum(float(tables.relevance[query, pair, i]) for i in found)
        cosines = [float(tables.similarity[query, pair, i]) for i in found]
        recall = gained / float(tables.relevant_total[query, pair]) if gained else 0.0
        precision = gained / len(found) if found else 0.0
        return {
            "hit": float(gained > 0),
            "recall": recall,
            "precision": precision,
            "f1": 2 * recall * precision / (recall + precision) if gained else 0.0,
            "max_similarity": float(np.clip(max(cosines, default=0), 0, 1)),
            "mean_similarity": float(np.clip(np.mean(cosines), 0, 1)) if found else 0.0,
            "answer_recall": max((float(tables.answer_recall[query, pair, i]) for i in found), default=0.0),
        }

    def _mask(self, slots: list[int]) -> jax.Array:
        return jnp.asarray(np.array([s in slots for s in range(self.rules.num_slots)]))

    def _floats(self, values: dict[int, float]) -> jax.Array:
        return jnp.asarray(np.array([values.get(s, -np.inf) for s in range(self.rules.num_slots)], np.float32))

    def _ints(self, values: dict[int, int], missing: int) -> jax.Array:
        return jnp.asarray(np.array([values.get(s, missing) for s in range(self.rules.num_slots)], np.int32))
