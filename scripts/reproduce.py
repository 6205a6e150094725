"""Runs the tables of the report and renders it: called by scripts/reproduce, which sets up the environment.

Every run is one `solarjax run` in a process of its own, as many at a time as there are cores, because compiling is
what takes the time. Runs that are complete are left alone, stopped ones continue, runs made by other code are
made again.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from solarjax import provenance
from solarjax.cli.errors import run_guarded
from solarjax.cli.job import Job
from solarjax.cli.sources import SourceSpec
from solarjax.report import render, stored

ROOT = Path(__file__).resolve().parents[1]
POLICIES = "all,oracle"
CONTROLS = "all,random,bernoulli,keep_first,reservoir,oracle"


@dataclass(frozen=True)
class Step:
    """One run of the plan. `after`: another step's name that must be done first (it fills the embedding cache)."""

    name: str
    job: Job
    after: str | None = None


def workload(name: str, *settings: str) -> SourceSpec:
    """A generated workload."""
    return SourceSpec("workload", name, settings=settings)


def synthetic(quick: bool) -> list[Step]:
    """The paper's workloads: 200 seeds, or 1,000 and more capacities."""
    seeds = tuple(range(200 if quick else 1000))
    policies = POLICIES if quick else CONTROLS
    many = (10, 15, 20, 30, 50) if quick else (5, 10, 15, 20, 30, 50, 75, 100, 150, 200)
    base = Job(SourceSpec("workload", "cycling"), policies, seeds=seeds)
    steps = [
        Step(f"cycling-m{m}", replace(base, source=workload("cycling", f"n_topics={m}"), capacities=(10,)))
        for m in (50, 30, 20, 15, 10)
    ]
    steps.insert(0, Step("working_set", replace(base, source=workload("working_set"), capacities=many)))
    steps.append(
        Step(
            "topic_drift",
            replace(base, source=workload("topic_drift"), capacities=(20,) if quick else (10, 20, 40)),
        )
    )
    if not quick:
        zipf = workload("working_set", "popularity=zipf")
        steps.insert(1, Step("working_set-zipf", replace(base, source=zipf, capacities=many)))
    return steps


def dialogues(quick: bool, kind: str, files: tuple[Path, ...]) -> list[Step]:
    """Real conversations under the protocols without a language model."""
    seeds = tuple(range(10 if quick else 100))
    variants = [("P2", ("mean=100",)), ("P1", ())]
    if not quick:
        variants += [("P2", ("mean=30",)), ("P2", ("mean=300",))]
    steps: list[Step] = []
    for protocol, settings in variants:
        source = SourceSpec(kind, settings=settings, files=files, protocol=protocol)
        job = Job(source, POLICIES if quick else f"{POLICIES},random,bernoulli", seeds=seeds,
                  capacities=(10, 50) if quick else (10, 20, 50, 100))  # fmt: skip
        name = "-".join([kind, protocol, *settings])
        steps.append(Step(name, job, after=steps[0].name if steps else None))
    return steps


def find_data(name: str, given: list[Path]) -> tuple[tuple[Path, ...], str]:
    """The files of a data set, or none and the reason."""
    if given:
        return tuple(given), ""
    from solarjax.core.trace import TraceError
    from solarjax.traces.datasets import find

    try:
        return find(name), ""
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


def plan(arguments: argparse.Namespace) -> tuple[list[Step], list[str]]:
    """The runs, and remarks about what cannot run here."""
    quick = arguments.quick
    steps, remarks = synthetic(quick), []
    wanted = [("locomo", arguments.locomo)] + ([] if quick else [("friendsqa", arguments.friendsqa)])
    blocked = encoder_problem()
    for kind, given in wanted:
        files, reason = find_data(kind, given)
        if blocked or reason:
            remarks.append(f"{kind} did not run: {blocked or reason}")
        else:
            steps = dialogues(quick, kind, files)[:1] + steps + dialogues(quick, kind, files)[1:]
    if arguments.seeds:
        steps = [replace(step, job=replace(step.job, seeds=tuple(range(arguments.seeds)))) for step in steps]
    return steps, remarks


def finished(step: Step, folder: Path) -> bool:
    """True if the run is stored, complete and current; a run of other code or settings is removed."""
    if not (folder / stored.PROVENANCE).exists():
        return False
    try:
        return stored.prepare(folder, step.job.config(), provenance.code_fingerprint()) is not None
    except stored.StoreError as problem:
        print(f"  {step.name}: made again ({problem})")
        shutil.rmtree(folder)
        return False


def run_all(steps: list[Step], out: Path, workers: int) -> None:
    """Runs what is not finished, `workers` at a time.

    Raises:
      SystemExit: a run failed; the others are stopped.
    """
    done = {step.name for step in steps if finished(step, out / step.name)}
    waiting = [step for step in steps if step.name not in done]
    print(f"{len(done)} of {len(steps)} runs are there already; {workers} at a time.")
    running: dict[str, tuple[subprocess.Popen[str], float]] = {}
    try:
        while waiting or running:
            for step in [s for s in waiting if s.after is None or s.after in done]:
                if len(running) < workers:
                    print(f"  {step.name} started", flush=True)
                    waiting.remove(step)
                    running[step.name] = (launch(step, out / step.name, workers), time.monotonic())
            time.sleep(0.1)
            for name, (process, start) in list(running.items()):
                if process.poll() is None:
                    continue
                del running[name]
                if process.returncode:
                    raise SystemExit(f"reproduce: the run {name} failed (exit code {process.returncode}), see above")
                done.add(name)
                print(f"  [{len(done)}/{len(steps)}] {name} done in {time.monotonic() - start:.0f} s", flush=True)
    finally:
        for process, _ in running.values():
            process.terminate()


def launch(step: Step, folder: Path, workers: int) -> subprocess.Popen[str]:
    """Starts one run; with several at a time each keeps to one core."""
    words = shlex.split(step.job.command(folder))
    devices = ["--devices", "1"] if workers > 1 else []
    command = [sys.executable, "-m", "solarjax.cli.main", *words[1:], *devices, "--quiet"]
    return subprocess.Popen(command, cwd=ROOT, text=True)


def main() -> None:
    """Parses the arguments, runs, renders."""
    parser = argparse.ArgumentParser(prog="scripts/reproduce", description="Reproduce the tables of the report.")
    parser.add_argument("--quick", action="store_true", help="200 seeds and fewer settings: minutes, not hours")
    parser.add_argument("--locomo", type=Path, action="append", default=[], help="locomo10.json, if it is elsewhere")
    parser.add_argument("--friendsqa", type=Path, action="append", default=[], help="a FriendsQA file (repeatable)")
    parser.add_argument("--seeds", type=int, help="another number of seeds, for a trial")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="runs at a time")
    parser.add_argument("--out", type=Path, help="folder of the report (default: reports/quick or reports/full)")
    arguments = parser.parse_args()
    if arguments.workers < 1 or (arguments.seeds is not None and arguments.seeds < 1):
        parser.error("--workers and --seeds are whole numbers from 1")
    out = arguments.out or Path("reports") / ("quick" if arguments.quick else "full")
    start = time.monotonic()
    steps, remarks = plan(arguments)
    for remark in remarks:
        print(f"note: {remark}")
    run_all(steps, out, arguments.workers)
    title = "What should an agent remember? " + ("A quick reproduction" if arguments.quick else "Full reproduction")
    page = render.report(out, title, remarks)[0]
    print(f"{page} is ready after {time.monotonic() - start:.0f} s.")


if __name__ == "__main__":
    sys.exit(run_guarded(main))
