"""`python -m theory list | check | replay | figures`: the ledger of verdicts from the command line."""

from __future__ import annotations

import difflib
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from solarjax import provenance
from solarjax.cli import runtime
from theory.errors import TheoryError
from theory.results import Budget, CheckResult, write_json

FORMAT, VERSION = "solarjax theory report", 1

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Checks every stated bound and keeps what breaks it."
)


def _fail(message: object) -> NoReturn:
    """One line on stderr, exit code 2."""
    typer.echo(f"error: {' '.join(str(message).split())}", err=True)
    raise typer.Exit(2)


def _table(results: list[CheckResult]) -> str:
    lines = [f"{'check':<22} {'verdict':<12} {'figure':>12} {'interval':<24} {'seconds':>8}  figure is"]
    for r in results:
        interval = "" if r.interval is None else f"[{r.interval[0]:.5g}, {r.interval[1]:.5g}]"
        lines.append(f"{r.id:<22} {r.verdict:<12} {r.figure:>12.6g} {interval:<24} {r.seconds:>8.1f}  {r.figure_name}")
    return "\n".join(lines)


@app.command("list")
def list_checks() -> None:
    """Names every check with its source and claim."""
    from theory.checks import CHECKS

    for check in CHECKS.values():
        typer.echo(f"{check.id:<22} {check.source:<16} {check.claim}")


@app.command("check")
def run_checks(
    ids: Annotated[list[str] | None, typer.Argument(help="Checks to run; all without one.")] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Sizes of a report, or of a look.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the results go.")] = None,
    keys: Annotated[int | None, typer.Option(help="Independent repetitions, >= 2; 16 quick, 100 full.")] = None,
    seed: Annotated[int, typer.Option(help="Root of every random number, 0..2^32-1.")] = 0,
    key_sets: Annotated[int, typer.Option(help="Repeat with this many roots (seed, seed + 1, ...).")] = 1,
    out: Annotated[Path, typer.Option(help="Folder of counterexamples.")] = Path("theory-out"),
) -> None:
    """Runs checks and prints their verdicts."""
    from theory.checks import CHECKS

    runtime.start()
    for name in ids or ():
        if name not in CHECKS:
            near = difflib.get_close_matches(name, CHECKS, 1, 0.0)
            _fail(f"no check is called {name!r}; the nearest is {near[0]!r} (see `python -m theory list`)")
    if key_sets < 1:
        _fail(f"--key-sets = {key_sets} is out of range; at least 1 is needed")
    start, results = time.perf_counter(), []
    count = (100 if full else 16) if keys is None else keys
    try:
        budgets = [Budget(full, count, seed + i, out / f"seed{seed + i}") for i in range(key_sets)]
        for budget in budgets:
            for name in dict.fromkeys(ids or CHECKS):
                found = CHECKS[name].run(budget)
                results.append(found)
                typer.echo(f"{name}: {found.verdict} in {found.seconds:.1f} s (seed {budget.root_key})", err=True)
        if json_file is not None:
            config = {"full": full, "keys": count, "seed": seed, "key_sets": key_sets}
            source = provenance.collect(
                config, shlex.join(["python -m theory", *sys.argv[1:]]), time.perf_counter() - start
            )
            rows = [r.to_json() for r in results]
            write_json(json_file, {"format": FORMAT, "version": VERSION, "provenance": source, "results": rows})
    except (TheoryError, OSError) as error:
        _fail(error)
    typer.echo(_table(results))


@app.command("replay")
def replay_file(counterexample: Annotated[Path, typer.Argument(help="A file that a check wrote.")]) -> None:
    """Prints the step-by-step costs of the policy and of exact OPT; exit code 1 if a stored figure is missed."""
    from theory.replay import replay

    try:
        found = replay(counterexample, typer.echo)
    except (TheoryError, OSError) as error:
        _fail(error)
    if not found.matches:
        raise typer.Exit(1)


@app.command("figures")
def draw_figures(
    report: Annotated[Path, typer.Argument(help="What `check --json` wrote.")],
    out: Annotated[Path, typer.Option(help="Folder of the pictures.")] = Path("theory-figures"),
) -> None:
    """Draws the figures of stored results as SVG; nothing is computed again."""
    from theory.figures import figures

    try:
        for path in figures(report, out):
            typer.echo(str(path))
    except (TheoryError, OSError) as error:
        _fail(error)


if __name__ == "__main__":
    app(prog_name="python -m theory")
