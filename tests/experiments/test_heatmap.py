"""A heat map shows every stored cell, says which are sure, and leaves holes where nothing is stored."""

import re

import numpy as np

from experiments.artefacts.sensitivity import ARTEFACT
from experiments.render.figures import figure
from experiments.render.heatmap import grid_of
from experiments.types import Row


def row(policy, x, mean, low, high, group="solar_a"):
    return Row("gap", policy, "difference", mean, group=group, x_name="K", x=x, low=low, high=high)


ROWS = [
    row("topics=5", 20.0, 0.125, 0.1, 0.15),
    row("topics=5", 5.0, -0.25, -0.3, -0.2),
    row("topics=10", 5.0, 0.015, -0.01, 0.04),
]


def test_cells_stand_where_they_belong():
    lines, xs, mean, sure = grid_of(ROWS)
    assert lines == ["topics=5", "topics=10"] and xs == [5.0, 20.0]
    np.testing.assert_array_equal(mean, [[-0.25, 0.125], [0.015, np.nan]])
    np.testing.assert_array_equal(sure, [[True, True], [False, False]])


def test_the_picture_prints_the_stored_values():
    view = next(v for v in ARTEFACT.views if v.heat)
    svg = figure(ARTEFACT, view, "solar_a", ROWS).inline()
    shown = [text.replace("\N{MINUS SIGN}", "-") for text in re.findall(r">\s*([^<>\s][^<>]*?)\s*</text>", svg)]
    for text in ("-0.25", "+0.12", "(+0.01)", "topics=5", "topics=10", "5", "20", "K; difference"):
        assert text in shown, (text, shown)
    assert sum(bool(re.fullmatch(r"\(?[+-]\d\.\d\d\)?", text)) for text in shown) == 3
