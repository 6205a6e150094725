"""The growth figure: run time against T, K, M and lanes on logarithmic axes."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from solarjax.bench.errors import BenchError

TITLES = {"steps": "steps T", "capacity": "capacity K", "items": "items M", "lanes": "lanes B"}


def drawn(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of `growth.growth` as one SVG file's text, a panel per axis, exponents in the legends.

    Raises:
      BenchError: no rows, or matplotlib is missing.
    """
    if not rows:
        raise BenchError("no growth was measured; there is nothing to draw")
    if importlib.util.find_spec("matplotlib") is None:
        raise BenchError("the figure needs matplotlib; install solarjax[report]")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from solarjax.report.figures import COLOURS, INK, MARKERS, SPARE, for_file, to_svg

    axes = list(dict.fromkeys(row["axis"] for row in rows))
    with mpl.rc_context({"font.size": 9, "axes.edgecolor": INK, "text.color": INK}):
        figure = Figure(figsize=(3.2 * len(axes), 3.4), layout="constrained")
        for number, axis in enumerate(axes):
            panel = figure.add_subplot(1, len(axes), number + 1, facecolor="none")
            for index, row in enumerate(r for r in rows if r["axis"] == axis):
                half = (row["high"] - row["low"]) / 2
                panel.loglog(
                    row["points"], [1e3 * s for s in row["seconds"]], marker=MARKERS[index % len(MARKERS)],
                    color=COLOURS.get(row["policy"], SPARE[index % len(SPARE)]), markersize=4, linewidth=1.4,
                    label=f"{row['policy']}: {row['exponent']:.2f} ± {half:.2f}",
                )  # fmt: skip
            points = sorted({p for r in rows if r["axis"] == axis for p in r["points"]})
            panel.set_xticks(points, [str(p) for p in points])
            panel.minorticks_off()
            panel.tick_params(colors=INK, labelsize=8)
            panel.set_xlabel(TITLES[axis], color=INK)
            panel.grid(alpha=0.25, linewidth=0.6)
            panel.spines[["top", "right"]].set_visible(False)
            panel.legend(title="exponent, 95 % interval", frameon=False, fontsize=8, title_fontsize=8)
        figure.axes[0].set_ylabel("milliseconds per run", color=INK)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        return for_file(to_svg(figure, "growth"))
