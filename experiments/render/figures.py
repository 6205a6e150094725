"""Figures of the report from stored rows, drawn by `solarjax.report.figures`."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from experiments.render import heatmap
from experiments.render.slim import slim
from experiments.render.tables import groups, select, slug
from experiments.types import Artefact, Row, View
from solarjax.cli.runtime import cores
from solarjax.report.figures import draw, for_file, for_page, to_svg
from solarjax.report.sections import Point, PolicyInfo, Section


@dataclass(frozen=True)
class Figure:
    """One picture: slug (file name and anchor), label, and the table that holds its data."""

    slug: str
    label: str
    table: str
    svg: str

    def inline(self) -> str:
        """For pasting into a page."""
        return for_page(self.svg)

    def file(self) -> str:
        """As a file of its own."""
        return for_file(self.svg)


class Line(PolicyInfo):
    """A policy under its bare name: a longer one would run out of the legend. What sees the future is dashed."""

    @property
    def title(self) -> str:
        """Its label."""
        return self.label


class RowSection:
    """Stored rows in the shape that the library's drawing reads (`report.sections.Section`)."""

    baseline = None

    def __init__(self, title: str, rows: Sequence[Row]):
        self.title = title
        self._all = list(rows)
        xs = sorted({r.x for r in rows if r.x is not None})
        name = rows[0].x_name
        self.points = tuple(Point(0, 0, x, f"{name} = {x:g}") for x in xs)
        self.x_label = {"K": "capacity K (items)", "m/K": "topics per slot m/K (K = 10)"}.get(name, name)

    @cached_property
    def policies(self) -> list[PolicyInfo]:
        """In stored order; what sees the future is told by its name."""
        names = dict.fromkeys(r.policy for r in self._all)
        return [Line(name, not name.startswith("oracle"), "", "", {}) for name in names]

    def rows(self, variable: str) -> list[dict[str, Any]]:
        """As `Section.rows`: one dict per policy and point."""
        at = {point.x: i for i, point in enumerate(self.points)}
        return [
            {"policy": r.policy, "point": at[r.x], "mean": r.mean, "low": r.low, "high": r.high}
            for r in sorted((r for r in self._all if r.x is not None), key=lambda r: at[r.x])  # type: ignore[index]
            if r.measure == variable and r.x is not None
        ]

    def describe(self, variable: str) -> str:
        """The measure in words."""
        return variable.replace("_", " ")


Wanted = tuple[str, int, str, Sequence[Row]]
"""(artefact id, number of its view, group, the rows of both)."""
ALONE = 64
"""So many figures are drawn before another process pays: it takes as long to start as this one takes for thirty."""


def wanted(artefact: Artefact, rows: Sequence[Row]) -> list[Wanted]:
    """The figures that an artefact's views ask for."""
    return [
        (artefact.id, number, group, select(rows, view, group))
        for number, view in enumerate(artefact.views)
        if view.figure
        for group in groups(rows, view)
    ]


def draw_all(tasks: Sequence[Wanted]) -> list[Figure | None]:
    """Every figure, in order; many are drawn by one process per core, since drawing is most of a report's time."""
    if len(tasks) <= ALONE or cores() == 1:
        return [_draw(task) for task in tasks]
    # Not forked: this process may run threads of its own.
    with ProcessPoolExecutor(cores(), multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(_draw, tasks))


def _draw(task: Wanted) -> Figure | None:
    from experiments import registry

    name, number, group, rows = task
    artefact = registry.get(name)
    return figure(artefact, artefact.views[number], group, rows)


def figure(artefact: Artefact, view: View, group: str, rows: Sequence[Row]) -> Figure | None:
    """The picture of one view and group, None if it has no x axis."""
    every = [r for r in select(rows, view, group) if r.x is not None]
    chosen = [r for r in every if not view.drawn or r.policy in view.drawn]
    if not chosen:
        return None
    title = view.title + (f", {group}" if group else "")
    shown, held = (len({r.policy for r in part}) for part in (chosen, every))
    if shown < held:
        title += f" ({shown} of {held} policies; the table holds all)"
    name = slug(artefact.id, view.table, view.measure, group)
    if view.heat:
        drawn = heatmap.draw(chosen, view.measure)
    else:
        drawn = draw(cast(Section, RowSection(title, chosen)), view.measure)
    return Figure(f"figure-{name}", title, name, slim(to_svg(drawn, f"figure-{name}")))
