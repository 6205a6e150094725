"""The main job: traces x policies x capacities x hyper-parameters x seeds, in one labelled dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from solarjax.core.chunks import ChunkStore
from solarjax.core.gather import Gather
from solarjax.core.parallel import local_mesh
from solarjax.core.source import Source
from solarjax.core.task_runner import TaskRunner
from solarjax.core.tasks import plan_sweep

Progress = Callable[[int, int, str], None]


def sweep(
    source: Source,
    policies: Sequence[Any],
    capacities: Sequence[int],
    seeds: int | Sequence[int],
    *,
    k: int = 3,
    quality: str = "hit",
    feedback: str = "retrieved",
    like_at: float = 0.5,
    grid: Mapping[str, Sequence[float]] | None = None,
    lambdas: Sequence[float] = (1.0,),
    root_seed: int = 0,
    per_step: bool = False,
    memory_bytes: int | None = None,
    devices: Sequence[Any] | None = None,
    out_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Runs every combination and returns its metrics.

    Args:
      source: the traces (`workloads.sources`).
      policies: `PolicyCase`s (`policies.registry.parse_cases` or `case`).
      capacities: K values, >= 1. Above the item count nothing is ever evicted.
      seeds: a count n (seeds 0..n-1) or the seeds themselves. A seed draws the workload (or protocol) and the policy.
      k: retrieval depth.
      quality: the score whose complement is the miss cost, a field of `core.types.Scores`.
      feedback: what a policy sees as accessed: `retrieved`, `liked` (retrieved, if quality >= like_at) or
        `liked_disliked`.
      grid: parameter name -> values; each becomes a dimension. A policy without the parameter runs once.
      lambdas: switching costs for `total_cost`.
      root_seed: root of every random stream, 0..2^32-1.
      per_step: also return `hits` per step (memory: T bytes per lane).
      memory_bytes: device memory the working set may take; a quarter of the machine by default.
      devices: jax devices to shard lanes over; all local ones by default.
      out_dir: where finished chunks are kept; a killed sweep called again with the same arguments continues.
      progress: called as progress(done, total, label) after each chunk.

    Returns:
      Dataset with dims (trace, policy, capacity, *grid, seed); see `core.dataset.VARIABLES`.

    Raises:
      SweepError: an argument is not allowed, or `out_dir` holds another sweep.
    """
    mesh = local_mesh(devices)
    plan = plan_sweep(
        source, policies, capacities, seeds, k=k, quality=quality, feedback=feedback, like_at=like_at, grid=grid,
        lambdas=lambdas, root_seed=root_seed, per_step=per_step, memory_bytes=memory_bytes, mesh=mesh,
    )  # fmt: skip
    store = ChunkStore(None if out_dir is None else Path(out_dir), plan.config, plan.layout)
    plan = plan.laid_out(store.layout)
    runner, gathered = TaskRunner(plan, mesh), Gather(plan)
    for done, task in enumerate(plan.tasks):
        chunk = store.load(task.name)
        if chunk is None:
            chunk = runner.run(task)
            store.save(task.name, chunk)
        gathered.add(task, chunk)
        if progress is not None:
            progress(done + 1, len(plan.tasks), f"{task.case.label} N={task.group.num_slots}")
    return gathered.dataset(runner)
