"""Random traces of one fixed shape, so that a policy compiles once however many traces are tried.

Everything is read off a byte string: hypothesis can draw it and shrink it, and a test with a fixed seed can make
one. Embeddings come from a coarse palette, so equal cosines and duplicate embeddings are common; relevance,
grades and answer recalls are dyadic, so their sums are exact in float32 and in float64 alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solarjax.core.tables import Schedule, Tables
from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode, Trace
from solarjax.core.types import NEVER

STEPS, ITEMS, QUERIES, TRACES = 48, 16, 16, 4
PALETTE = np.array([v for v in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(v)], np.float32)
GRADES = ((), (1.0,), (0.5,), (1.0, 1.0), (0.5, 0.5), (1.0, 0.5, 0.5))
"""Grades of a query's relevant items: totals of 0, 1/2, 1 and 2, so that recalls are exact."""
BOTH, ASK, OFFER = (True, True), (True, False), (False, True)
KINDS = (
    *[(StepMode.SCORED, *BOTH)] * 6,
    *[(StepMode.TRAIN, *BOTH)] * 2,
    *[(StepMode.SCORED, *ASK), (StepMode.TRAIN, *ASK), (StepMode.FROZEN, *ASK)],
    *[(StepMode.SCORED, *OFFER), (StepMode.TRAIN, *OFFER), (StepMode.PREFILL, *OFFER), (StepMode.FILL, *OFFER)],
    (StepMode.SCORED, False, False),
)
"""(mode, asks, offers) of a step, by weight."""
TRACE_BYTES = ITEMS + QUERIES * 3 + 3 + STEPS * 3


