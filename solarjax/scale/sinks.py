"""Where launchers put finished tasks: files per task that are gathered at the end, or regions of a zarr store."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xarray as xr

from solarjax.core.chunks import ChunkStore, SweepError
from solarjax.core.execute import Task
from solarjax.core.gather import Gather
from solarjax.core.task_runner import TaskRunner
from solarjax.core.tasks import SweepPlan
from solarjax.scale.zarr_store import ZarrStore, open_results

Part = tuple[Task, ...]


def give_back() -> None:
    """Hands freed memory back to the system, which glibc does late where several threads allocate."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Sink(Protocol):
    """Keeps the counters of tasks.

    plan: the sweep, cut as the store on disk says.
    unit: what a unit of progress on disk is called.
    """

    plan: SweepPlan
    unit: str

    def parts(self, writers: int) -> list[Part]:
        """The tasks in pieces that belong to one writer; the same list in every process."""

    def finished(self) -> set[str]:
        """Names of the tasks that need not run any more, looked up on disk now."""

    def put(self, task: Task, chunk: Mapping[str, np.ndarray]) -> None:
        """Keeps a task's counters. Raises `SweepError` if the disk refuses."""

    def result(self, runner: TaskRunner) -> xr.Dataset:
        """The dataset once everything is finished. Raises `SweepError` if something is missing."""


class ChunkSink:
    """One file per task (`core.chunks`); the dataset is gathered in memory.

    Args:
      plan: the sweep.
      folder: where the files are, None keeps them in memory.
    """

    unit = "chunks"

    def __init__(self, plan: SweepPlan, folder: Path | None):
        self._store = ChunkStore(folder, plan.config, plan.layout)
        self.plan = plan.laid_out(self._store.layout)

    def parts(self, writers: int) -> list[Part]:
        """Whole blocks, since the tables of a block are built once for all its tasks; tasks if blocks are few."""
        tasks, blocks = self.plan.tasks, self.plan.num_blocks
        size = len(tasks) // blocks if blocks >= writers else 1
        return [tasks[i : i + size] for i in range(0, len(tasks), size)]

    def finished(self) -> set[str]:
        """Names of the files that are there."""
        return self._store.names()

    def put(self, task: Task, chunk: Mapping[str, np.ndarray]) -> None:
        """Writes the task's file. Raises `SweepError` if the disk refuses."""
        self._store.save(task.name, chunk)

    def result(self, runner: TaskRunner) -> xr.Dataset:
        """The dataset from all files; one that is missing or damaged is computed here."""
        gathered = Gather(self.plan)
        for task in self.plan.tasks:
            chunk = self._store.load(task.name)
            if chunk is None:
                chunk = runner.run(task)
                self._store.save(task.name, chunk)
            gathered.add(task, chunk)
        return gathered.dataset(runner)


class RegionSink:
    """Regions of a zarr store: tasks are collected until their region is complete, then it is written and let go.

    Args:
      plan: the sweep.
      path: folder of the store.
      writers, layout: see `ZarrStore`.
    """

    unit = "regions"

    def __init__(self, plan: SweepPlan, path: Path, writers: int = 1, layout: Mapping[str, Any] | None = None):
        self.store = ZarrStore(path, plan, writers, layout)
        self.plan = self.store.plan
        # Region of a block; all tasks of a block are in one region.
        self._region = {task.block: r for r in self.store.regions for task in r.tasks}
        self._open: dict[int, tuple[Gather, set[str]]] = {}
        self._runner: TaskRunner | None = None

    def parts(self, writers: int) -> list[Part]:
        """Whole regions."""
        return [region.tasks for region in self.store.regions]

    def finished(self) -> set[str]:
        """Tasks of the regions that are marked in the store; those of half a region run again."""
        left = {r.index for r in self.store.unfinished()}
        return {task.name for r in self.store.regions if r.index not in left for task in r.tasks}

    @property
    def open_regions(self) -> int:
        """Regions that are in memory now."""
        return len(self._open)

    def put(self, task: Task, chunk: Mapping[str, np.ndarray]) -> None:
        """Keeps the counters in memory, and writes the region with its last task. Raises `SweepError`."""
        region = self._region[task.block]
        if region.index not in self._open:
            seeds = self.plan.seeds[region.start : region.stop]
            self._open[region.index] = (Gather(self.plan, [region.trace], seeds), set())
        gathered, names = self._open[region.index]
        gathered.add(task, chunk)
        names.add(task.name)
        if len(names) == len(region.tasks):
            if self._runner is None:
                self._runner = TaskRunner(self.plan)
            del self._open[region.index]
            self.store.write(region, gathered.dataset(self._runner))
            give_back()

    def result(self, runner: TaskRunner) -> xr.Dataset:
        """The dataset, read from disk when asked for. Raises `SweepError` if a region is missing."""
        left = len(self.store.unfinished())
        if left:
            raise SweepError(f"{self.store.path}: {left} of {len(self.store.regions)} regions are not finished")
        return open_results(self.store.path)
