"""Reasons for cells that are not reproduced are made of stored rows, and change with them."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from experiments import explain, registry, store
from experiments.artefacts import authors_arrays
from experiments.render.tables import printed
from experiments.statistics import BORDERLINE, NOT_REPRODUCED, REPRODUCED, compare
from experiments.types import Published, Row

CYCLING = registry.get("cycling")


def held(name, rows):
    return {name: store.StoredArtefact(name, tuple(rows), {"status": "done", "entries": {}, "quick": False})}


def lfu(**changes):
    row = Row("cycling", "lfu", "hit_rate", 0.709, x_name="m/K", x=1.0, sd=0.071, n=1000, published=0.597)
    return replace(row, **{"published_decimals": 3, "gap": 0.112, "gap_p": 0.24, "agrees": NOT_REPRODUCED, **changes})


def world(first=0.63, second=0.54, own=None):
    """What `authors_arrays` stores of one cell, from its own code: two instances, and our seeds."""
    data = xr.Dataset(
        {"hit_rate": (("trace", "policy", "capacity", "seed"), np.array([first, second])[:, None, None, None])},
        {"trace": ["cycling-m10-seed42", "cycling-m10-seed1337"], "policy": ["lfu"], "capacity": [10], "seed": [0]},
    )
    own = np.linspace(0.5, 0.9, 1001) if own is None else own
    ours = xr.Dataset(
        {"hit_rate": (("policy", "capacity", "seed"), own[None, None])},
        {"policy": ["lfu"], "capacity": [10], "seed": np.arange(len(own))},
    )
    return authors_arrays.rows({"cycling": data, f"{authors_arrays.OURS}cycling m=10": ours})


def why(row, *others):
    stored = held("cycling", [row])
    for name, rows in others:
        stored |= held(name, rows)
    return explain.why(CYCLING, row, stored)


def test_the_third_instance_is_what_the_printed_mean_leaves():
    rows = {(r.table, r.policy): r for r in world()}
    third = rows["instances", "lfu, third seed as printed"]
    assert third.mean == pytest.approx(3 * 0.597 - 0.63 - 0.54)
    assert third.low == pytest.approx(third.mean - 0.0015) and third.high == pytest.approx(third.mean + 0.0015)
    # Our seeds lie evenly in [.5, .9]: at least .16 from their mean .7 are 20 % of them, .07 leaves 65 %.
    assert rows["place", "lfu, seed 1337"].mean == pytest.approx(0.2, abs=0.002)
    assert rows["place", "lfu, seed 42"].mean == pytest.approx(0.65, abs=0.002)
    assert rows["place", "lfu, third seed as printed"].n == 1001


def test_an_account_from_the_authors_instances():
    text = why(lfu(), ("authors_arrays", world()))
    assert "0.630 (seed 42) and 0.540 (seed 1337)" in text and "leaves 0.621 for the third" in text
    assert "Of our 1,001 seeds" in text and "65 %, 20 %" in text
    assert "The least usual is seed 1337. Our engine ran on that very array" in text
    # Other stored figures, another account.
    assert "0.610 (seed 42)" in why(lfu(), ("authors_arrays", world(first=0.61)))
    unusual = why(lfu(), ("authors_arrays", world(own=np.linspace(0.70, 0.72, 500))))
    assert "The third would be unusual" in unusual and "that very array" not in unusual
    wide = why(lfu(), ("authors_arrays", world(0.68, 0.68, np.linspace(0.3, 1.1, 801))))
    assert "the third, an ordinary draw" in wide
    assert "do not belong together" in why(lfu(), ("authors_arrays", world(first=0.1, second=0.1)))


def test_what_is_not_stored_is_not_claimed():
    assert "run authors_arrays" in why(lfu())
    assert why(lfu(agrees=REPRODUCED)) == ""
    other = lfu(policy="unheard of")
    assert why(other, ("authors_arrays", world())) == "unexplained"


def test_a_borderline_cell_is_counted_among_the_others():
    row = lfu(agrees=BORDERLINE)
    rows = [row, *(lfu(x=float(i), agrees=REPRODUCED) for i in range(2, 41))]
    text = explain.why(CYCLING, row, held("cycling", rows))
    assert "p = 0.24 over the 40 figures" in text and "about 2.0 are outside by chance, 1 is" in text


def test_the_uniform_pool_is_explained_by_the_other_pool():
    probe = registry.get("noise_probe")
    cell = Row("probe", "frozen pool", "hit_rate", 0.009, group="uniform", x_name="K", x=10.0, sd=0.001, n=1000)
    rows = compare([cell, replace(cell, group="preferred", mean=0.0151)], probe.published)
    text = explain.why(probe, rows[0], held("noise_probe", rows))
    assert rows[0].agrees == NOT_REPRODUCED and "0.015, reproduced, and 1 of 1 printed figures" in text
    assert explain.why(probe, rows[1], held("noise_probe", rows)) == ""


def test_every_published_figure_has_a_line_also_without_one_of_ours():
    figures = {("", 1.0, "lfu", "hit_rate"): Published(0.597), ("", 9.0, "arc", "hit_rate"): Published(0.1)}
    artefact = replace(CYCLING, published=figures, absent="no such model")
    table = printed(artefact, held("cycling", [lfu()]))
    assert [line[0].text for line in table.rows] == ["lfu", "arc"]
    assert table.rows[1][-1].text == "not measured (2)" and "(2) no such model" in table.notes
    assert table.rows[0][-1].text == "not reproduced (1)" and table.notes[-2].startswith(
        "(1) lfu, m/K = 1: The authors'"
    )
    assert "1 published figures are not measured here." in table.notes
    for name in registry.IDS:
        for group, x, policy, measure in registry.get(name).published:
            assert policy and measure and (x is None or x > 0), (name, group)
