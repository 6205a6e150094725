"""One lane at work: what it retrieves and asks, and what it learns from the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solarjax.replay import prompts, scoring
from solarjax.replay.corpus import Corpus
from solarjax.replay.errors import ReplayError
from solarjax.replay.plan import ON_POLICY, SHADOW, Lane, Settings, question_order
from solarjax.replay.scoring import NOT_MENTIONED
from solarjax.replay.stepper import NO_ITEM, Stepper, lane_key
from solarjax.replay.traces import Asked, ReplaySession


class Diverged(ReplayError):
    """A recorded decision cannot be reproduced, so a replay cannot be continued from its journal."""


@dataclass(frozen=True)
class Pending:
    """A question that waits for its answer.

    position: in the lane's order.   question: index in the session.   retrieved: positions of the experiences in the
    prompt, best first.   experiences: their texts.
    """

    position: int
    question: int
    retrieved: tuple[int, ...]
    experiences: tuple[str, ...]


@dataclass(frozen=True)
class Learned:
    """What an answer is worth, and the experience made of it.

    text: the answer.   f1: its score, None without a model.   quality: what the policy's miss cost is 1 minus of.
    """

    text: str
    f1: float | None
    quality: float
    experience: str


class LiveLane:
    """A lane on one session. Calls alternate: `ask`, then `settle`.

    Args:
      lane: which.   session, corpus: shared by the session's lanes.   num_items: M of the stepper.
    """

    def __init__(self, lane: Lane, session: ReplaySession, corpus: Corpus, settings: Settings, num_items: int):
        self.lane, self.session, self.corpus, self.settings = lane, session, corpus, settings
        self.order, self.warmup = question_order(session, lane.seed, settings.root_seed, settings.warmup)
        self._relevant = session.relevant()
        self._texts: list[str] = []
        self._stepper = Stepper(
            lane.case, lane.capacity, num_items, corpus.questions.shape[1],
            lane_key(settings.root_seed, session.name, lane.seed),
            k=settings.k, feedback=settings.feedback, like_at=settings.like_at,
        )  # fmt: skip

    @property
    def position(self) -> int:
        """Questions settled so far."""
        return len(self._texts)

    def ask(self) -> Pending:
        """Retrieves for the next question."""
        question = int(self.order[self.position])
        found = self._stepper.look(self.corpus.questions[question])
        items = tuple(int(i) for i in found.items if i != NO_ITEM)
        return Pending(self.position, question, items, tuple(self._texts[i] for i in items))

    def learn(self, pending: Pending, answer: str | None) -> Learned:
        """Scores an answer (None: there is no model) and makes the experience."""
        asked = self.session.questions[pending.question]
        correct = right_answer(asked)
        if answer is None:
            hit = float(self.hit(pending))
            return Learned(correct, None, hit, prompts.experience(asked.text, correct, True, correct))
        f1 = scoring.score(answer, asked.golds, asked.rule)
        text = prompts.experience(asked.text, answer, f1 >= self.settings.like_at, correct)
        return Learned(answer, f1, f1, text)

    def hit(self, pending: Pending) -> bool:
        """True if a retrieved experience shares evidence with the question."""
        return any(int(self.order[p]) in self._relevant[pending.question] for p in pending.retrieved)

    def frozen(self, position: int) -> bool:
        """True if nothing is learned at that position."""
        return self.settings.test == "frozen" and position >= self.warmup

    def settle(self, pending: Pending, learned: Learned, embedding: np.ndarray) -> dict[str, Any]:
        """Feedback, decision, write. Returns the lane's part of the record, JSON-able."""
        decided = self._stepper.decide(embedding, learned.quality, frozen=self.frozen(pending.position))
        self._texts.append(learned.experience)
        asked = self.session.questions[pending.question]
        label, capacity, seed = self.lane.key
        return {
            "session": self.session.name, "policy": label, "capacity": capacity, "seed": seed,
            "position": pending.position, "question": asked.id, "category": asked.category, "rule": asked.rule,
            "frozen": self.frozen(pending.position),
            "scored": pending.position >= self.warmup, "text": learned.text, "f1": learned.f1,
            "quality": learned.quality, "hit": self.hit(pending), "retrieved": list(pending.retrieved),
            "admitted": decided.admitted, "slot": decided.slot, "evicted": decided.evicted, "size": decided.size,
            "decision_s": round(decided.seconds, 7),
        }  # fmt: skip

    def again(self, record: dict[str, Any], embed: Any) -> None:
        """Repeats a recorded question without asking: the cache ends as it was.

        Raises:
          Diverged: look-up or decision differ from the record (other code, another encoder).
        """
        pending = self.ask()
        learned = self.learn(pending, None if self.settings.mode == SHADOW else record["text"])
        done = self.settle(pending, learned, embed(learned.experience))
        for name in ("position", "question", "retrieved", "admitted", "slot", "evicted", "size"):
            if done[name] != record[name]:
                raise Diverged(
                    f"{record['session']}, {record['policy']}, K = {record['capacity']}, seed {record['seed']}, "
                    f"question {record['position']}: {name} was {record[name]} and is now {done[name]}; the "
                    "code or the encoder changed, so this replay cannot be continued: remove its folder"
                )


def right_answer(asked: Asked) -> str:
    """The correct answer that an experience carries on dislike."""
    return NOT_MENTIONED if asked.rule == "unanswerable" else asked.golds[0]


def by_lane(records: Sequence[dict[str, Any]]) -> dict[tuple[str, str, int, int], list[dict[str, Any]]]:
    """Records of each (session, policy, capacity, seed), in order of position."""
    found: dict[tuple[str, str, int, int], list[dict[str, Any]]] = {}
    for record in records:
        key = (record["session"], record["policy"], record["capacity"], record["seed"])
        found.setdefault(key, []).append(record)
    return {key: sorted(rows, key=lambda r: r["position"]) for key, rows in found.items()}


__all__ = ["ON_POLICY", "Diverged", "Learned", "LiveLane", "Pending", "by_lane", "right_answer"]
