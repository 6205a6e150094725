"""One policy, one question at a time: the engine's step, compiled once and fed by a live model.

Nothing is implemented a second time. `decide` calls the function that the engine scans over (`core.rollout`), with one
lane, and hands it the quality of the answer through the table that the engine reads answer qualities from
(`Scores.answer_recall`, the same for every item, because a live answer is scored as a whole). `look` is the engine's
top-k. What is added is only what a recorded trace has beforehand and a live one has not: embeddings enter one by one.

Deliberate difference from spec 5, inherited from the engine: where nothing is retrieved (the cache is empty) the
retrieval's quality is 0, so the gate's signal is 1 however well the corpus alone answered.

Legend: N slots, M items a session can offer (one experience per question), D dimensions, k retrieved.
"""

from __future__ import annotations

import time
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core import rollout, store, streams
from solarjax.core.execute import make_rules
from solarjax.core.lanes import Lanes, Rules, over_lanes
from solarjax.core.lookup import top_k
from solarjax.core.metrics import zero_sums
from solarjax.core.observe import Step
from solarjax.core.tables import HIGHEST, Tables
from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode
from solarjax.core.types import NO_SLOT
from solarjax.policies.registry import PolicyCase
from solarjax.replay.errors import BadOption

FEEDBACKS = ("retrieved", "liked", "liked_disliked")
QUALITY = "answer_recall"
"""The engine's field that carries the live answer's score."""
MOST_TABLE_BYTES = 2**30
_EMPTY = np.float32(-np.inf)


class Memory(NamedTuple):
    """All that a session remembers; donated from step to step.

    carry: the engine's own scan carry, one lane.   t: `[] i32` steps so far.
    embedding: `[M, D] f32` items offered so far, zero rows before.
    similarity: `[1, M, M] f32` their cosines, or None where the policy needs none.
    """

    carry: rollout.Carry
    t: Array
    embedding: Array
    similarity: Array | None


class Retrieved(NamedTuple):
    """items: `[k] i32` by rank, NO_ITEM-padded.   cosine: `[k] f32`, -inf-padded."""

    items: np.ndarray
    cosine: np.ndarray


class Decided(NamedTuple):
    """admitted: written to the cache.   slot: where, NO_SLOT if not.   evicted: item replaced, NO_ITEM if none.
    size: residents afterwards.   seconds: host time of look-up and decision together, transfers included."""

    admitted: bool
    slot: int
    evicted: int
    size: int
    seconds: float


class Program(NamedTuple):
    """Compiled functions of one (policy, shape): fresh memory, look-up, decision."""

    start: Any
    look: Any
    decide: Any


def rules_of(case: PolicyCase, num_slots: int, k: int, feedback: str, like_at: float) -> Rules:
    """The engine's static description of a replay of `case`.

    Raises:
      BadOption: unknown feedback, or a policy that sees the future.
    """
    if feedback not in FEEDBACKS:
        raise BadOption(f"feedback {feedback!r} is unknown; allowed are {', '.join(FEEDBACKS)}")
    if not case.spec.online:
        raise BadOption(f"policy {case.label!r} sees the future; a live replay has none to show")
    return make_rules(case, num_slots, None, k, QUALITY, feedback, like_at, True)


@lru_cache(maxsize=256)
def program(rules: Rules, traced: tuple[tuple[str, float], ...], num_items: int, dim: int) -> Program:
    """Compiles the three functions, ahead of time; shared by every session, capacity up to N and seed.

    Raises:
      BadOption: the table of similarities would exceed `MOST_TABLE_BYTES`.
    """
    near = rules.pairwise or rules.candidate_similarity
    if near and num_items**2 * 4 > MOST_TABLE_BYTES:
        raise BadOption(f"{num_items} questions in a session are too many for a policy that compares all experiences")
    start = partial(_start, rules, num_items, dim, near)
    lane = _lane(1, jnp.zeros((2, 1), jnp.uint32), traced)
    memory = jax.eval_shape(start, lane)
    vector = jax.ShapeDtypeStruct((dim,), jnp.float32)
    number, integer = jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct((2,), jnp.int32)
    decide = jax.jit(partial(_decide, rules), donate_argnums=1)
    compiled = decide.lower(lane, memory, memory.carry.similarity, vector, number, integer).compile()
    return Program(start, _look_program(rules.k, rules.num_slots, num_items, dim), compiled)


