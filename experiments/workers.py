"""Entries computed side by side, one process per core: compiling is most of the work and uses one core.

A batch is what one process computes: entries that share compiled programs or embeddings stay together. The rows of the
artefacts are made afterwards by the parent, which then finds every entry stored.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments import runner, store
from experiments.types import Artefact, Context, ExperimentError, Missing
from solarjax.cli.processes import BatchFailed, side_by_side

ROOT = Path(__file__).resolve().parents[1]
Batch = tuple[str, tuple[str, ...]]
"""(artefact, entry names)."""


def batches(artefacts: Sequence[Artefact], context: Context, out: Path) -> list[Batch]:
    """What is not stored yet, each entry once, recorded data first (it takes longest).

    Left to the parent: artefacts that measure time, and those whose stored rows are current.
    """
    seen: set[str] = set()
    found: dict[tuple[bool, str, str], list[str]] = {}
    for artefact in artefacts:
        try:
            plan = dict(artefact.plan(context))
        except Missing:
            continue
        if artefact.alone or runner.is_current(artefact, plan, context, out):
            continue
        together = runner.program_groups(plan)
        for name, entry in plan.items():
            key = store.address(artefact.id, entry).key
            if key in seen or (out / store.RUNS / key / store.PROVENANCE).exists():
                continue
            seen.add(key)
            generated = name in together
            batch = (generated, artefact.id, together.get(name, ""))
            found.setdefault(batch, []).append(name)
    return [(artefact, tuple(names)) for (_, artefact, _), names in sorted(found.items(), key=lambda item: item[0][0])]


def compute(waiting: Sequence[Batch], context: Context, out: Path, workers: int) -> None:
    """Runs the batches, `workers` at a time.

    Raises:
      ExperimentError: one failed (its own output says why); the others are stopped.
    """
    try:
        side_by_side(waiting, lambda batch: subprocess.Popen(_words(batch, context, out), cwd=ROOT), workers)
    except BatchFailed as failure:
        raise ExperimentError(f"{failure.batch[0]} failed (exit code {failure.code}), see above") from failure


def _words(batch: Batch, context: Context, out: Path) -> list[str]:
    artefact, names = batch
    words = [sys.executable, "-m", "experiments", "run", artefact, "--out", str(out.resolve())]
    words += ["--quick" if context.quick else "--full", "--workers", "1"]
    for option, value in (("--data", context.data), ("--seeds", context.seeds)):
        words += [] if value is None else [option, str(value.resolve() if isinstance(value, Path) else value)]
    for name in names:
        words += ["--entry", name]
    return words
