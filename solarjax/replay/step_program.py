"""The compiled programs behind `stepper`: one lane of the engine's step, with embeddings that enter one by one.

What goes in and out is one array of words (`packing`), one array of embeddings by slot, and for policies that compare
experiences one table. Legend: as in `stepper`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core import rollout, store
from solarjax.core.lanes import Lanes, Rules, over_lanes
from solarjax.core.lookup import top_k
from solarjax.core.metrics import zero_sums
from solarjax.core.observe import Step
from solarjax.core.tables import HIGHEST, Tables
from solarjax.core.trace import NO_ITEM, NO_QUERY
from solarjax.core.types import Policy, View
from solarjax.replay.errors import BadOption
from solarjax.replay.packing import Layout, layout_of, pack, unpack

MOST_TABLE_BYTES = 2**30
_EMPTY = np.float32(-np.inf)
_ANSWER = "answer"
"""Under this name the quality of the answer travels with a lane's parameters; no policy has one called so."""
MORE = 3
"""Numbers that go to the device with an embedding: quality, item, mode."""
_ONE_AFTER_ANOTHER: dict[str, str | bool] = {
    # One lane of a hundred slots is a chain of kernels of a microsecond each: handing them to other threads costs more
    # than it saves, and it waits for cores that are busy.
    "xla_cpu_multi_thread_eigen": False,
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
}
"""How to compile for a CPU. Decisions do not depend on it; a decision takes half the time (`scripts/bench_replay`)."""


class Memory(NamedTuple):
    """All that a session remembers, on the device; donated from step to step.

    words: `[W] u32` the lane, the engine's scan carry and the number of steps so far, packed.
    rows: `[N, D] f32` embedding of the item in each slot; anything where the slot is empty.
    similarity: `[1, M, M] f32` cosines of items, 0 where they never met, or None where the policy needs none.
    """

    words: Array
    rows: Array
    similarity: Array | None


class Kept(NamedTuple):
    """What a replay keeps of `rollout.Carry`: not the cosines, which each step is handed anyway, and not the counters
    (a replay counts on the host), so that nothing computes them."""

    store: store.Store
    state: Any
    query_count: Array
    offer_count: Array
    nearest: Array | None


class Small(NamedTuple):
    """What `Memory.words` holds. t: `[] i32` steps so far."""

    lane: Lanes
    carry: Kept
    t: Array


class Program(NamedTuple):
    """Compiled functions of one (policy, shape): fresh memory, look-up, decision; and how words are laid out."""

    start: Any
    look: Any
    decide: Any
    layout: Layout


@lru_cache(maxsize=256)
def program(rules: Rules, traced: tuple[tuple[str, float], ...], num_items: int, dim: int) -> Program:
    """Compiles the three functions, ahead of time; shared by every session, capacity up to N and seed.

    Raises:
      BadOption: the table of similarities would exceed `MOST_TABLE_BYTES`.
    """
    near = rules.pairwise or rules.candidate_similarity
    if near and num_items**2 * 4 > MOST_TABLE_BYTES:
        raise BadOption(f"{num_items} questions in a session are too many for a policy that compares all experiences")
    lane = lane_of(1, jnp.zeros((2, 1), jnp.uint32), traced)
    layout = layout_of(jax.eval_shape(partial(_start_small, rules), lane))
    start = partial(_start, rules, layout, num_items, dim, near)
    memory = jax.eval_shape(start, lane)
    numbers = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    look = jax.jit(partial(_look, rules.k, layout)).lower(memory.words, memory.rows, numbers((dim,)))
    decide = jax.jit(partial(_decide, rules, layout, num_items), donate_argnums=0)
    lowered = decide.lower(memory, numbers((rules.num_slots, 1)), numbers((dim + MORE,)))
    options = _ONE_AFTER_ANOTHER if jax.default_backend() == "cpu" else None
    return Program(start, look.compile(options), lowered.compile(options), layout)


def lane_of(capacity: int, key: Array, traced: tuple[tuple[str, float], ...]) -> Lanes:
    """The one lane of a stepper."""
    zero = jnp.zeros(1, jnp.int32)
    params = {name: jnp.full(1, value, jnp.float32) for name, value in traced}
    return Lanes(zero, zero, jnp.full(1, capacity, jnp.int32), key, params)


def _start_small(rules: Rules, lane: Lanes) -> Small:
    state = over_lanes(lambda p: rules.make(**p).init(rules.num_slots), dict(lane.params), size=1)
    zero = jnp.zeros(1, jnp.int32)
    return Small(
        lane, Kept(store.empty(rules.num_slots, 1), state, zero, zero, rollout.nobody_near(rules, 1)), jnp.int32(0)
    )


def _start(rules: Rules, layout: Layout, num_items: int, dim: int, near: bool, lane: Lanes) -> Memory:
    table = jnp.zeros((1, num_items, num_items), jnp.float32) if near else None
    return Memory(pack(layout, _start_small(rules, lane)), jnp.zeros((rules.num_slots, dim), jnp.float32), table)


