"""Runs the tables of the report and renders it: called by scripts/reproduce, which sets up the environment.

The plan is a list of batches. A batch is one process that makes its runs one after the other, so that they share
what is compiled and encoded; batches run side by side, one per core, because compiling is what takes the time and
uses one core. Runs that are complete are left alone, stopped ones continue, and those made by other code are made
again.

Beside the report stands the page of claims (reports/paper-quick or reports/paper-full). A quick one is made of the runs
above, so it costs no further computing; a full one runs every experiment (`python -m experiments run`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from solarjax import provenance
from solarjax.cli import runtime
from solarjax.cli.errors import UserError, run_guarded
from solarjax.cli.job import Job, execute
from solarjax.cli.parsing import pairs
from solarjax.cli.processes import BatchFailed, side_by_side
from solarjax.cli.sources import SourceSpec
from solarjax.report import render, stored

ROOT = Path(__file__).resolve().parents[1]
POLICIES = "all,oracle_cover"
# On real streams the gate listens to the answer, as the release does there.
ON_DIALOGUES = "unlimited,fifo,lru,lfu,arc,solar_e,solar_a(signal=miss),solar(signal=miss),oracle_cover"
CONTROLS = "all,random,bernoulli,keep_first,reservoir,oracle,oracle_cover"
TOPICS = (10, 15, 20, 30, 50)
CHECKED = ("reports/theory/full.json", "reports/replay/ledger.json", "reports/placemem/claims.json")
"""Stored results of the other parts of the project, which enter the ledger as they are."""


@dataclass(frozen=True)
class Run:
    """One run of the plan and the name of its folder."""

    name: str
    job: Job


Batch = list[Run]


def synthetic(quick: bool) -> list[Batch]:
    """The paper's workloads: 200 seeds, or 1,000, more capacities and the controls."""
    seeds = tuple(range(200 if quick else 1000))
    policies = POLICIES if quick else CONTROLS

    def run(name: str, workload: str, *settings: str, capacities: tuple[int, ...]) -> Run:
        source = SourceSpec("workload", workload, settings=settings)
        return Run(name, Job(source, policies, capacities=capacities, seeds=seeds))

    some = (10, 20) if quick else (5, 10, 15, 20, 30, 50, 75, 100, 150, 200)
    cycling = [run(f"cycling-m{m}", "cycling", f"n_topics={m}", capacities=(10,)) for m in TOPICS]
    working_set = [run("working_set", "working_set", capacities=some)]
    drift = [run("topic_drift", "topic_drift", capacities=(10, 20) if quick else (10, 20, 40))]
    if quick:
        # One process: padded to one size, with capacities within a factor of two, all seven share a program per policy.
        return [[*working_set, *drift, *cycling]]
    working_set.append(run("working_set-zipf", "working_set", "popularity=zipf", capacities=some))
    return [cycling, working_set, drift]


def dialogues(quick: bool, kind: str, files: tuple[Path, ...]) -> Batch:
    """Real conversations under the protocols without a language model: 5 seeds of the schedule, or 100."""
    variants = [("P2", ("mean=100",)), ("P1", ())]
    if not quick:
        variants += [("P2", ("mean=30",)), ("P2", ("mean=300",))]
    base = Job(
        SourceSpec(kind, files=files),
        ON_DIALOGUES if quick else f"{ON_DIALOGUES},solar_paper,solar_e_paper,random,bernoulli",
        # Within a factor of two: one program per policy.
        capacities=(30, 50) if quick else (10, 20, 50, 100),
        seeds=tuple(range(5 if quick else 100)),
    )
    return [
        Run("-".join([kind, protocol, *settings]),
            replace(base, source=replace(base.source, protocol=protocol, settings=settings)))
        for protocol, settings in variants
    ]  # fmt: skip


def find_data(name: str, given: list[Path]) -> tuple[tuple[Path, ...], str]:
    """The files of a data set, or none and the reason."""
    if given:
        return tuple(path.resolve() for path in given), ""
    from solarjax.core.trace import TraceError
    from solarjax.traces.datasets import find

    try:
        return tuple(Path(os.path.relpath(path, ROOT)) for path in find(name)), ""
    except TraceError as problem:
        return (), str(problem)


def encoder_problem() -> str:
    """Why texts cannot be encoded here, or ''."""
    from solarjax.encoders.weights import EncoderError, locate

    try:
        locate()
    except EncoderError as problem:
        return str(problem)
    return ""


def plan(arguments: argparse.Namespace) -> tuple[list[Batch], list[str]]:
    """The batches, longest first, and remarks about what cannot run here."""
    quick = arguments.quick
    batches, remarks = synthetic(quick), []
    wanted = [("locomo", arguments.locomo)] + ([] if quick else [("friendsqa", arguments.friendsqa)])
    blocked = encoder_problem()
    for kind, given in wanted:
        files, reason = find_data(kind, given)
        if blocked or reason:
            remarks.append(f"{kind} did not run: {blocked or reason}")
        else:
            batches.insert(0, dialogues(quick, kind, files))
    if arguments.seeds:
        fewer = tuple(range(arguments.seeds))
        batches = [[replace(run, job=replace(run.job, seeds=fewer)) for run in batch] for batch in batches]
    return batches, remarks


