"""What a run shows: a table on stdout, a progress bar on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Console

WIDE = 150  # columns where the output is no terminal and nothing wraps


def console(stream: IO[str] | None = None) -> Console:
    """A console on `stream` (default stdout), wide where it is piped."""
    from rich.console import Console

    stream = stream or sys.stdout
    return Console(file=stream, width=None if stream.isatty() else WIDE, highlight=False)


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[int, int, str], None] | None]:
    """A callback (done, total, label) that draws a bar on stderr; None if `quiet` or no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars

    columns = (
        bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(), bars.TimeRemainingColumn(),
    )  # fmt: skip
    with bars.Progress(*columns, console=console(sys.stderr), transient=True) as shown:
        task = shown.add_task("preparing", total=None)

        def update(done: int, total: int, label: str) -> None:
            shown.update(task, completed=done, total=total, description=label)

        yield update


def print_table(data: xr.Dataset, offline: set[str], stream: IO[str] | None = None) -> None:
    """Prints hit rate with interval, paired difference to fifo, store rate and admissions.

    Args:
      data: a result of `sweep`.
      offline: policies that see the future; they are marked.
      stream: where to, default stdout.
    """
    from rich.table import Table

    from solarjax.analysis.curves import capacity_curve
    from solarjax.analysis.paired import BASELINE
    from solarjax.analysis.summary import unit_of_replication
    from solarjax.report.tables import interval, number
    from solarjax.report.variants import fold_grid

    data = fold_grid(data)
    names = [str(name) for name in data["policy"].values]
    baseline = BASELINE if BASELINE in names and len(names) > 1 else None
    curves = {
        name: {(r["policy"], r["capacity"]): r for r in capacity_curve(data, name, baseline)}
        for name in ("hit_rate", "store_rate", "admissions")
    }
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("K", justify="right", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for head in (
        "hit rate",
        *([f"difference to {baseline}"] if baseline else []),
        "store rate",
        "admissions",
    ):
        table.add_column(head, justify="right", no_wrap=True)
    for capacity in (int(k) for k in data["capacity"].values):
        for name in names:
            hit, store, admitted = (curves[v][name, capacity] for v in curves)
            cells = [interval(hit["mean"], hit["low"])]
            if baseline:
                own = name == baseline
                cells.append("" if own else interval(hit["diff"], hit["diff_low"], signed=True))
            cells += [number(store["mean"]), number(admitted["mean"], "items")]
            table.add_row(str(capacity), name + (" (heuristic, offline)" if name in offline else ""), *cells)
        table.add_section()
    out = console(stream)
    out.print(table)
    traces, seeds = data.sizes["trace"], data.sizes["seed"]
    over = f"{traces} trace means (clustered)" if unit_of_replication(data) == "trace" else "seeds"
    out.print(
        f"{traces} trace{'s' * (traces > 1)}, {seeds} seed{'s' * (seeds > 1)}; "
        f"± is half a 95 % interval over {over}" + ("; differences are paired." if baseline else ".")
    )