@lru_cache(maxsize=64)
def _look_program(k: int, num_slots: int, num_items: int, dim: int) -> Any:
    """The look-up does not depend on the policy."""
    ids = jax.ShapeDtypeStruct((num_slots, 1), jnp.int32)
    embedding, vector = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((num_items, dim), (dim,)))
    return jax.jit(partial(_look, k)).lower(ids, ids, embedding, vector).compile()


class Stepper:
    """One lane of a replay: a policy with its cache, in the order look, decide, look, decide ...

    Args:
      case: the policy.   capacity: K.   num_items: M, at least the number of decisions.   dim: D.
      k: retrieved experiences.   feedback, like_at: as in `core.sweep.sweep`.
      key: `[2] u32` key words of the lane, see `lane_key`; step t draws with `fold_in(key, t)`, as the engine does.
    """

    def __init__(
        self,
        case: PolicyCase,
        capacity: int,
        num_items: int,
        dim: int,
        key: np.ndarray,
        *,
        k: int = 3,
        feedback: str = "retrieved",
        like_at: float = 0.5,
    ):
        if capacity < 1 or num_items < 1:
            raise BadOption(f"capacity {capacity} and items {num_items} must be at least 1")
        slots = num_items if case.spec.unbounded else min(capacity, num_items)
        self.rules = rules_of(case, slots, k, feedback, like_at)
        self._program = program(self.rules, case.traced, num_items, dim)
        lane = _lane(num_items if case.spec.unbounded else capacity, jnp.asarray(key).reshape(2, 1), case.traced)
        self._lane = lane
        # Copies: a buffer that stands at two places cannot be donated.
        self._memory = jax.tree.map(jnp.copy, self._program.start(lane))
        self._zero = np.zeros(dim, np.float32)
        self._near: Any = None
        self._asked = False
        self._steps, self._num_items = 0, num_items
        self._spent = 0.0

    def look(self, query: np.ndarray) -> Retrieved:
        """The k residents closest to the question, `[D] f32`; ties to the earliest inserted.

        Raises:
          RuntimeError: the question before has not been decided on.
        """
        if self._asked:
            raise RuntimeError("look was called twice without a decision between")
        began = time.perf_counter()
        cache = self._memory.carry.store
        self._near, items, cosine = self._program.look(cache.ids, cache.order, self._memory.embedding, query)
        found = Retrieved(np.asarray(items), np.asarray(cosine))
        self._spent = time.perf_counter() - began
        self._asked = True
        return found

    def decide(self, item: np.ndarray, quality: float, *, frozen: bool = False) -> Decided:
        """Feedback on the last look-up, then the offer of the experience; it gets the number of this step as its id.

        Args:
          item: `[D] f32` embedding of the experience.   quality: score of the answer in [0, 1].
          frozen: the policy sees neither, and nothing is offered (a test that does not learn).

        Raises:
          RuntimeError: without a look-up before, or after M decisions.
        """
        if not self._asked or self._steps >= self._num_items:
            raise RuntimeError("decide needs a look-up before it, and at most M decisions fit a session")
        began = time.perf_counter()
        mode = int(StepMode.FROZEN if frozen else StepMode.SCORED)
        flags = np.array([NO_ITEM if frozen else self._steps, mode], np.int32)
        self._memory, packed = self._program.decide(
            self._lane, self._memory, self._near, item, np.float32(quality), flags
        )
        admitted, slot, evicted, size = np.asarray(packed).tolist()
        self._asked = False
        self._steps += 1
        seconds = self._spent + time.perf_counter() - began
        return Decided(bool(admitted), slot, evicted, size, seconds)

    def residents(self) -> list[int]:
        """Ids of the items in the cache, by slot."""
        ids = np.asarray(self._memory.carry.store.ids)[:, 0]
        return [int(i) for i in ids if i >= 0]


def lane_key(root_seed: int, trace: str, seed: int) -> np.ndarray:
    """`[2] u32` key words of a lane: the engine's policy stream, so policies of one seed share their draws."""
    key = streams.per_seed(root_seed, streams.POLICY, trace, [seed])
    return np.asarray(jax.random.key_data(key))[0]


