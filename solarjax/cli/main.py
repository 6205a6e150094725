"""Entry point. Importing this module loads neither jax nor numpy, so `--help` is quick."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import solarjax
from solarjax.cli import bench, data, plane, policies, replay, report, run, trace, vllm, workloads
from solarjax.cli.errors import run_guarded

app = typer.Typer(
    name="solarjax", no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"solarjax {solarjax.__version__}")
        raise typer.Exit


@app.callback()
def solarjax_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """A laboratory for deciding what an LLM agent should remember.

    \b
    Examples:
      solarjax run --workload cycling --policies fifo,lru,solar --capacities 10,20 --seeds 200
      solarjax policies
      solarjax workloads cycling
      solarjax report runs/
    """


for _name, _function, _short in (
    ("run", run.run, "Sweep policies over a workload or recorded traces."),
    ("policies", policies.policies, "List the policies, or one's parameters."),
    ("workloads", workloads.workloads, "List workloads and protocols, or one's parameters."),
    ("data", data.data, "Where data sets come from; check or fetch them."),
    ("replay", replay.replay, "Replay questions through a language model under each policy."),
    ("report", report.report, "Render stored runs as HTML, Markdown and CSV."),
    ("bench", bench.bench, "Measure how fast this machine runs the policies."),
):
    app.command(_name, short_help=_short)(_function)
app.add_typer(trace.app, name="trace")
app.add_typer(plane.app, name="plane")
app.add_typer(vllm.app, name="vllm")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits; the exit codes are those of `run_guarded`."""
    given = None if arguments is None else list(arguments)
    sys.exit(run_guarded(lambda: app(given, standalone_mode=False)))


if __name__ == "__main__":
    main()