def is_finished(run: Run, folder: Path) -> bool:
    """True if the run is stored, complete and current; a run of other code or settings is removed."""
    if not (folder / stored.PROVENANCE).exists():
        return False
    try:
        return stored.prepare(folder, run.job.config(), provenance.code_fingerprint()) is not None
    except stored.StoreError as problem:
        print(f"  {run.name} will be made again: {problem}", flush=True)
        shutil.rmtree(folder)
        return False


def work(batch: Batch, out: Path) -> None:
    """Makes the runs of a batch in this process. Raises what `execute` raises."""
    from solarjax.workloads.padded import PaddedSource, common_size
    from solarjax.workloads.registry import make

    sources: list[PaddedSource | None] = [None] * len(batch)
    if len(batch) > 1 and batch[0].job.source.kind == "workload":
        # Several sizes of a workload share one compiled program when they are padded to the largest.
        made = [make(run.job.source.name, **pairs("--set", run.job.source.settings)) for run in batch]
        sources = [PaddedSource(workload, common_size(made)) for workload in made]
    for run, source in zip(batch, sources, strict=True):
        start = time.monotonic()
        print(f"  {run.name} ...", flush=True)
        execute(run.job, out / run.name, source=source)
        print(f"  {run.name} done in {time.monotonic() - start:.0f} s", flush=True)


def work_all(batches: Sequence[Batch], words: Sequence[str], workers: int) -> None:
    """Makes the batches in processes of their own, `workers` at a time.

    Args:
      batches: what is not finished.
      words: arguments that make a process build the same plan.
      workers: how many at a time; with several, each keeps to one device.

    Raises:
      SystemExit: one failed; the others are stopped.
    """
    devices = "1" if workers > 1 else "0"
    names = [",".join(run.name for run in batch) for batch in batches]
    try:
        side_by_side(names, lambda only: launch([*words, "--only", only, "--devices", devices]), workers)
    except BatchFailed as failure:
        raise SystemExit(f"reproduce: {failure}, see above") from failure


def launch(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts this script again with other arguments."""
    return subprocess.Popen([sys.executable, "-m", "scripts.reproduce", *words], cwd=ROOT)


def claims(arguments: argparse.Namespace, words: Sequence[str]) -> Path | None:
    """Makes the page of claims; returns it, or None if no run of this report says anything about them.

    Raises:
      UserError: something stored is damaged.   StoreError: the folder cannot be written to.
    """
    from experiments import adopted, external, ledger
    from experiments.cli import main as experiments
    from experiments.render import page
    from experiments.types import ExperimentError

    out = arguments.out.parent / f"paper-{arguments.out.name}"
    checked = [ROOT / name for name in CHECKED if (ROOT / name).is_file()]
    try:
        if not arguments.quick:
            experiments(out=out, seeds=arguments.seeds, rows=checked, workers=arguments.workers)
            return out / page.HTML
        if not adopted.take(arguments.out, out, " ".join(["scripts/reproduce", *words])):
            return None
        for path in checked:
            external.take(path, out)
        ledger.write(out)
        return page.render(out)[0]
    except ExperimentError as problem:
        raise UserError(str(problem)) from None


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments; errors end the process with code 2."""
    parser = argparse.ArgumentParser(prog="scripts/reproduce", description="Reproduce the tables of the report.")
    parser.add_argument("--quick", action="store_true", help="200 seeds and fewer settings: minutes, not hours")
    parser.add_argument("--locomo", type=Path, action="append", default=[], help="locomo10.json, if it is elsewhere")
    parser.add_argument("--friendsqa", type=Path, action="append", default=[], help="a FriendsQA file (repeatable)")
    parser.add_argument("--seeds", type=int, help="another number of seeds, for a trial")
    parser.add_argument("--workers", type=int, default=runtime.cores(), help="processes at a time (default: cores)")
    parser.add_argument("--out", type=Path, help="folder of the report (default: reports/quick or reports/full)")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--devices", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.workers < 1 or (arguments.seeds is not None and arguments.seeds < 1):
        parser.error("--workers and --seeds are whole numbers from 1")
    if arguments.out is None:
        arguments.out = Path("reports") / ("quick" if arguments.quick else "full")
    return arguments


def main(words: Sequence[str] | None = None) -> None:
    """Makes what is missing and renders the report."""
    words = sys.argv[1:] if words is None else words
    arguments = parse(words)
    out = arguments.out
    # A stopped driver takes its processes with it: the exception passes through `work_all`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    batches, remarks = plan(arguments)
    if arguments.only is not None:
        runtime.start(arguments.devices or None)
        names = arguments.only.split(",")
        work([run for batch in batches for run in batch if run.name in names], out)
        return
    for remark in remarks:
        print(f"note: {remark}")
    missing = [[run for run in batch if not is_finished(run, out / run.name)] for batch in batches]
    missing = [batch for batch in missing if batch]
    count, left = sum(map(len, batches)), sum(map(len, missing))
    print(f"{count - left} of {count} runs are there already.", flush=True)
    work_all(missing, words, arguments.workers)
    title = "What should an agent remember? " + ("A quick reproduction" if arguments.quick else "Full reproduction")
    page = render.report(out, title, remarks)[0]
    print(f"{page} is ready after {time.monotonic() - start:.0f} s.", flush=True)
    ledger = claims(arguments, words)
    if ledger is not None:
        print(f"{ledger}, the papers' claims, is ready after {time.monotonic() - start:.0f} s.")


if __name__ == "__main__":
    sys.exit(run_guarded(main))
