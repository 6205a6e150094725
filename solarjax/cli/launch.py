"""Where a run computes and where its results lie: `--launcher` and `--store` of `solarjax run`."""

from __future__ import annotations

import functools
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from solarjax import provenance
from solarjax.cli.errors import UserError
from solarjax.cli.job import Job, Outcome, Progress

if TYPE_CHECKING:
    from solarjax.core.tasks import SweepPlan
    from solarjax.scale.sinks import Sink

LOCAL, ARRAY, DISTRIBUTED, RAY = "local", "array", "distributed", "ray"
LAUNCHERS = (LOCAL, ARRAY, DISTRIBUTED, RAY)
NETCDF, ZARR = "netcdf", "zarr"
STORES = (NETCDF, ZARR)


@dataclass(frozen=True)
class Launch:
    """How a job is run.

    launcher: one of `LAUNCHERS`.  store: one of `STORES`.
    processes, process: how many share the work and which this is (array, distributed).
    coordinator: `host:port` of process 0 (distributed); None where jax finds it.  timeout: seconds to wait for others.
    ray_address: of a running cluster, None starts one.  ray_gpus: GPUs of each Ray task.
    """

    launcher: str = LOCAL
    store: str = NETCDF
    processes: int | None = None
    process: int | None = None
    coordinator: str | None = None
    timeout: float = 600.0
    ray_address: str | None = None
    ray_gpus: float = 0.0

    @property
    def plain(self) -> bool:
        """One process that ends with one file: nothing of this module is needed."""
        return self.launcher == LOCAL and self.store == NETCDF

    def check(self, out: Path | None) -> None:
        """Raises `UserError` or `SweepError` if options are unknown, missing or do not go together."""
        for option, value, known in (("--launcher", self.launcher, LAUNCHERS), ("--store", self.store, STORES)):
            if value not in known:
                raise UserError(f"{option} {value!r} is not one of {', '.join(known)}")
        shared = self.launcher in (ARRAY, DISTRIBUTED)
        if out is None and (shared or self.store == ZARR):
            what = f"--launcher {self.launcher}" if shared else "--store zarr"
            raise UserError(f"{what} needs --out, the folder that takes the results")
        numbers = (self.processes, self.process)
        if not shared and numbers != (None, None):
            raise UserError(f"--processes and --process need --launcher {ARRAY} or {DISTRIBUTED}")
        found = self.launcher == DISTRIBUTED and self.coordinator is None
        if shared and not found and None in numbers:
            raise UserError(f"--launcher {self.launcher} needs --processes (how many) and --process (which, from 0)")
        if found and numbers != (None, None):
            raise UserError("--processes and --process need --coordinator; without it jax finds all three")
        if self.processes is not None and self.process is not None and not 0 <= self.process < self.processes:
            raise UserError(f"--process {self.process} of {self.processes}: allowed are 0..{self.processes - 1}")
        if self.coordinator is not None and self.launcher != DISTRIBUTED:
            raise UserError(f"--coordinator only applies to --launcher {DISTRIBUTED}")
        if (self.ray_address is not None or self.ray_gpus) and self.launcher != RAY:
            raise UserError(f"--ray-address and --ray-gpus only apply to --launcher {RAY}")
        if self.ray_address not in (None, "auto"):
            from solarjax.scale.rendezvous import check_address

            check_address(str(self.ray_address), "Ray cluster")
        if not 0 < self.timeout < float("inf"):
            raise UserError(f"--timeout {self.timeout:g} is out of range; allowed are seconds above 0")
        if self.ray_gpus < 0:
            raise UserError(f"--ray-gpus {self.ray_gpus:g} is out of range; allowed are numbers from 0")

    def join(self) -> None:
        """Meets the other processes of a distributed run; before anything else of jax. Raises `SweepError`."""
        if self.launcher == DISTRIBUTED:
            import os

            # jax calls the survival of a lost process experimental, on stderr, in each process.
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
            from solarjax.scale import distributed

            distributed.start(self.coordinator, self.processes, self.process, self.timeout)


def make_plan(job: Job) -> SweepPlan:
    """The sweep of a job as a plan. Raises what `Job.config` raises, and SweepError."""
    from solarjax.core.tasks import plan_sweep

    cases, grid = job.cases()
    return plan_sweep(
        job.source.open(), cases, list(job.capacities), list(job.seeds),
        k=job.k, quality=job.quality, feedback=job.feedback, like_at=job.like_at, grid=grid or None,
        lambdas=job.lambdas, root_seed=job.root_seed, per_step=job.per_step, memory_bytes=job.memory_bytes,
    )  # fmt: skip


def worker_plan(job: Job, compile_cache: bool) -> SweepPlan:
    """`make_plan` in a process of a cluster, which has one core or some GPUs of its own: jax keeps its one device."""
    from solarjax.cli import runtime

    if compile_cache:
        runtime.keep_programs()
    return make_plan(job)


def execute(
    job: Job, launch: Launch, out: Path | None, progress: Progress | None = None, compile_cache: bool = True
) -> Outcome | None:
    """Runs a job, or this process's share of it; None if the results are somebody else's to deliver.

    Raises:
      StoreError: `out` cannot be written to or holds something else.
      And what `Job.config` and `core.sweep.sweep` raise; `SweepError` also if other processes or machines fail.
    """
    from solarjax.core.task_runner import TaskRunner
    from solarjax.report import stored
    from solarjax.scale import shares, sinks

    config, code = job.config(), provenance.code_fingerprint()
    held = None if out is None else stored.prepare(out, config, code)
    if held is not None:
        return Outcome(held.data, config, held, reused=True)
    start = time.perf_counter()
    plan = make_plan(job)
    index, count = launch.process or 0, launch.processes or 1
    if launch.launcher == DISTRIBUTED:
        from solarjax.scale import distributed

        index, count = distributed.who()
    sink: Sink
    if out is not None and launch.store == ZARR:
        sink = sinks.RegionSink(plan, out / stored.ZARR, count)
    else:
        sink = sinks.ChunkSink(plan, None if out is None else out / f"{stored.CHUNKS}{code}")
    runner = TaskRunner(sink.plan)
    if launch.launcher == RAY:
        from solarjax.scale.ray_launcher import run_on_ray

        recipe = functools.partial(worker_plan, job, compile_cache)
        run_on_ray(
            sink, recipe, address=launch.ray_address, gpus=launch.ray_gpus, progress=progress, note=_note
        )  # fmt: skip
    elif launch.launcher == DISTRIBUTED:
        distributed.run_together(sink, runner, index, count, launch.timeout, progress, _note)
        if index:
            distributed.leave()
            return None
        # Process 0 stays connected until it exits: jax ends a process whose coordinator goes first.
    else:
        shares.run_share(sink, runner, index, count, progress)
        if launch.launcher == ARRAY:
            return None
    data = sink.result(runner)
    if out is None:
        return Outcome(data, config)
    zarr = launch.store == ZARR
    command = job.command(out) + (f" --store {ZARR}" if zarr else "")
    record = provenance.collect(config, command, time.perf_counter() - start)
    return Outcome(data, config, stored.seal(out, data, record) if zarr else stored.save(out, data, record))


def _note(line: str) -> None:
    print(f"solarjax: {line}", file=sys.stderr, flush=True)
