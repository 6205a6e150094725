"""Figures of a section, drawn with matplotlib (no display needed) as SVG or PNG.

Inline SVGs take the page's text colour and have no background, so one picture serves light and dark pages.
Files have a white background, for places that know nothing of the page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from solarjax.analysis.curves import Row
from solarjax.report.sections import PolicyInfo, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A colour that appears nowhere else, replaced by `currentColor` in inline SVGs.
INK = "#010203"
# Mid tones that stand out on white and on near-black; the baseline is neutral.
COLOURS = {
    "fifo": "#8a8f98", "unlimited": "#8a8f98", "lru": "#d98200", "lfu": "#a6951a", "arc": "#0f9d76",
    "random": "#a0785a", "oracle": INK, "oracle_cover": INK,
    "solar_e": "#2f8fdb", "solar_a": "#9a6ae0", "solar": "#e0457b",
}  # fmt: skip
SPARE = ("#5b7fff", "#c2543a", "#3fa7a0", "#b05fae", "#7a9a2f", "#c78f5b", "#5f8aa8", "#cc6f94")
MARKERS = "os^DvPX*<>hp"
WIDTH, HEIGHT = 4.5, 3.5  # inches; at 72 dots an inch this is a phone's width, so text stays legible there


def draw(section: Section, variable: str, compare: bool = False) -> Figure:
    """`variable` against the section's x axis, one line per policy, bars for the interval.

    A section of one point becomes a row of dots per policy instead.

    Args:
      section: what to draw.
      variable: a measure in `section.variables`.
      compare: draw the paired difference to the baseline instead.

    Returns:
      A figure that belongs to nobody (no pyplot state); pass it to `to_svg` or `to_png`.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    name = section.describe(variable)
    measure = f"{name}, difference to {section.baseline}" if compare else name
    with mpl.rc_context({"font.size": 9.5, "axes.edgecolor": INK, "text.color": INK}):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot(facecolor="none")
        axes.tick_params(colors=INK, labelsize=9)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        rows = section.rows(variable)
        shown = [p for p in section.policies if not (compare and p.label == section.baseline)]
        styles = dict(zip((p.label for p in section.policies), _styles(section.policies), strict=True))
        series = [(p, [row for row in rows if row["policy"] == p.label]) for p in shown]
        if len(section.points) == 1:
            _dots(axes, series, styles, compare)
            axes.set_xlabel(f"{measure} at {section.points[0].label}", color=INK)
        else:
            _lines(axes, section, series, styles, compare)
            axes.set_ylabel(measure, color=INK)
            figure.legend(
                *axes.get_legend_handles_labels(), loc="outside lower center", ncols=min(4, len(shown)),
                frameon=False, fontsize=8.5, handlelength=1.8, columnspacing=1.2,
            )  # fmt: skip
        # Laid out once, here; each saving would do it again.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        return figure


Series = list[tuple[PolicyInfo, list[Row]]]


def _styles(policies: Sequence[PolicyInfo]) -> list[dict[str, Any]]:
    """Colour, marker and line of each policy; variants of one policy get different colours."""
    used: set[str] = set()
    found = []
    for index, policy in enumerate(policies):
        base = re.split(r"[ (]", policy.label)[0]
        colour = COLOURS.get(base, SPARE[index % len(SPARE)]) if base not in used else SPARE[index % len(SPARE)]
        used.add(base)
        line = "--" if not policy.online else ":" if policy.label == "unlimited" else "-"
        found.append(
            {
                "color": colour, "marker": MARKERS[index % len(MARKERS)], "linestyle": line,
                "linewidth": 1.5 if line == "-" else 1.2, "markersize": 4, "elinewidth": 0.9, "capsize": 2,
            }
        )  # fmt: skip
    return found


def _values(rows: list[Row], compare: bool) -> tuple[np.ndarray, np.ndarray]:
    """Means `[n]` and distances `[2, n]` down and up to the ends of their intervals, 0 where there is none."""

    def column(name: str) -> np.ndarray:
        return np.array([np.nan if row[name] is None else row[name] for row in rows], np.float64)

    middle, low, high = ("diff", "diff_low", "diff_high") if compare else ("mean", "low", "high")
    mean = column(middle)
    ends = np.stack([mean - column(low), column(high) - mean])
    return mean, np.nan_to_num(ends, nan=0.0).clip(min=0)


def _lines(axes: Axes, section: Section, series: Series, styles: dict[str, dict[str, Any]], compare: bool) -> None:
    for policy, rows in series:
        mean, ends = _values(rows, compare)
        at = [section.points[row["point"]].x for row in rows]
        axes.errorbar(at, mean, yerr=ends, label=policy.title, **styles[policy.label])
    if compare:
        axes.axhline(0, color=COLOURS["fifo"], linewidth=1.2, zorder=1)
    axes.set_xlabel(section.x_label, color=INK)
    x = sorted({point.x for point in section.points})
    if x[0] > 0 and x[-1] / x[0] > 8:
        axes.set_xscale("log")
        axes.minorticks_off()
        # Neighbours closer than this would print over each other.
        shown = [x[0]]
        for value in x[1:]:
            if value / shown[-1] > 1.3:
                shown.append(value)
        axes.set_xticks(shown, [f"{value:g}" for value in shown])
    elif len(x) <= 8:
        axes.set_xticks(x, [f"{value:g}" for value in x])


def _dots(axes: Axes, series: Series, styles: dict[str, dict[str, Any]], compare: bool) -> None:
    for height, (policy, rows) in enumerate(series):
        mean, ends = _values(rows, compare)
        axes.errorbar(mean, [height], xerr=ends, label=policy.title, **{**styles[policy.label], "linestyle": "none"})
    axes.set_yticks(range(len(series)), [policy.title for policy, _ in series])
    axes.invert_yaxis()
    if compare:
        axes.axvline(0, color=COLOURS["fifo"], linewidth=1.2, zorder=1)


def to_svg(figure: Figure, salt: str) -> str:
    """The figure as SVG text with real text in it, no background, and `INK` as its ink.

    Args:
      figure: from `draw`.
      salt: makes the identifiers inside unique on a page; the same figure and salt give the same text.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", facecolor="none", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    # Figures on one page share identifiers (axes_1, glyph and clip hashes) unless each gets its own prefix.
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{salt}-", text)


def for_page(svg: str) -> str:
    """An SVG of `to_svg` for pasting into a page: as wide as its place, in the page's text colour."""
    head, rest = svg.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    return (head + ' role="img">' + rest).replace(INK, "currentColor")


def for_file(svg: str) -> str:
    """An SVG of `to_svg` as a file of its own, on white."""
    head, rest = svg.split(">", 1)
    return f'{head}><rect width="100%" height="100%" fill="white"/>{rest}'


def to_png(figure: Figure, dots_per_inch: int = 160) -> bytes:
    """The figure as PNG bytes on white."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dots_per_inch, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()
