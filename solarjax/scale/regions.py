"""How a sweep on disk is cut: rectangles of one trace and a run of seeds, written whole by one process.

A region holds every policy, capacity and grid point of its seeds, so that the tables of a workload are built once for
all of them, and each variable of a region is one chunk of the store: no two writers ever touch the same file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from solarjax.core.execute import Task
from solarjax.core.metrics import COUNTS, TOTALS
from solarjax.core.tasks import SweepPlan

REGION_BYTES = 64 * 2**20
"""Counters and metrics of one region in memory; also the size of a loss when a process is killed."""
REGIONS_PER_WRITER = 4
"""At least so many regions for each process, where there are enough seeds, so that none waits long for the last."""
METRICS = 26
"""Float64 or narrower variables of a cell, at most; see `core.dataset.VARIABLES`."""


@dataclass(frozen=True)
class Region:
    """One rectangle: `start` to `stop`, positions in the plan's seeds, of one trace; `tasks` is what runs for it."""

    index: int
    trace: int
    start: int
    stop: int
    tasks: tuple[Task, ...]


def cells_per_seed(plan: SweepPlan) -> int:
    """Cells of one (trace, seed) pair: policies x capacities x grid points."""
    return len(plan.policies) * len(plan.capacities) * int(np.prod([len(v) for v in plan.grid.values()], dtype=int))


def cell_bytes(plan: SweepPlan) -> int:
    """Upper bound on the bytes of a cell while its region is in memory: counters, and the metrics derived from them."""
    groups = len(plan.source.categories)
    steps = plan.source.num_steps if plan.per_step else 0
    counters = 4 * (len(COUNTS) + len(TOTALS) + 1 + 2 * groups) + steps
    return counters + 8 * (METRICS + len(plan.lambdas)) + (4 + 8) * groups


def lay_out(plan: SweepPlan, writers: int = 1, budget: int = REGION_BYTES) -> dict[str, Any]:
    """The layout of a store for this plan: blocks within one trace, and whole blocks per region.

    Args:
      plan: the sweep.
      writers: processes that will share the work.
      budget: bytes of one region in memory.

    Returns:
      `block_pairs`, `by_trace`, `tasks` as in `SweepPlan.layout`, and `region_seeds`, a multiple of `block_pairs`
      (or all seeds).
    """
    seeds = len(plan.seeds)
    fit = max(1, budget // (cells_per_seed(plan) * cell_bytes(plan)))
    block = min(plan.block_pairs, fit, seeds)
    wanted = -(-REGIONS_PER_WRITER * writers // len(plan.source.traces))  # regions of each trace
    most = min(fit, max(block, seeds // wanted))
    cut = plan.laid_out({"block_pairs": block, "by_trace": True})
    return {**cut.layout, "region_seeds": min(seeds, most // block * block)}


def regions(plan: SweepPlan, region_seeds: int) -> list[Region]:
    """All regions, trace by trace, in the order of the plan's tasks."""
    seeds, blocks = len(plan.seeds), plan.num_blocks
    per_trace, per_block = blocks // len(plan.source.traces), len(plan.tasks) // blocks
    found: list[Region] = []
    for trace in range(len(plan.source.traces)):
        for start in range(0, seeds, region_seeds):
            stop = min(start + region_seeds, seeds)
            first = trace * per_trace + start // plan.block_pairs
            last = trace * per_trace + -(-stop // plan.block_pairs)
            own = plan.tasks[first * per_block : last * per_block]
            found.append(Region(len(found), trace, start, stop, own))
    return found
