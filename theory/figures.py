"""Figures from stored results: nothing is computed again, and nothing is drawn that a result does not hold.

A result describes its plots itself (`theory.results`), so a new check needs no line here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theory.errors import TheoryError
from theory.report import load
from theory.results import write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#e0457b", "#2f8fdb", "#d98200", "#0f9d76", "#9a6ae0", "#a0785a", "#a6951a", "#5b7fff", "#c2543a", "#3fa7a0")
MARKERS = "os^DvPX*<>hp"
NEUTRAL = "#8a8f98"
SIZE = (5.2, 3.8)  # inches
LEGEND_LETTERS, LEGEND_MARK, LEGEND_LINE = 110, 9, 0.17
"""Letters that fit the width at the legend's size, letters that a line's mark takes, and inches of a line."""


def figures(report: Path, out: Path) -> list[Path]:
    """Draws every plot of a report as `out/<name>.svg`; with several key sets `<name>-seed<n>.svg`.

    Returns:
      The files written.

    Raises:
      TheoryError: see `report.load`; also if the report holds no plot, or one that cannot be drawn.
      OSError: if a file cannot be written.
    """
    results = load(report)["results"]
    plots: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        for plot in result.data.get("plots", []):
            plots.setdefault(str(plot.get("name", result.id)), []).append(plot)
    if not plots:
        raise TheoryError(f"{report} holds no plot; results with figures are those of `python -m theory check`")
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, same in plots.items():
        for number, plot in enumerate(same):
            path = out / f"{name}{f'-{number}' if len(same) > 1 else ''}.svg"
            write_text(path, svg(plot))
            written.append(path)
    return written


def svg(plot: Mapping[str, Any]) -> str:
    """One plot as SVG text, the same text for the same plot.

    Args:
      plot: see `theory.results`.

    Raises:
      TheoryError: a field is missing, or a curve's arrays differ in length.
    """
    import io

    import matplotlib as mpl
    from matplotlib.figure import Figure

    missing = {"name", "title", "x", "y", "series"} - set(plot)
    if missing or not plot["series"]:
        raise TheoryError(f"plot {plot.get('name')!r} lacks {', '.join(sorted(missing)) or 'series'}")
    with mpl.rc_context({"font.size": 9.5, "svg.fonttype": "none", "svg.hashsalt": str(plot["name"])}):
        labels = [str(series["label"]) for series in plot["series"]]
        columns = min(3, max(1, LEGEND_LETTERS // (max(map(len, labels)) + LEGEND_MARK)))
        lines = -(-len(labels) // columns)
        # The legend grows downwards and takes nothing from the axes.
        figure = Figure(figsize=(SIZE[0], SIZE[1] + LEGEND_LINE * max(0, lines - 4)), layout="constrained")
        axes = figure.add_subplot()
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(plot["title"], fontsize=10)
        axes.set_xlabel(plot["x"])
        axes.set_ylabel(plot["y"])
        for number, series in enumerate(plot["series"]):
            _draw(axes, series, number, str(plot["name"]))
        if plot.get("x_log"):
            axes.set_xscale("log")
        if plot.get("y_log"):
            axes.set_yscale("log", nonpositive="mask")
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False, fontsize=8
        )
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _draw(axes: Axes, series: Mapping[str, Any], number: int, name: str) -> None:
    label, x, y, style = series["label"], series["x"], series["y"], series.get("style")
    if style == "bars":
        if len(x) != len(y) + 1:
            raise TheoryError(f"plot {name!r}, {label!r}: {len(x)} edges for {len(y)} bars")
        axes.stairs(y, x, label=label, color=COLOURS[number % len(COLOURS)], fill=True, alpha=0.35)
        return
    ends = [series.get(end, y) for end in ("low", "high")]
    if any(len(values) != len(x) for values in (y, *ends)):
        raise TheoryError(f"plot {name!r}, {label!r}: x, y, low and high must have one length")
    if style == "dashed":
        axes.plot(x, y, label=label, color=NEUTRAL, linestyle=("--", ":")[number % 2], linewidth=1.2)
        return
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    axes.plot(x, y, label=label, color=colour, marker=marker, markersize=3.5, linewidth=1.3)
    if "low" in series and not all(math.isclose(a, b) for a, b in zip(*ends, strict=True)):
        axes.fill_between(x, ends[0], ends[1], color=colour, alpha=0.18, linewidth=0)
