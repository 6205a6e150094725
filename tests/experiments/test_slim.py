"""Drawings lose characters and nothing that is seen; what a page carries packed comes back equal."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from experiments.render import embed
from experiments.render.heatmap import draw
from experiments.render.slim import slim
from solarjax.report.figures import for_page, to_svg
from tests.support.stored_rows import cell


@pytest.fixture(scope="module")
def drawn():
    rows = [
        cell("t", policy, "gap", 0.01 * i * x, x) for i, policy in enumerate(("a0.125", "b")) for x in (1, 2.125, 3)
    ]
    return to_svg(draw(rows, "gap"), "figure-t")


def numbers(svg):
    """All coordinates, in order."""
    every = [named for element in ElementTree.fromstring(svg).iter() for named in element.attrib.items()]
    found = [value for name, value in every if name in ("d", "x", "y", "width")]
    return np.array([float(n) for text in found for n in re.findall(r"-?\d+(?:\.\d+)?", text)])


def test_every_coordinate_keeps_two_decimals(drawn):
    before, after = numbers(drawn), numbers(slim(drawn))
    assert len(after) == len(before) > 50 and np.abs(after - before).max() <= 0.005 + 1e-12
    assert np.abs(after - before).max() > 0
    assert len(slim(drawn)) < 0.9 * len(drawn) and slim(slim(drawn)) == slim(drawn)


def test_words_colours_and_pictures_are_left_alone(drawn):
    for kept in (r"<text[^>]*>([^<]*)<", r"#[0-9a-f]{6}\b", r"base64,\s*([^\"]*)"):
        found = re.findall(kept, drawn)
        assert found and re.findall(kept, slim(drawn)) == found
    assert "2.125" in re.findall(r"<text[^>]*>([^<]*)<", slim(drawn))


def test_only_identifiers_that_are_used_stay(drawn):
    short = slim(drawn)
    held = set(re.findall(r' id="([^"]*)"', short))
    assert held == set(re.findall(r'(?:href="#|url\(#)([^")]+)', short)) and held
    assert len(re.findall(r' id="', drawn)) > len(held)
    assert "currentColor" in for_page(short)


def test_turned_words_stay_turned():
    svg = '<svg><text transform="rotate(-0 1.234567 2)">a</text><text transform="rotate(-90 1.234567 2)">b</text></svg>'
    assert slim(svg) == '<svg><text>a</text><text transform="rotate(-90 1.23 2)">b</text></svg>'


def test_what_is_packed_comes_back():
    rows = [cell("t", "a", "m", 1 / 3, 1), cell("t", "b", "m", 2 / 3, 2, diff=0.5)]
    text = embed.pack({"fake": rows}, {"fake": {"run": "do <this>"}}, {"place": "</script>"})
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", text)
    assert text == embed.pack({"fake": rows}, {"fake": {"run": "do <this>"}}, {"place": "</script>"})
    held = embed.unpack(text)
    fields = held["artefacts"]["fake"]["fields"]
    assert held["parts"] == {"place": "</script>"} and held["artefacts"]["fake"]["commands"] == {"run": "do <this>"}
    assert held["artefacts"]["fake"]["keys"] == [row.key for row in rows]
    assert fields["mean"] == [0.333333, 0.666667]
    assert fields["diff"] == [None, 0.5] and fields["baseline"] == [None, "fifo"]
    assert "published" not in fields and set(fields) < set(held["columns"])
