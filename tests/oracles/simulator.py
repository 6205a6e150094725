"""The step contract in plain Python: lookup, score, policy, write. Slow, literal, no arrays of slots.

Written from the specification alone, to be compared with the engine decision by decision. numpy serves only
for the dot products. A policy is a `Rule`; it keeps whatever Python containers it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

PREFILL, FILL, TRAIN, SCORED, FROZEN = range(5)


class Draws(NamedTuple):
    """Where randomness enters; a test passes the engine's own draws, or a generator's.

    theta(t, slots, alpha, beta) -> one number per resident, given as parallel lists.
    uniform(t) -> a number in [0, 1), for the admission of step t.
    pick(t, slots) -> one of these slots, for a uniformly random victim.
    Residents are named by slot: an item takes the lowest free slot, or the slot of its victim. Lists are in
    order of insertion.
    """

    theta: Callable[[int, list[int], list[float], list[float]], list[float]]
    uniform: Callable[[int], float]
    pick: Callable[[int, list[int]], int]


class Step(NamedTuple):
    """What happened at one step: ids retrieved, by rank; whether an item was written; the id it replaced."""

    retrieved: list[int]
    admitted: bool
    evicted: int | None


@dataclass
class Moment:
    """What a rule may look at during one step.

    t counts all steps; query_count the queries shown so far, this one included; offer_count the arrivals
    offered so far, this one and duplicates included. residents are ids in order of insertion. touched are the
    retrieved that count as accessed, disliked those with negative feedback. candidate is None if nothing
    arrives. On a step without a query, or a frozen one, shown is False and the lookup is empty.
    """

    t: int
    capacity: int
    residents: list[int]
    slot: dict[int, int]
    query_count: int
    offer_count: int
    shown: bool
    retrieved: list[int]
    touched: list[int]
    disliked: list[int]
    scores: dict[str, float]
    miss: float
    candidate: int | None
    cosine: Callable[[int, int], float]
    draws: Draws | None
    uses: Callable[[int], list[int]]
    query_at: Callable[[int], int]

    @property
    def full(self) -> bool:
        """No free slot."""
        return len(self.residents) >= self.capacity


class Rule:
    """A policy, or half of one: an admission rule overrides `admit`, a victim rule the other three."""

    def touch(self, m: Moment) -> None:
        """Statistics after the lookup; called at every step."""

    def admit(self, m: Moment) -> bool:
        """Whether to write the candidate; called at every step, the answer only used with a candidate."""
        return True

    def victim(self, m: Moment) -> int:
        """Id of the resident that makes room."""
        raise TypeError(f"{type(self).__name__} decides on admission only: it names no victim")

    def written(self, m: Moment, evicted: int | None) -> None:
        """The candidate was inserted, and `evicted` has left."""


@dataclass
class Composed(Rule):
    """An admission rule with a victim rule: touch, decide, and only then choose."""

    admission: Rule
    eviction: Rule

    def touch(self, m: Moment) -> None:
        self.eviction.touch(m)

    def admit(self, m: Moment) -> bool:
        return self.admission.admit(m)

    def victim(self, m: Moment) -> int:
        return self.eviction.victim(m)

    def written(self, m: Moment, evicted: int | None) -> None:
        self.eviction.written(m, evicted)


@dataclass
class World:
    """A trace with its relevance as dictionaries and its cosines as callables."""

    trace: Any
    similarity: np.ndarray
    item_similarity: np.ndarray
    relevant: list[dict[int, float]] = field(default_factory=list)
    scored_at: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: Any, similarity: np.ndarray | None = None, item_similarity: np.ndarray | None = None) -> World:
        """Reads a trace; tables of cosines `[Q, M]` and `[M, M]` may be given, to share their rounding."""
        items, queries = np.asarray(trace.items), np.asarray(trace.queries)
        world = cls(
            trace,
            queries @ items.T if similarity is None else np.asarray(similarity),
            items @ items.T if item_similarity is None else np.asarray(item_similarity),
        )
        indptr = [int(x) for x in trace.relevant_indptr]
        grade = getattr(trace, "relevant_grade", None)
        for q in range(len(indptr) - 1):
            entries = range(indptr[q], indptr[q + 1])
            world.relevant.append(
                {int(trace.relevant_indices[e]): 1.0 if grade is None else float(grade[e]) for e in entries}
            )
        for t, (query, mode) in enumerate(zip(trace.query.tolist(), trace.mode.tolist(), strict=True)):
            if query >= 0 and mode >= SCORED:
                for item in world.relevant[query]:
                    world.scored_at.setdefault(item, []).append(t)
        return world

    def scores(self, query: int, retrieved: list[int], k: int) -> dict[str, float]:
        """All qualities of one retrieval, each in [0, 1]."""
        relevant = self.relevant[query]
        found = sum(relevant.get(i, 0.0) for i in retrieved)
        recall = found / sum(relevant.values()) if relevant else 0.0
        precision = found / max(len(retrieved), 1)
        cosines = [float(self.similarity[query, i]) for i in retrieved]
        answers = getattr(self.trace, "answer_recall", None)
        return {
            "hit": float(any(i in relevant for i in retrieved)),
            "recall": recall,
            "precision": precision,
            "f1": 2 * recall * precision / (recall + precision) if found else 0.0,
            "max_similarity": clip01(max(cosines, default=0.0)),
            "mean_similarity": clip01(sum(cosines) / len(cosines) if cosines else 0.0),
            "answer_recall": 0.0
            if answers is None
            else max((float(answers[query, i]) for i in retrieved), default=0.0),
        }


def clip01(x: float) -> float:
    """x limited to [0, 1]."""
    return min(max(x, 0.0), 1.0)


def run(
    world: World,
    rule: Rule,
    capacity: int,
    k: int = 3,
    quality: str = "hit",
    feedback: str = "retrieved",
    like_at: float = 0.5,
    draws: Draws | None = None,
) -> list[Step]:
    """Runs one policy over one trace.

    Choices where the specification is silent: `arrival_on_miss` looks at the hit, whatever `quality` is; a
    FILL arrival that is not offered is not counted as offered.
    """
    trace = world.trace
    on_miss = getattr(trace, "arrival_on_miss", None)
    residents: list[int] = []
    slot: dict[int, int] = {}
    query_count = offer_count = 0
    steps = []
    for t in range(len(trace.query)):
        query, mode = int(trace.query[t]), int(trace.mode[t])
        retrieved: list[int] = []
        scores: Mapping[str, float] = {}
        if query >= 0:
            cosine = dict(zip(residents, world.similarity[query, residents].tolist(), strict=True))
            # `sorted` is stable, reversed too, and residents are in insertion order: ties go to the earliest.
            retrieved = sorted(residents, key=cosine.__getitem__, reverse=True)[:k]
            scores = world.scores(query, retrieved, k)
        item = int(trace.arrival[t])
        if on_miss is not None and query >= 0 and not scores["hit"]:
            item = int(on_miss[t])
        if mode == FILL and len(residents) >= capacity:
            item = -1
        shown = query >= 0 and mode != FROZEN
        query_count += shown
        offer_count += item >= 0
        liked = shown and scores[quality] >= like_at
        m = Moment(
            t=t,
            capacity=capacity,
            residents=list(residents),
            slot=dict(slot),
            query_count=query_count,
            offer_count=offer_count,
            shown=shown,
            retrieved=retrieved if shown else [],
            touched=retrieved if shown and (feedback == "retrieved" or liked) else [],
            disliked=retrieved if shown and feedback == "liked_disliked" and not liked else [],
            scores=dict(scores) if shown else {},
            miss=1.0 - scores[quality] if shown else 0.0,
            candidate=item if item >= 0 else None,
            cosine=lambda i, j: float(world.item_similarity[i, j]),
            draws=draws,
            uses=lambda i, now=t: [s for s in world.scored_at.get(i, []) if s > now],  # type: ignore[misc]
            query_at=lambda step: int(trace.query[step]),
        )
        rule.touch(m)
        admit = rule.admit(m)
        evicted = None
        writes = admit and item >= 0 and item not in slot
        if writes:
            if len(residents) >= capacity:
                evicted = rule.victim(m)
                residents.remove(evicted)
                slot[item] = slot.pop(evicted)
            else:
                slot[item] = min(set(range(capacity)) - set(slot.values()))
            residents.append(item)
            rule.written(m, evicted)
        steps.append(Step(retrieved, writes, evicted))
    return steps
