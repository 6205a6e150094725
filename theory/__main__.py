"""`python -m theory list | check | replay | figures`: the ledger of verdicts from the command line."""

from __future__ import annotations

import difflib
import shlex
import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from solarjax.cli import runtime
from theory.errors import TheoryError
from theory.results import Budget

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Checks every stated bound and keeps what breaks it."
)


def _fail(message: object) -> NoReturn:
    """One line on stderr, exit code 2."""
    typer.echo(f"error: {' '.join(str(message).split())}", err=True)
    raise typer.Exit(2)


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
    resume: Annotated[bool, typer.Option("--resume", help="Keep the rows that the --json file holds already.")] = False,
) -> None:
    """Runs checks and prints their verdicts; the --json file is complete after every check."""
    from theory import report
    from theory.checks import CHECKS

    runtime.start()
    for name in ids or ():
        if name not in CHECKS:
            near = difflib.get_close_matches(name, CHECKS, 1, 0.0)
            _fail(f"no check is called {name!r}; the nearest is {near[0]!r} (see `python -m theory list`)")
    if key_sets < 1:
        _fail(f"--key-sets = {key_sets} is out of range; at least 1 is needed")
    if resume and json_file is None:
        _fail("--resume needs --json FILE, the report to go on with")
    count = (100 if full else 16) if keys is None else keys
    names = list(dict.fromkeys(ids or CHECKS))
    config = {"full": full, "keys": count, "seed": seed, "key_sets": key_sets, "checks": names, "theory": report.code()}
    command = "python -m theory " + shlex.join(sys.argv[1:])
    try:
        budgets = [Budget(full, count, seed + i, out / f"seed{seed + i}") for i in range(key_sets)]
        results = report.resumed(json_file, config) if resume and json_file is not None else []
        there = {(r.id, report.seed_of(r)) for r in results}
        broken = []
        for budget in budgets:
            for name in names:
                if (name, budget.root_key) in there:
                    continue
                try:
                    found = CHECKS[name].run(budget)
                except Exception:
                    # One check that cannot be run must not cost hours of others; the exit code tells.
                    traceback.print_exc()
                    broken.append(f"{name} (seed {budget.root_key})")
                    continue
                results.append(found)
                typer.echo(f"{name}: {found.verdict} in {found.seconds:.1f} s (seed {budget.root_key})", err=True)
                if json_file is not None:
                    report.save(json_file, config, command, results)
    except (TheoryError, OSError) as error:
        _fail(error)
    typer.echo(report.table(results))
    if broken:
        typer.echo(f"error: {len(broken)} check(s) could not be run: {', '.join(broken)}", err=True)
        raise typer.Exit(1)


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


@app.command("table")
def markdown_table(report: Annotated[Path, typer.Argument(help="What `check --json` wrote.")]) -> None:
    """Prints a report as a Markdown table."""
    from theory.report import load, markdown

    try:
        typer.echo(markdown(load(report)["results"]))
    except TheoryError as error:
        _fail(error)


@app.command("merge")
def merge_reports(
    reports: Annotated[list[Path], typer.Argument(help="Files of `check --json`; later rows replace earlier ones.")],
    json_file: Annotated[Path, typer.Option("--json", help="Where the one report goes.")],
) -> None:
    """Makes one report of several, with the provenance of each."""
    from theory.report import merge

    try:
        merge(reports, json_file)
    except (TheoryError, OSError) as error:
        _fail(error)


if __name__ == "__main__":
    app(prog_name="python -m theory")
