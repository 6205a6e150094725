"""The command line: list, run, routing, render. User errors: one line and exit code 2."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from experiments.types import ExperimentError
from solarjax.cli.errors import UserError, run_guarded

OUT, WORK = Path("reports/placemem"), Path("runs/placemem")

app = typer.Typer(
    name="python -m experiments.placemem", no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="The memory plane's benchmark: baselines, correction-follow probe, routing, rows P01 to P07 of the ledger.",
)  # fmt: skip

Out = Annotated[Path, typer.Option("--out", help="Folder of the report.")]
Work = Annotated[Path, typer.Option("--work", help="Folder of what has been answered; a stopped run continues there.")]
Quick = Annotated[bool, typer.Option("--quick/--full", help="Small sizes, or those of the report.")]


@app.command("list")
def list_command(out: Out = OUT) -> None:
    """The parts: what each runs, what it needs, what is stored.

    \b
    Example:
      python -m experiments.placemem list
    """
    from experiments.placemem import report
    from experiments.placemem.errors import BenchError
    from experiments.placemem.parts import PARTS

    try:
        stored = report.load(out)
    except BenchError:
        stored = {}
    for part in PARTS.values():
        held = stored.get(part.id)
        state = "not stored" if held is None else f"{len(held['rows'])} figures, {held['provenance']['created'][:10]}"
        if held is not None and not held["complete"]:
            state += ", stopped by its time limit"
        needs = {"standin": "scripted engines", "vllm": "vLLM", "none": "no engine"}[part.backend]
        typer.echo(f"{part.id:<16} {needs:<17} {','.join(part.claims):<12} {part.what} [{state}]")


@app.command()
def run(
    parts: Annotated[
        list[str] | None, typer.Argument(help="Parts, see `list`; all if none.", metavar="[PARTS]...")
    ] = None,
    quick: Quick = False,
    turns: Annotated[int | None, typer.Option(min=3, help="Turns of a repeat, all families together.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Repeats, each with a key of its own.")] = None,
    conditions: Annotated[str | None, typer.Option(help="Conditions, separated by commas.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.01, help="Stop a part's turns after so long.")] = None,
    background: Annotated[int | None, typer.Option(min=1, help="Sentences of the long documents.")] = None,
    out: Out = OUT,
    work: Work = WORK,
) -> None:
    """Runs what is missing of the parts, stores their figures and renders the report.

    \b
    Example:
      python -m experiments.placemem run pilot probe --repeats 2
    """
    from experiments.placemem.parts import PARTS, Options

    chosen = tuple(part.strip() for part in conditions.split(",")) if conditions else None
    _run(list(parts or PARTS), Options(quick, turns, repeats, chosen, minutes, background), out, work)


@app.command()
def routing(
    backend: Annotated[Literal["standin", "vllm"], typer.Option(help="Scripted engines or real vLLM.")] = "standin",
    quick: Quick = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Repeats, each with a key of its own.")] = None,
    requests: Annotated[int | None, typer.Option(min=2, help="Of the large working set; the small has half.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.01, help="Stop each pair of nodes after so long.")] = None,
    out: Out = OUT,
    work: Work = WORK,
) -> None:
    """Round robin, session-sticky, consistent hash and KV-aware on two nodes, with and without eviction.

    \b
    Example:
      python -m experiments.placemem routing --backend vllm
    """
    from experiments.placemem.parts import Options

    _run([f"routing-{backend}"], Options(quick, repeats=repeats, minutes=minutes, requests=requests), out, work)


@app.command()
def render(out: Out = OUT) -> None:
    """Writes rows.csv, claims.json and report.md from what is stored. Runs nothing.

    \b
    Example:
      python -m experiments.placemem render && python -m experiments ledger --rows reports/placemem/claims.json
    """
    from experiments.placemem import report

    for path in report.render(out):
        typer.echo(f"{path}")


def _run(names: Sequence[str], options: object, out: Path, work: Path) -> None:
    from experiments.placemem import parts, report
    from experiments.placemem.pool import Pool

    assert isinstance(options, parts.Options)
    chosen = [parts.get(name) for name in dict.fromkeys(names)]
    for part in chosen:
        if part.plan is not None:
            options.plan(part)  # sizes that cannot be are refused before anything starts
    real = any(part.backend == "vllm" for part in chosen)
    with _ends_orderly(), Pool(typer.echo) if real else nullcontext() as pool:
        for part in chosen:
            outcome = parts.run(part, options, work, pool, typer.echo)
            path = report.save(outcome, out, _command(part.id, options))
            typer.echo(f"{part.id}: {path}" + ("" if outcome.complete else " (the same command continues)"))
    report.render(out)


def _command(part: str, options: object) -> str:
    """The line that repeats a part; folders are left out."""
    from experiments.placemem.parts import Options

    assert isinstance(options, Options)
    words = ["python", "-m", "experiments.placemem"]
    words += ["routing", "--backend", part.removeprefix("routing-")] if part.startswith("routing-") else ["run", part]
    words += ["--quick"] if options.quick else []
    names = ("turns", "repeats", "minutes", "background", "requests")
    given = {name: getattr(options, name) for name in names}
    for name, value in given.items():
        words += [f"--{name}", f"{value:g}"] if value is not None else []
    words += ["--conditions", ",".join(options.conditions)] if options.conditions else []
    return shlex.join(words)


@contextmanager
def _ends_orderly() -> Iterator[None]:
    """A request to terminate ends as Ctrl-C does, so that servers are stopped."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def guarded(words: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code, see `solarjax.cli.errors.run_guarded`."""

    def body() -> object:
        try:
            return app(None if words is None else list(words), standalone_mode=False)
        except ExperimentError as problem:
            raise UserError(str(problem)) from None

    return run_guarded(body)