def _cosines(ids: Array, rows: Array, vector: Array) -> Array:
    """`[N, 1] f32` cosine of each resident (`ids [N, 1]`, `rows [N, D]`) to `vector`, -inf where empty."""
    return jnp.where(ids >= 0, jnp.matmul(rows, vector, precision=HIGHEST)[:, None], _EMPTY)


def _look(k: int, layout: Layout, words: Array, rows: Array, query: Array) -> tuple[Array, Array]:
    """Residents' cosines `[N, 1]`, and `[2k] f32`: the items by rank (bits of i32), then their cosines."""
    cache = unpack(layout, words).carry.store
    near = _cosines(cache.ids, rows, query)
    ranked = top_k(near, cache.order, k)
    slot = ranked.slots[:, 0]
    items = jnp.where(slot >= 0, cache.ids[jnp.maximum(slot, 0), 0], np.int32(NO_ITEM))
    return near, jnp.concatenate([lax.bitcast_convert_type(items, jnp.float32), ranked.values[:, 0]])


def _decide(
    rules: Rules, layout: Layout, num_items: int, memory: Memory, near: Array, message: Array
) -> tuple[Memory, Array]:
    """One step of the engine. `message [D + 3] f32`: embedding of the item, quality, bits of its id and of the mode."""
    lane, kept, t = unpack(layout, memory.words)
    dim = memory.rows.shape[1]
    item, quality = message[:dim], message[dim]
    flags = lax.bitcast_convert_type(message[dim + 1 :], jnp.int32)
    similarity = memory.similarity
    if similarity is not None:
        # Only residents are ever compared, and an item that is none today is never offered again.
        ids = kept.store.ids[:, 0]
        cosine = _cosines(ids[:, None], memory.rows, item)[:, 0]
        similarity = _meet(similarity, t, ids, cosine)
    tables = Tables(
        similarity=jnp.zeros((1, 1, num_items), jnp.float32),  # read for a next query only, and there is none
        relevance=jnp.zeros((1, 1, num_items), bool),
        relevant_total=jnp.ones((1, 1), jnp.float32),
        item_similarity=similarity,
        answer_recall=jnp.broadcast_to(quality, (1, 1, num_items)),
    )
    one = jnp.zeros(1, jnp.int32)
    step = Step(
        t=t, query=one, arrival=flags[:1], arrival_on_miss=None, mode=flags[1:].astype(jnp.uint8),
        second_half=one > 0, slope_weight=jnp.zeros(1, jnp.float32), future_uses=None, next_use=None, last_asked=None,
    )  # fmt: skip
    carry = rollout.Carry(
        kept.store,
        kept.state,
        kept.query_count,
        kept.offer_count,
        near,
        zero_sums(1, rules.categories),
        kept.nearest,
    )
    heard = rules._replace(make=_hears_answer(rules.make))
    live = lane._replace(params={**lane.params, _ANSWER: quality[None]})
    carry, outcome = rollout.advance(heard, tables, live, step, one + np.int32(NO_QUERY), carry)
    assert outcome is not None, "rules.per_step is set"
    # Past the end nothing is written: `slot` is NO_SLOT where the item was not admitted.
    at = jnp.where(outcome.slot >= 0, outcome.slot, np.int32(rules.num_slots))
    rows = memory.rows.at[at[0]].set(item, mode="drop")
    packed = [outcome.admitted.astype(jnp.int32), outcome.slot, outcome.evicted, carry.store.size]
    after = Small(lane, Kept(carry.store, carry.state, carry.query_count, carry.offer_count, carry.nearest), t + 1)
    return Memory(pack(layout, after), rows, similarity), jnp.concatenate(packed)


def _hears_answer(make: Callable[..., Policy]) -> Callable[..., Policy]:
    """`make` for policies that hear the quality of the answer also when nothing was retrieved.

    The engine scores a retrieval, so an empty cache is worth 0. A live answer is scored as a whole, and the dialogue
    alone may have been enough for it: spec 5 has the gate listen to 1 - F1, whatever was retrieved. Where something
    was, the two are the same number.
    """

    def live(view: View, quality: Array) -> View:
        asked = view.has_query.astype(jnp.float32)
        scores = view.scores._replace(answer_recall=quality * asked)
        return view._replace(miss=(1 - quality) * asked, scores=scores)

    def made(**params: Array) -> Policy:
        quality = params.pop(_ANSWER)
        policy = make(**params)
        return Policy(
            init=policy.init,
            observe=lambda key, state, view: policy.observe(key, state, live(view, quality)),
            victim=lambda key, state, view: policy.victim(key, state, live(view, quality)),
            insert=lambda state, slot, view: policy.insert(state, slot, live(view, quality)),
        )

    return made


def _meet(similarity: Array, item: Array, ids: Array, cosine: Array) -> Array:
    """The table with the cosines of a new item to the residents `ids [N]` (NO_ITEM where empty), both ways."""
    size = similarity.shape[-1]
    nowhere = np.int32(size * size)
    places = [jnp.where(ids >= 0, at, nowhere) for at in (item * np.int32(size) + ids, ids * np.int32(size) + item)]
    flat = similarity.reshape(-1).at[jnp.concatenate(places)].set(jnp.concatenate([cosine, cosine]), mode="drop")
    return flat.reshape(similarity.shape)
