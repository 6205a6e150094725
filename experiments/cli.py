"""The command line: list, run, ledger, render. User errors: one line and exit code 2."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from experiments.types import Context, ExperimentError
from solarjax.cli.errors import UserError, run_guarded

OUT, OUT_QUICK = Path("reports/paper"), Path("reports/paper-quick")

app = typer.Typer(
    name="python -m experiments", no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Every table and figure of the paper, ours beside theirs, and the claims ledger.",
)  # fmt: skip

Out = Annotated[Path, typer.Option("--out", help="Folder of the report and of what is computed.")]
Ids = Annotated[
    list[str] | None, typer.Argument(help="Experiments, see `list`; all if none is named.", metavar="[IDS]...")
]


def main(
    ids: Sequence[str] = (),
    *,
    quick: bool = False,
    out: Path = OUT,
    data: Path | None = None,
    seeds: int | None = None,
    rows: Sequence[Path] = (),
    page: bool = True,
    workers: int = 1,
) -> list[str]:
    """Runs experiments, computes the ledger and renders the report: for scripts.

    Args:
      ids: experiments; all if empty (a quick run: those that are cheap enough, `Artefact.quick`).
      quick: fewer seeds and settings, marked on the page.     out, data: see the command line.
      seeds: overrides the number of seeds.                    rows: files of check results to take over.
      page: also render.                                       workers: processes that compute side by side.

    Returns:
      The ids of the experiments that could not run here.

    Raises:
      ExperimentError, StoreError: see `runner.run`, `render.page.render`.
    """
    from experiments import external, ledger, registry, runner
    from experiments import workers as side_by_side
    from experiments.render import page as report
    from solarjax.cli import runtime

    if data is not None and not data.is_dir():
        raise ExperimentError(f"--data {data} is not a folder")
    chosen = registry.choose(list(ids))
    if quick and not ids:
        chosen = [artefact for artefact in chosen if artefact.quick]
    context = Context(quick, data, seeds)
    runner.keep_full(chosen, context, out)
    if workers > 1:
        side_by_side.compute(side_by_side.batches(chosen, context, out), context, out, workers)
        runtime.keep_programs()  # what is left to this process
    missing = runner.run(chosen, context, out)
    for path in rows:
        external.take(path, out)
    ledger.write(out)
    if page:
        report.render(out)
    return missing


@app.command("list")
def list_command(out: Out = OUT) -> None:
    """What there is, what it reproduces, and what is stored.

    \b
    Example:
      python -m experiments list
    """
    from experiments import registry, store

    for name in registry.IDS:
        artefact = registry.get(name)
        held = store.load_artefact(out, name)
        if held is None:
            state = "not stored"
        elif held.done:
            state = f"{len(held.rows)} rows{', quick' if held.record['quick'] else ''}, {held.record['created'][:10]}"
        else:
            state = "could not run here"
        typer.echo(f"{name:<16} {artefact.source:<34} {artefact.title} [{state}]")


@app.command()
def run(
    ids: Ids = None,
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="Fewer seeds and settings, or those of the paper.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help=f"Folder of the report (default: {OUT}; of a quick or trial run {OUT_QUICK})."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder (default: SOLARJAX_DATA or shared/data).")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Another number of seeds, for a trial.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes at a time (default: one per core).")] = None,
    entry: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
) -> None:
    """Computes and stores what is missing or out of date; the ledger follows.

    \b
    Example:
      python -m experiments run cycling noise_probe --quick
    """
    from solarjax.cli import runtime

    out = out or (OUT_QUICK if quick or seeds else OUT)
    if entry:  # one process of several: these entries of one experiment, on one device
        from experiments import registry, runner

        runtime.start(1)
        runner.compute(registry.get((ids or [""])[0]), entry, Context(quick, data, seeds), out)
        return
    count = workers or runtime.cores()
    if count == 1:
        runtime.start()
    for name in main(ids or (), quick=quick, out=out, data=data, seeds=seeds, page=False, workers=count):
        typer.echo(f"{name} could not run here; the report says why", err=True)
    typer.echo(f"stored in {out}; for the report: python -m experiments render --out {out}")


@app.command()
def ledger(
    out: Out = OUT,
    rows: Annotated[list[Path] | None, typer.Option("--rows", help="Check results to take over (repeatable).")] = None,
) -> None:
    """Computes the verdicts from what is stored, writes claims.json and prints them.

    \b
    Example:
      python -m experiments ledger --rows theory.json
    """
    from experiments import external
    from experiments import ledger as book

    for path in rows or ():
        external.take(path, out)
    for row in book.write(out):
        figure = "" if row["figure"] is None else f"  {row['figure_name']} = {row['figure']:.4g}"
        typer.echo(f"{row['id']}  {row['label']:<12}{figure}")


@app.command()
def render(out: Out = OUT) -> None:
    """Writes the report from what is stored: HTML, Markdown, LaTeX, CSV and Parquet. Computes nothing.

    \b
    Example:
      python -m experiments render --out reports/paper
    """
    from experiments.render import page

    typer.echo(f"{page.render(out)[0]}")


def guarded(words: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code, see `solarjax.cli.errors.run_guarded`."""

    def body() -> object:
        try:
            return app(None if words is None else list(words), standalone_mode=False)
        except ExperimentError as problem:
            raise UserError(str(problem)) from None

    return run_guarded(body)
