"""`solarjax bench`: how fast this machine runs the policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solarjax.cli.errors import UserError
from solarjax.cli.parsing import whole_numbers

if TYPE_CHECKING:
    from solarjax.bench.options import Options
    from solarjax.bench.sections import Measured

ORDER = ("compare", "cores", "device", "compile", "growth", "memory")


def bench(
    policies: Annotated[
        str | None, typer.Option(help="Policies by name; default: those with a compiled loop beside them.")
    ] = None,
    capacities: Annotated[str | None, typer.Option(help="Cache sizes in items (default 10,50).")] = None,
    lanes: Annotated[int | None, typer.Option(help="Workloads side by side (default 1024).")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of a workload (default 500).")] = None,
    repeats: Annotated[int | None, typer.Option(help="Timed runs (default 7).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller and rougher: FIFO and SOLAR, K = 10.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Engine against a compiled loop (default).")] = False,
    cores: Annotated[bool, typer.Option("--cores", help="All cores against one.")] = False,
    device: Annotated[bool, typer.Option("--device", help="Steps/s against lanes on jax's device.")] = False,
    device_lanes: Annotated[str | None, typer.Option(help="Lanes of --device (default 100 to 1000000).")] = None,
    point_seconds: Annotated[
        float | None, typer.Option(help="Points of --device that would take longer are left out (default 60).")
    ] = None,
    compiling: Annotated[bool, typer.Option("--compile", help="Compile time of each policy.")] = False,
    growth: Annotated[bool, typer.Option("--growth", help="Exponents of the run time in T, K, items, lanes.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Peak memory against the number of seeds.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All of these.")] = False,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Rows and provenance; - is stdout instead of tables.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Growth as SVG; needs --growth.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No tables, no progress.")] = False,
) -> None:
    """Measure how fast this machine runs the policies.

    Each section runs in a process of its own. The compiled loop needs numba (solarjax[bench]); without it the engine
    is measured alone.

    \b
    Examples:
      solarjax bench --quick
      solarjax bench --policies fifo,lru,solar --capacities 10,50 --json bench.json
      solarjax bench --device --policies solar --capacities 50
      solarjax bench --growth --figure growth.svg
    """
    from solarjax.bench import options as sizes
    from solarjax.bench import results, sections

    asked = dict(zip(ORDER, (compare, cores, device, compiling, growth, memory), strict=True))
    names = list(ORDER) if everything else [name for name, on in asked.items() if on] or ["compare"]
    if figure is not None and "growth" not in names:
        raise UserError(f"--figure {figure} draws the growth; ask for --growth as well")
    given = {"lanes": lanes, "steps": steps, "repeats": repeats, "point_seconds": point_seconds}
    options = _options(policies, capacities, device_lanes, given, quick)
    _check_policies(options, names)
    for target in [path for path in (json_file, figure) if path not in (None, "-")]:
        results.check_writable(Path(str(target)))
    measured: list[Measured] = []
    with results.clock() as seconds:
        for name in names:
            measured.append(sections.measure(name, options, quiet))
            if not quiet and json_file != "-":
                _show(measured[-1])
            text = results.text(results.document(measured, options, seconds(), sizes.Options()))
            if json_file not in (None, "-"):
                results.write(Path(str(json_file)), text)  # after each section: a later one may take long, or fail
    if json_file == "-":
        print(text, end="")
    if figure is not None:
        from solarjax.bench.figure import drawn

        rows = next(m.rows for m in measured if m.name == "growth")
        results.write(figure, drawn(rows))


def _options(
    policies: str | None, capacities: str | None, device_lanes: str | None, numbers: dict[str, Any], quick: bool
) -> Options:
    """What was given over what is usual, or over the quick sizes."""
    from dataclasses import replace

    from solarjax.bench import options as sizes

    given = {name: value for name, value in numbers.items() if value is not None}
    if policies is not None:
        given["policies"] = given["growth_policies"] = tuple(part.strip() for part in policies.split(","))
    elif quick:
        given["policies"] = ("fifo", "solar")
    if capacities is not None:
        given["capacities"] = whole_numbers("--capacities", capacities, 1)
    elif quick:
        given["capacities"] = (10,)
    usual = sizes.quick(sizes.Options()) if quick else sizes.Options()
    if device_lanes is not None:
        given["device_lanes"] = tuple(sorted(whole_numbers("--device-lanes", device_lanes, 1)))
    return replace(usual, **given).checked()


def _check_policies(options: Options, names: list[str]) -> None:
    """A policy that cannot be measured should be known before minutes of measuring."""
    from solarjax.policies.registry import case

    for name in options.policies:
        chosen = case(name)
        if not chosen.spec.online:
            raise UserError(f"--policies {name} sees the future and needs tables of it; name online policies")
        if chosen.spec.unbounded:
            raise UserError(f"--policies {name} keeps everything, whatever K; name a bounded policy")
    if "growth" in names and options.repeats < 2:
        raise UserError(f"--repeats {options.repeats} is out of range for --growth; allowed are whole numbers from 2")


def _show(measured: Measured) -> None:
    """Prints a section's table."""
    from rich.table import Table

    from solarjax.bench import render
    from solarjax.cli.terminal import console

    found = render.table(measured.name, measured.rows, measured.device)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for number, head in enumerate(found.head):
        table.add_column(head, no_wrap=True, justify="left" if number == 0 else "right")
    for cells in found.cells:
        table.add_row(*cells)
    out = console()
    out.print(found.title, style="bold")
    out.print(table)
    for note in found.notes:
        out.print(note)
    out.print()
