"""A table of stored rows as a heat map: one line per label, one column per x, colour is the signed value.

Blue is above zero and orange below, told apart by anyone; a value whose interval holds zero is printed in brackets, so
the picture does not call a difference what may be none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.types import Row
from solarjax.report.figures import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE_HEIGHT, WIDTH = 0.27, 4.9
"""Inches."""


def grid_of(rows: Sequence[Row]) -> tuple[list[str], list[float], np.ndarray, np.ndarray]:
    """(lines in stored order, sorted x, means `[lines, x]` f64 with NaN where nothing is stored, sure `[lines, x]`).

    `sure` says that the interval excludes zero.
    """
    lines = list(dict.fromkeys(r.policy for r in rows))
    xs = sorted({r.x for r in rows if r.x is not None})
    mean = np.full((len(lines), len(xs)), np.nan)
    sure = np.zeros(mean.shape, bool)
    for row in rows:
        if row.x is not None and row.mean is not None:
            at = lines.index(row.policy), xs.index(row.x)
            mean[at] = row.mean
            sure[at] = row.low is not None and row.high is not None and (row.low > 0 or row.high < 0)
    return lines, xs, mean, sure


def draw(rows: Sequence[Row], measure: str) -> Figure:
    """The heat map of rows that have an x.

    Returns:
      A figure for `solarjax.report.figures.to_svg`.
    """
    import matplotlib as mpl
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    lines, xs, mean, sure = grid_of(rows)
    largest = float(np.nanmax(np.abs(mean), initial=0.0)) or 1.0
    colours = LinearSegmentedColormap.from_list("signed", ["#d98200", "#f3efe8", "#2f8fdb"])
    with mpl.rc_context({"font.size": 9, "axes.edgecolor": INK, "text.color": INK}):
        figure = Figure(figsize=(WIDTH, 0.9 + LINE_HEIGHT * len(lines)), layout="constrained")
        axes = figure.add_subplot(facecolor="none")
        axes.imshow(mean, cmap=colours, vmin=-largest, vmax=largest, aspect="auto")
        for (i, j), value in np.ndenumerate(mean):
            if np.isfinite(value):
                text = f"{value:+.2f}" if sure[i, j] else f"({value:+.2f})"
                # On a cell, not on the page: its ground is light in both themes.
                axes.text(j, i, text, ha="center", va="center", fontsize=7, color="#1b1d22")
        axes.set_xticks(range(len(xs)), [f"{x:g}" for x in xs])
        axes.set_yticks(range(len(lines)), lines)
        axes.tick_params(colors=INK, labelsize=8, length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel(f"{rows[0].x_name}; {measure}", color=INK)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        return figure
