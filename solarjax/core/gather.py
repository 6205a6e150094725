"""From the counters of finished tasks to a labelled dataset, for a whole sweep or for a rectangle of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from solarjax.core import dataset as ds
from solarjax.core.execute import Task
from solarjax.core.task_runner import TaskRunner
from solarjax.core.tasks import SweepPlan


class Gather:
    """Counters `[trace, policy, capacity, *grid, seed]` of some traces and seeds of a plan, all at 0 at first.

    Args:
      plan: the sweep.
      traces: indices of the traces, by default all.
      seeds: seed numbers, by default all; every task added must belong to these traces and seeds.
    """

    def __init__(self, plan: SweepPlan, traces: Sequence[int] | None = None, seeds: Sequence[int] | None = None):
        self.plan = plan
        self.traces = list(range(len(plan.source.traces))) if traces is None else list(traces)
        self.seeds = plan.seeds if seeds is None else list(seeds)
        self.values: dict[str, np.ndarray] = {}
        self._row = {trace: i for i, trace in enumerate(self.traces)}
        self._column = {seed: i for i, seed in enumerate(self.seeds)}
        grid = [len(points) for points in plan.grid.values()]
        self._shape = (len(self.traces), len(plan.policies), len(plan.capacities), *grid, len(self.seeds))

    def add(self, task: Task, chunk: Mapping[str, np.ndarray]) -> None:
        """Puts a task's counters in their place, spread over the axes that its policy does not have."""
        plan, pairs = self.plan, self.plan.pairs(task.block)
        policy = plan.policies.index(task.case)
        trace = np.asarray([self._row[t] for t, _ in pairs])
        seed = np.asarray([self._column[s] for _, s in pairs])
        for name, array in chunk.items():
            lanes = np.moveaxis(array, -1, 0).reshape(len(pairs), len(task.group.combos), *array.shape[:-1])
            if name not in self.values:
                self.values[name] = np.zeros((*self._shape, *array.shape[:-1]), array.dtype)
            for column, combo in enumerate(task.group.combos):
                unbounded = task.case.spec.unbounded
                where_k = range(len(plan.capacities)) if unbounded else [plan.capacities.index(combo.capacity)]
                point = dict(zip(task.group.axes, combo.point, strict=True))
                axes = [
                    [points.index(point[a])] if a in point else range(len(points)) for a, points in plan.grid.items()
                ]
                for at in itertools.product(where_k, *axes):
                    index: tuple[Any, ...] = (trace, policy, *at, seed)
                    self.values[name][index] = lanes[:, column]

    def dataset(self, runner: TaskRunner) -> Any:
        """The labelled `xarray.Dataset` of what was added, see `core.dataset.VARIABLES`."""
        if not self.plan.per_step:
            return self.labelled()
        pairs = [(t, s) for t in self.traces for s in self.seeds]
        shape = (len(self.traces), len(self.seeds), self.plan.source.num_steps)
        return self.labelled(runner.scored_steps(pairs).reshape(shape))

    def labelled(self, scored: np.ndarray | None = None) -> Any:
        """The same from the steps that are scored, `[trace, seed, T] u8`, needed with per-step output only."""
        plan, source = self.plan, self.plan.source
        values = self.values if scored is None else {**self.values, "step_scored": scored}
        coords = {**plan.coords, "trace": [source.traces[t] for t in self.traces], "seed": self.seeds}
        return ds.assemble(
            values, plan.dims, coords, plan.lambdas, source.answers, source.availability, source.categories, plan.attrs
        )
