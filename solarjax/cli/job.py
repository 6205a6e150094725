"""One run as a value: what to sweep, how to name it, and the command line that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solarjax import provenance
from solarjax.cli.sources import SourceSpec

if TYPE_CHECKING:
    import xarray as xr

    from solarjax.core.source import Source
    from solarjax.policies.registry import PolicyCase
    from solarjax.report.stored import StoredRun

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Job:
    """A sweep as the command line describes it.

    source: the traces.                 policies, params: as `parse_cases` reads them.
    capacities: items.                  seeds: seed numbers.
    k: retrieved items.                 quality: what decides the miss cost, a field of `core.types.Scores`.
    feedback: what policies learn.      like_at: quality from which a retrieval is liked.
    lambdas: prices of a cache change.  root_seed: of all random streams.
    per_step: keep hits per step.       memory_bytes: budget, None for the engine's default.
    """

    source: SourceSpec
    policies: str = "all"
    params: tuple[str, ...] = ()
    capacities: tuple[int, ...] = (10, 20, 50)
    seeds: tuple[int, ...] = tuple(range(100))
    lambdas: tuple[float, ...] = (1.0,)
    k: int = 3
    quality: str = "hit"
    feedback: str = "retrieved"
    like_at: float = 0.5
    root_seed: int = 0
    per_step: bool = False
    memory_bytes: int | None = None

    def cases(self) -> tuple[list[PolicyCase], dict[str, list[float]]]:
        """The policies and the grid. Raises `PolicyError`."""
        from solarjax.policies.registry import parse_cases

        return parse_cases(self.policies, list(self.params))

    def config(self) -> dict[str, Any]:
        """What decides the numbers, JSON-able; two jobs with equal configs give equal results.

        Raises:
          PolicyError, WorkloadError, TraceError: whatever is wrong with the job, before anything is computed.
        """
        cases, grid = self.cases()
        return {
            "source": self.source.config(),
            "policies": [_describe(case) for case in cases],
            "grid": {name: list(values) for name, values in grid.items()},
            "capacities": list(self.capacities),
            "seeds": list(self.seeds),
            "lambdas": list(self.lambdas),
            "k": self.k,
            "quality": self.quality,
            "feedback": self.feedback,
            "like_at": self.like_at,
            "root_seed": self.root_seed,
            "per_step": self.per_step,
        }

    def command(self, out: Path | None = None) -> str:
        """The command that repeats this run; options at their default are left out."""
        words = ["solarjax", "run", *self.source.arguments(), "--policies", self.policies]
        for pair in self.params:
            words += ["--param", pair]
        words += ["--capacities", ",".join(map(str, self.capacities)), "--seeds", _seed_text(self.seeds)]
        default = Job(self.source)
        for option, value, usual in (
            ("--lambda", self.lambdas, default.lambdas),
            ("--k", self.k, default.k),
            ("--quality", self.quality, default.quality),
            ("--feedback", self.feedback, default.feedback),
            ("--like-at", self.like_at, default.like_at),
            ("--root-seed", self.root_seed, default.root_seed),
            ("--memory", self.memory_bytes, default.memory_bytes),
        ):
            if value != usual:
                text = ",".join(f"{v:g}" for v in value) if isinstance(value, tuple) else str(value)
                words += [option, text]
        if self.per_step:
            words.append("--per-step")
        if out is not None:
            words += ["--out", str(out)]
        return shlex.join(words)

    def sweep(self, out_dir: Path | None, progress: Progress | None = None, source: Source | None = None) -> xr.Dataset:
        """Runs it.

        Args:
          out_dir: folder for finished parts, so that a stopped run continues; None keeps nothing.
          progress: called with (done, total, label).
          source: the opened source, if it is open already.

        Raises:
          What `config` raises, and SweepError.
        """
        from solarjax.core.sweep import sweep

        cases, grid = self.cases()
        return sweep(
            self.source.open() if source is None else source,
            cases,
            list(self.capacities),
            list(self.seeds),
            k=self.k,
            quality=self.quality,
            feedback=self.feedback,
            like_at=self.like_at,
            grid=grid or None,
            lambdas=self.lambdas,
            root_seed=self.root_seed,
            per_step=self.per_step,
            memory_bytes=self.memory_bytes,
            out_dir=out_dir,
            progress=progress,
        )


@dataclass(frozen=True)
class Outcome:
    """A finished job: the dataset, its configuration, and the folder's record if it was stored.

    reused: True if the folder held this very run already and nothing was computed.
    """

    data: xr.Dataset
    config: Mapping[str, Any]
    stored: StoredRun | None = None
    reused: bool = False


def execute(
    job: Job, out: Path | None = None, progress: Progress | None = None, source: Source | None = None
) -> Outcome:
    """Runs a job, or reads it back if `out` holds it complete.

    What is wrong with the job is found before anything is computed; a run that is stopped continues where it
    was when it is started again with the same `out`.

    Raises:
      StoreError: `out` cannot be written to or holds something else.
      And what `Job.config` and `Job.sweep` raise.
    """
    import time

    from solarjax.report import stored

    config = job.config()
    if out is None:
        return Outcome(job.sweep(None, progress, source), config)
    code = provenance.code_fingerprint()
    held = stored.prepare(out, config, code)
    if held is not None:
        return Outcome(held.data, config, held, reused=True)
    start = time.perf_counter()
    # Parts made by other code are of no use, so the code is part of the folder's name.
    data = job.sweep(out / f"{stored.CHUNKS}{code}", progress, source)
    record = provenance.collect(config, job.command(out), time.perf_counter() - start)
    return Outcome(data, config, stored.save(out, data, record))


def _describe(case: PolicyCase) -> dict[str, Any]:
    spec = case.spec
    return {
        "label": case.label,
        "name": case.name,
        "params": {**dict(case.static), **dict(case.traced)},
        "online": spec.online,
        "stochastic": spec.stochastic,
        "summary": spec.summary,
        "paper": spec.paper,
    }


def _seed_text(seeds: tuple[int, ...]) -> str:
    if seeds == tuple(range(len(seeds))):
        return str(len(seeds))
    return ",".join(map(str, seeds)) + ("," if len(seeds) == 1 else "")