def trace_of(raw: bytes, name: str = "t", smooth: bool = False) -> Trace:
    """The trace that `raw` (TRACE_BYTES long) describes.

    Args:
      smooth: draw the embeddings from a continuous law (seeded by `raw`) instead: no two cosines are equal.
    """
    assert len(raw) == TRACE_BYTES
    numbers = np.frombuffer(raw, np.uint8).astype(np.int64)
    at = 0

    def take(n: int) -> np.ndarray:
        nonlocal at
        at += n
        return numbers[at - n : at]

    items, queries = PALETTE[take(ITEMS) % len(PALETTE)], PALETTE[take(QUERIES) % len(PALETTE)]
    if smooth:
        rng = np.random.default_rng(list(raw))
        items, queries = rng.normal(size=(ITEMS, 3)), rng.normal(size=(QUERIES, 3))
    indptr, indices, grades = [0], [], []
    for first, pattern in zip(take(QUERIES), take(QUERIES), strict=True):
        grade = GRADES[pattern % len(GRADES)]
        # An odd stride reaches different items, their number being a power of two.
        indices += [int(first + i * (pattern | 1)) % ITEMS for i in range(len(grade))]
        grades += grade
        indptr.append(len(indices))
    a, b, shift = take(3)
    plan, query, arrival = take(STEPS) % len(KINDS), take(STEPS) % QUERIES, take(STEPS) % ITEMS
    mode, asks, offers = (np.array([KINDS[p][i] for p in plan]) for i in range(3))
    # Every other trace stores another item when the query missed.
    other = (arrival + (shift // 2 if shift % 2 else 0)) % ITEMS
    grid = np.add.outer(np.arange(QUERIES) * (2 * a + 1), np.arange(ITEMS) * (2 * b + 1))
    return Trace(
        name=name,
        items=items,
        queries=queries,
        query=np.where(asks, query, NO_QUERY),
        arrival=np.where(offers, arrival, NO_ITEM),
        arrival_on_miss=np.where(offers, other, NO_ITEM),
        mode=mode,
        relevant_indptr=np.array(indptr),
        relevant_indices=np.array(indices, np.int64),
        relevant_grade=np.array(grades),
        answer_recall=(grid % 9 / 8).astype(np.float32),
        category=np.arange(QUERIES) % 2,
        category_names=("even", "odd"),
    )


def random_traces(seed: int) -> list[Trace]:
    """TRACES traces: half of them full of ties, half without any; each shows every kind of step early on."""
    rng = np.random.default_rng(seed)
    traces = []
    for i in range(TRACES):
        raw = bytearray(rng.bytes(TRACE_BYTES))
        for step, mode in ((2, StepMode.PREFILL), (5, None), (11, StepMode.FROZEN), (14, None), (17, StepMode.FILL)):
            kind = next(n for n, (m, *has) in enumerate(KINDS) if (m == mode if any(has) else mode is None))
            raw[-3 * STEPS + step] = kind
        traces.append(trace_of(bytes(raw), f"t{i}", smooth=i % 2 == 1))
    return traces


def exact_match_trace(requests: Sequence[int], name: str = "exact") -> Trace:
    """Classic caching: step t asks for item `requests[t]` by its own embedding, and the item arrives then.

    Only that item is relevant, and no two directions are equal, so an item is found iff it is resident.
    """
    assert len(requests) == STEPS and max(requests) < ITEMS
    items = np.random.default_rng(7).normal(size=(ITEMS, 3))
    one = np.array(requests)
    return Trace(
        name=name,
        items=items,
        queries=items,
        query=one,
        arrival=one,
        mode=np.full(STEPS, StepMode.SCORED),
        relevant_indptr=np.arange(ITEMS + 1),
        relevant_indices=np.arange(ITEMS),
        answer_recall=np.eye(ITEMS),
        category=np.zeros(ITEMS, int),
        category_names=("even", "odd"),
    )


class World(NamedTuple):
    """Traces of the fixed shape with the tables and the schedule that the engine reads, all numpy."""

    traces: tuple[Trace, ...]
    tables: Tables
    schedule: Schedule


def world_of(traces: Sequence[Trace], grid: int | None = None) -> World:
    """Tables and schedules by plain numpy, every optional table included; future tables by brute force.

    Args:
      grid: round cosines to multiples of 1/grid. With a power of two, sums of them are exact, and cosines that are
        equal on paper are equal in floating point.
    """

    def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        table = left @ right.T
        return table if grid is None else np.round(table * np.float32(grid)) / np.float32(grid)

    similarity = np.stack([cosines(t.queries, t.items) for t in traces], axis=1)
    relevance = np.stack([t.relevance_matrix().astype(np.float32) for t in traces], axis=1)
    futures = [future_by_hand(t) for t in traces]
    steps, pairs = len(traces[0].query), len(traces)
    tables = Tables(
        similarity=similarity,
        relevance=relevance,
        relevant_total=relevance.sum(axis=2),
        item_similarity=np.stack([cosines(t.items, t.items) for t in traces]),
        answer_recall=np.stack([np.asarray(t.answer_recall) for t in traces], axis=1),
        category=np.stack([np.asarray(t.category) for t in traces], axis=1),
    )
    scored = np.stack([scored_steps(t) for t in traces], axis=1)
    half = np.cumsum(scored, axis=0) > (scored.sum(axis=0) + 1) // 2
    misses = [t.arrival if t.arrival_on_miss is None else t.arrival_on_miss for t in traces]
    schedule = Schedule(
        query=np.stack([t.query for t in traces], axis=1),
        arrival=np.stack([t.arrival for t in traces], axis=1),
        arrival_on_miss=np.stack(misses, axis=1),
        mode=np.stack([t.mode for t in traces], axis=1),
        second_half=scored & half,
        slope_weight=np.zeros((steps, pairs), np.float32),
        future_uses=np.stack([uses for uses, _ in futures], axis=1),
        next_use=np.stack([ahead for _, ahead in futures], axis=1),
        last_asked=np.stack([last_asked_by_hand(t) for t in traces], axis=1),
    )
    return World(tuple(traces), tables, schedule)


def scored_steps(trace: Trace) -> np.ndarray:
    """`[T] bool`."""
    return (trace.mode >= StepMode.SCORED) & (trace.query >= 0)


def last_asked_by_hand(trace: Trace) -> np.ndarray:
    """`[Q] i32`: the last scored step of each query, -1 if none."""
    steps = {int(trace.query[t]): t for t in np.flatnonzero(scored_steps(trace))}
    return np.array([steps.get(q, -1) for q in range(len(trace.queries))], np.int32)


def future_by_hand(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """`future_uses, next_use`, each `[T, M] i32`, by looking ahead from every step."""
    relevant = trace.relevance_matrix() > 0
    steps, items = len(trace.query), len(trace.items)
    uses, ahead = np.zeros((steps, items), np.int32), np.full((steps, items), NEVER, np.int32)
    for t in range(steps):
        for later in np.flatnonzero(scored_steps(trace))[::-1]:
            if later > t:
                useful = relevant[trace.query[later]]
                uses[t] += useful
                ahead[t, useful] = later
    return uses, ahead
