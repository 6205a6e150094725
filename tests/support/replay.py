"""What a per-step record says about the cache, replayed with a Python list."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solarjax.core.trace import NO_ITEM, StepMode, Trace
from tests.support.engine import Run


class Write(NamedTuple):
    """One step of one lane: the item on offer (NO_ITEM if none), who was resident before (by slot), and the write."""

    t: int
    item: int
    before: dict[int, int]
    admitted: bool
    slot: int
    evicted: int


def replay(trace: Trace, run: Run, lane: int, capacity: int) -> tuple[list[Write], dict[int, int]]:
    """All steps of a lane, and the residents by slot at the end. Believes the record, checks nothing."""
    relevant = trace.relevance_matrix() > 0
    held: dict[int, int] = {}
    steps = []
    for t in range(trace.num_steps):
        query, item = int(trace.query[t]), int(trace.arrival[t])
        found = [i for i in run.outcome.retrieved[t, :, lane] if i != NO_ITEM]
        if trace.arrival_on_miss is not None and query >= 0 and not relevant[query, found].any():
            item = int(trace.arrival_on_miss[t])
        if trace.mode[t] == StepMode.FILL and len(held) >= capacity:
            item = NO_ITEM
        admitted, slot = bool(run.outcome.admitted[t, lane]), int(run.outcome.slot[t, lane])
        steps.append(Write(t, item, dict(held), admitted, slot, int(run.outcome.evicted[t, lane])))
        if admitted:
            held[slot] = item
    return steps, held


def same_bits(left: object, right: object) -> bool:
    """Equal dtypes, shapes and bits; NaN equals itself, -0 differs from 0."""
    a, b = np.asarray(left), np.asarray(right)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