def _lane(capacity: int, key: Array, traced: tuple[tuple[str, float], ...]) -> Lanes:
    zero = jnp.zeros(1, jnp.int32)
    params = {name: jnp.full(1, value, jnp.float32) for name, value in traced}
    return Lanes(zero, zero, jnp.full(1, capacity, jnp.int32), key, params)


def _start(rules: Rules, num_items: int, dim: int, near: bool, lane: Lanes) -> Memory:
    params = dict(lane.params)
    state = over_lanes(lambda p: rules.make(**p).init(rules.num_slots), params, size=1)
    zero = jnp.zeros(1, jnp.int32)
    carry = rollout.Carry(
        store.empty(rules.num_slots, 1), state, zero, zero,
        jnp.full((rules.num_slots, 1), _EMPTY, jnp.float32), zero_sums(1, rules.categories),
    )  # fmt: skip
    table = jnp.zeros((1, num_items, num_items), jnp.float32) if near else None
    return Memory(carry, jnp.int32(0), jnp.zeros((num_items, dim), jnp.float32), table)


def _cosines(ids: Array, embedding: Array, vector: Array) -> Array:
    """`[N, 1] f32` cosine of each resident (`ids [N, 1]`) to `vector`, -inf where empty."""
    rows = embedding.at[jnp.maximum(ids[:, 0], 0)].get(mode="promise_in_bounds")
    return jnp.where(ids >= 0, jnp.matmul(rows, vector, precision=HIGHEST)[:, None], _EMPTY)


def _look(k: int, ids: Array, order: Array, embedding: Array, query: Array) -> tuple[Array, Array, Array]:
    near = _cosines(ids, embedding, query)
    ranked = top_k(near, order, k)
    slot = ranked.slots[:, 0]
    items = jnp.where(slot >= 0, ids[jnp.maximum(slot, 0), 0], np.int32(NO_ITEM))
    return near, items, ranked.values[:, 0]


def _decide(
    rules: Rules, lane: Lanes, memory: Memory, near: Array, item: Array, quality: Array, flags: Array
) -> tuple[Memory, Array]:
    row, zero = memory.t, np.int32(0)
    embedding = jax.lax.dynamic_update_slice(memory.embedding, item[None], (row, zero))
    similarity = memory.similarity
    num_items = embedding.shape[0]
    if similarity is not None:
        # Only residents are ever compared, and an item that is none today is never offered again.
        ids = memory.carry.store.ids[:, 0]
        at = jnp.where(ids >= 0, ids, np.int32(num_items))
        cosine = (
            jnp.zeros(num_items, jnp.float32).at[at].set(_cosines(ids[:, None], embedding, item)[:, 0], mode="drop")
        )
        similarity = jax.lax.dynamic_update_slice(similarity, cosine[None, None], (zero, row, zero))
        similarity = jax.lax.dynamic_update_slice(similarity, cosine[None, :, None], (zero, zero, row))
    tables = Tables(
        similarity=jnp.zeros((1, 1, num_items), jnp.float32),  # read for a next query only, and there is none
        relevance=jnp.zeros((1, 1, num_items), bool),
        relevant_total=jnp.ones((1, 1), jnp.float32),
        item_similarity=similarity,
        answer_recall=jnp.broadcast_to(quality, (1, 1, num_items)),
    )
    one = jnp.zeros(1, jnp.int32)
    step = Step(
        t=memory.t, query=one, arrival=flags[:1], arrival_on_miss=None, mode=flags[1:].astype(jnp.uint8),
        second_half=one > 0, slope_weight=jnp.zeros(1, jnp.float32), future_uses=None, next_use=None, last_asked=None,
    )  # fmt: skip
    carry, outcome = rollout.advance(
        rules, tables, lane, step, one + np.int32(NO_QUERY), memory.carry._replace(similarity=near)
    )
    assert outcome is not None, "rules.per_step is set"
    packed = [outcome.admitted.astype(jnp.int32), outcome.slot, outcome.evicted, carry.store.size]
    return Memory(carry, memory.t + 1, embedding, similarity), jnp.concatenate(packed)


__all__ = ["FEEDBACKS", "NO_ITEM", "NO_SLOT", "Decided", "Retrieved", "Stepper", "lane_key", "program", "rules_of"]
