"""One policy, one question at a time: the engine's step, compiled once and fed by a live model.

Nothing is implemented a second time. `decide` calls the function that the engine scans over (`core.rollout`), with one
lane, and hands it the quality of the answer through the table that the engine reads answer qualities from
(`Scores.answer_recall`, the same for every item, because a live answer is scored as a whole). `look` is the engine's
top-k. What is added is only what a recorded trace has beforehand and a live one has not: embeddings enter one by one.

One difference from the engine, which spec 5 asks for: while the cache is empty a gate hears 1 - F1 of the answer that
the dialogue alone gave. The engine scores the retrieval, and nothing retrieved is worth 0, so its gates hear 1 there.

Legend: N slots, M items a session can offer (one experience per question), D dimensions, k retrieved.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from solarjax.core import streams
from solarjax.core.execute import make_rules
from solarjax.core.lanes import Rules
from solarjax.core.trace import NO_ITEM, StepMode
from solarjax.core.types import NO_SLOT
from solarjax.policies.registry import PolicyCase
from solarjax.replay.errors import BadOption
from solarjax.replay.packing import unpack
from solarjax.replay.step_program import MORE, Memory, lane_of, program

FEEDBACKS = ("retrieved", "liked", "liked_disliked")
QUALITY = "answer_recall"
"""The engine's field that carries the live answer's score."""


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


def in_this_thread() -> None:
    """Lets jax compute in the thread that asks: a decision is shorter than a change of threads.

    To be called before anything is computed; without effect if jax runs already.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)


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
        lane = lane_of(num_items if case.spec.unbounded else capacity, jnp.asarray(key).reshape(2, 1), case.traced)
        self._memory: Memory = self._program.start(lane)
        self._message = np.empty(dim + MORE, np.float32)
        self._flags = self._message[dim + 1 :].view(np.int32)
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
        self._near, packed = self._program.look(self._memory.words, self._memory.rows, query)
        items, cosine = np.asarray(packed).reshape(2, -1)
        found = Retrieved(items.view(np.int32), cosine)
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
        dim = len(self._message) - MORE
        self._message[:dim], self._message[dim] = item, quality
        self._flags[:] = NO_ITEM if frozen else self._steps, mode
        self._memory, packed = self._program.decide(self._memory, self._near, self._message)
        admitted, slot, evicted, size = np.asarray(packed).tolist()
        self._asked = False
        self._steps += 1
        seconds = self._spent + time.perf_counter() - began
        return Decided(bool(admitted), slot, evicted, size, seconds)

    def residents(self) -> list[int]:
        """Ids of the items in the cache, by slot."""
        ids = np.asarray(unpack(self._program.layout, self._memory.words).carry.store.ids)[:, 0]
        return [int(i) for i in ids if i >= 0]


def lane_key(root_seed: int, trace: str, seed: int) -> np.ndarray:
    """`[2] u32` key words of a lane: the engine's policy stream, so policies of one seed share their draws."""
    key = streams.per_seed(root_seed, streams.POLICY, trace, [seed])
    return np.asarray(jax.random.key_data(key))[0]


__all__ = ["FEEDBACKS", "NO_ITEM", "NO_SLOT", "Decided", "Retrieved", "Stepper", "lane_key", "program", "rules_of"]
