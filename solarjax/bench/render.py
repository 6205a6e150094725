"""Rows of every section as readable tables: a heading, column names, cells, and what to know about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from solarjax.bench.sections import SECTIONS

Row = Mapping[str, Any]


class Table(NamedTuple):
    """title; head: column names; cells: one tuple of text per row; notes: sentences below."""

    title: str
    head: tuple[str, ...]
    cells: list[tuple[str, ...]]
    notes: list[str]


def table(name: str, rows: Sequence[Row], device: Mapping[str, Any]) -> Table:
    """The table of a section. `device`: where it was measured."""
    head, cells, notes = _LAYOUTS[name](rows)
    where = f"{device.get('platform')}, {device.get('kind')}"
    # Timings of a machine with more to do than cores are rough; whoever reads them should know.
    if device.get("load") is not None:
        where += f"; load {device['load']:.1f} on {device.get('cpus')} cores"
    return Table(f"{SECTIONS[name].title} ({where})", head, cells, notes)


def rate(value: float | None) -> str:
    """Steps per second with a unit that keeps three figures in view; a dash for None."""
    if value is None:
        return "-"
    for size, unit in ((1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} /s"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _span(row: Row, name: str) -> str:
    if row[name] is None:
        return "-"
    return f"{row[name]:.2f} ({row[name + '_low']:.2f} .. {row[name + '_high']:.2f})"


Layout = tuple[tuple[str, ...], list[tuple[str, ...]], list[str]]


def _compare(rows: Sequence[Row]) -> Layout:
    head = ("policy", "K", "engine", "±", "compiled loop", "ratio (min .. max)", "floor", "bound by", "floor/engine")
    cells: list[tuple[str, ...]] = [
        (
            row["policy"], str(row["capacity"]), rate(row["engine_steps_per_s"]), _percent(row["engine_spread"]),
            rate(row["peer_steps_per_s"]), _span(row, "ratio"), rate(row["floor_steps_per_s"]),
            row["floor_bound"] or "-", _number(row["over_floor"], 1),
        )
        for row in rows
    ]  # fmt: skip
    first = rows[0]
    notes = [
        f"{first['lanes']} lanes x {first['steps']} steps, median of {first['repeats']} runs in turn; "
        "± is the distance of the quartiles over the median.",
        "floor: the least a step must read, write and compute, at this machine's measured bandwidth and arithmetic.",
    ]
    alone = [row["policy"] for row in rows if row["ratio"] is None]
    if alone:
        notes.append(
            f"no compiled loop beside {', '.join(dict.fromkeys(alone))}: there is none for the policy, or numba is "
            "missing (install solarjax[bench])"
        )
    return head, cells, notes


def _cores(rows: Sequence[Row]) -> Layout:
    head = ("policy", "K", "1 core", f"{rows[0]['devices']} cores", "speed-up (min .. max)", "cores busy")
    cells: list[tuple[str, ...]] = [
        (
            row["policy"], str(row["capacity"]), rate(row["one_steps_per_s"]), rate(row["all_steps_per_s"]),
            _span(row, "speedup"), f"{row['busy_one']:.2f} / {row['busy_all']:.2f}",
        )
        for row in rows
    ]  # fmt: skip
    return head, cells, ["cores busy: processor seconds per second, with one device and with all; same bits in both."]


def _device(rows: Sequence[Row]) -> Layout:
    head = ("policy", "K", "lanes", "steps/s", "±", "bytes/step", "bandwidth allows", "of it", "trace", "compile")
    cells: list[tuple[str, ...]] = []
    for row in rows:
        start = (row["policy"], str(row["capacity"]), f"{row['lanes']:,}")
        if row["left_out"]:
            size = f"{row['estimate'] / 2**30:.1f} GiB" if row["left_out"] == "memory" else f"{row['estimate']:.0f} s"
            cells.append((*start, f"left out: {row['left_out']} ({size})", *[""] * 6))
            continue
        cells.append(
            (
                *start, rate(row["steps_per_s"]), _percent(row["spread"]), f"{row['streamed_bytes']:.0f}",
                rate(row["bound_steps_per_s"]), _percent(row["of_bound"]), f"{row['trace_s']:.1f} s",
                f"{row['compile_s']:.1f} s",
            )
        )  # fmt: skip
    note = "bytes/step: the scan's carry both ways, and what is gathered; bandwidth: measured on this device."
    return head, cells, [note]


def _compile(rows: Sequence[Row]) -> Layout:
    head = ("policy", "K", "trace", "compile", "together")
    cells = [
        (row["policy"], str(row["capacity"]), *(f"{row[n]:.1f} s" for n in ("trace_s", "compile_s", "total_s")))
        for row in rows
    ]
    return head, cells, ["each in a fresh process, without a compilation cache."]


def _growth(rows: Sequence[Row]) -> Layout:
    head = ("axis", "policy", "points", "exponent (95 % interval)", "expected")
    cells: list[tuple[str, ...]] = []
    for row in rows:
        low, high = row["expected_low"], row["expected_high"]
        cells.append(
            (
                row["axis"], row["policy"], ", ".join(map(str, row["points"])),
                f"{row['exponent']:.2f} ({row['low']:.2f} .. {row['high']:.2f})",
                f"{low:g}" if low == high else f"{low:g} to {high:g}",
            )
        )  # fmt: skip
    return head, cells, ["exponent: slope of log seconds against log size, a fit per round."]


def _memory(rows: Sequence[Row]) -> Layout:
    cells: list[tuple[str, ...]] = [(f"{row['seeds']:,}", f"{row['peak_mib']:.0f} MiB") for row in rows]
    first = rows[0]
    note = f"FIFO and SOLAR, {first['steps']} steps, block budget {first['budget_mib']:.0f} MiB; jax itself included."
    return ("seeds", "peak memory"), cells, [note]


_LAYOUTS: Mapping[str, Callable[[Sequence[Row]], Layout]] = {
    "compare": _compare,
    "cores": _cores,
    "device": _device,
    "compile": _compile,
    "growth": _growth,
    "memory": _memory,
}
