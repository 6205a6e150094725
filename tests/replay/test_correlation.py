"""Correlation of answers and proxy against scipy, and against samples of sessions drawn by hand."""

import json

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from solarjax.replay.correlation import _points, _questions, _rows, coefficients, correlate
from solarjax.replay.errors import ReplayError
from solarjax.report import render, stored
from tests.replay import toy_run

SCORED = slice(4, 8)  # of toy_run.STEPS steps the second half


def world(sessions=5, noise=0.4, **replaced):
    """(live, shadow) of toy runs: F1 follows the hit, with noise."""
    live = xr.concat([toy_run.run(f"s{i}", i) for i in range(sessions)], "trace", combine_attrs="override")
    shadow = live.copy(deep=True)
    shadow["step_hit"] = (live["step_hit"] > 0.5).astype(float)
    draw = np.random.default_rng(9)
    # Policies differ: the last ones hit, and answer, better.
    better = np.arange(len(toy_run.POLICIES))[None, :, None, None, None] / 4
    shadow["step_hit"] = ((live["step_hit"] + better) > 0.7).astype(float)
    live["step_quality"] = shadow["step_hit"] * 0.5 + noise * draw.uniform(size=live["step_hit"].shape)
    return live, shadow


def sides(live, shadow, policy, capacity):
    """F1 and hit of the scored questions, `[sessions, questions]`; both seeds in a session's row."""
    at = {"policy": policy, "capacity": capacity}
    shape = (live.sizes["trace"], -1)
    return (
        live["step_quality"].sel(at).values[..., SCORED].reshape(shape),
        shadow["step_hit"].sel(at).values[..., SCORED].reshape(shape),
    )


def row_of(rows, over, capacity, policy=None):
    (row,) = [r for r in rows if (r["over"], r["capacity"], r["policy"]) == (over, capacity, policy)]
    return row


def test_every_kind_of_row_agrees_with_scipy():
    live, shadow = world()
    rows = correlate(live, shadow, draws=20)
    assert len(rows) == 2 * (3 + 3) and {r["units"] for r in rows} == {5} and {r["unit"] for r in rows} == {"session"}
    for k in toy_run.CAPACITIES:
        points = {p: sides(live, shadow, p, k) for p in toy_run.POLICIES}
        for policy, (f1, hit) in points.items():
            row = row_of(rows, "questions", k, policy)
            assert row["n"] == f1.size == 5 * 2 * 4
            assert (row["f1"], row["proxy"]) == pytest.approx((f1.mean(), hit.mean()))
            assert row["pearson"] == pytest.approx(stats.pearsonr(f1.ravel(), hit.ravel()).statistic)
            assert row["spearman"] == pytest.approx(stats.spearmanr(f1.ravel(), hit.ravel()).statistic)
        f1, hit = (np.array([points[p][side].mean(axis=1) for p in toy_run.POLICIES]) for side in (0, 1))
        expected = {
            "policies": (f1.mean(axis=1), hit.mean(axis=1)),
            "policies x sessions": (f1.ravel(), hit.ravel()),
            "policies within sessions": ((f1 - f1.mean(axis=0)).ravel(), (hit - hit.mean(axis=0)).ravel()),
        }
        for over, (x, y) in expected.items():
            row = row_of(rows, over, k)
            assert row["n"] == len(x) == (3 if over == "policies" else 15)
            assert row["pearson"] == pytest.approx(stats.pearsonr(x, y).statistic), over
            assert row["spearman"] == pytest.approx(stats.spearmanr(np.round(x, 9), np.round(y, 9)).statistic), over


def test_the_interval_is_that_of_sessions_drawn_by_hand():
    live, shadow = world()
    row = row_of(correlate(live, shadow, draws=400, seed=3), "policies x sessions", 10)
    f1, hit = (np.array([sides(live, shadow, p, 10)[side].mean(axis=1) for p in toy_run.POLICIES]) for side in (0, 1))
    draw, found = np.random.default_rng(3), []
    for _ in range(400):
        chosen = [int(i) for i in draw.integers(5, size=5)]
        x = [f1[p, s] for p in range(3) for s in chosen]
        y = [hit[p, s] for p in range(3) for s in chosen]
        found.append(stats.pearsonr(x, y).statistic)
    assert [row["pearson_low"], row["pearson_high"]] == pytest.approx(list(np.quantile(found, [0.025, 0.975])))
    assert row["pearson_low"] < row["pearson"] < row["pearson_high"]


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """100 worlds of 12 sessions in which F1 and hit correlate by rho = .6 over sessions, and questions of a session are
    all but one and the same. A 95 % interval should hold rho in 95 of them; percentile intervals of so few clusters are
    known to fall short, so 83 are asked for (below 83 with probability 1e-6). One that draws questions as if they were
    independent holds it far less often."""
    draw, rho, inside = np.random.default_rng(0), 0.6, {"sessions": 0, "questions": 0}
    for _ in range(100):
        x, y = draw.normal(size=(2, 12))
        both = np.stack([x, rho * x + np.sqrt(1 - rho**2) * y])
        world = both[:, :, None, None] + 0.01 * draw.normal(size=(2, 12, 2, 8))  # [2, T, P, n]
        sessions = list(np.moveaxis(world, 1, 0))
        together = [np.concatenate(sessions, axis=-1)]
        for unit, points, given in (("sessions", _points, sessions), ("questions", _questions, together)):
            row = _rows(points, given, 100, 0)[0]
            inside[unit] += row["pearson_low"] <= rho <= row["pearson_high"]
    assert inside["sessions"] >= 83 and inside["questions"] < 70


def test_one_session_draws_its_questions_and_has_no_rows_over_sessions():
    live, shadow = world(sessions=1)
    rows = correlate(live, shadow, draws=50)
    assert {r["over"] for r in rows} == {"questions", "policies"}
    assert {(r["unit"], r["units"]) for r in rows} == {("question", 8)}


def test_what_is_constant_or_short_has_no_correlation():
    assert np.isnan(coefficients(np.array([[[1.0, 1.0, 1.0]], [[1.0, 2.0, 3.0]]]), ranks=False)).all()
    assert coefficients(np.array([[[1.0, 2.0, 9.0]], [[1.0, 2.0, 3.0]]]), ranks=True) == pytest.approx(1)
    live, shadow = world()
    flat = shadow.assign(step_hit=shadow["step_hit"] * 0)
    row = row_of(correlate(live, flat, draws=5), "policies", 10)
    assert row["pearson"] is row["spearman"] is row["pearson_low"] is None and row["proxy"] == 0
    pair = [one.isel(policy=[0, 1]) for one in (live, shadow)]
    assert row_of(correlate(*pair, draws=5), "policies", 10)["pearson"] is None
    # One side varies in one of three sessions and the other in another: 4 of 9 samples hold both, so most are constant.
    rare, few = flat.copy(deep=True), live.copy(deep=True)
    rare["step_hit"][{"trace": 0}] = shadow["step_hit"][{"trace": 0}]
    few["step_quality"][{"trace": [0, 2]}] = 0.5
    held = row_of(correlate(*(x.isel(trace=[0, 1, 2]) for x in (few, rare)), draws=400), "questions", 10, "lru")
    assert held["pearson"] is not None and held["pearson_low"] is held["pearson_high"] is None


def test_replays_of_other_runs_are_refused():
    live, shadow = world()
    with pytest.raises(ReplayError, match="differ on the axis 'trace'"):
        correlate(live.isel(trace=[0]), shadow)
    with pytest.raises(ReplayError, match="k is 3 in one replay and 4 in the other"):
        correlate(live, shadow.assign_attrs(k=4))
    with pytest.raises(ReplayError, match="score different questions"):
        correlate(live, shadow.assign(step_scored=1 - shadow["step_scored"]))


def test_the_report_shows_them(tmp_path):
    live, shadow = world()
    rows = correlate(live, shadow, draws=20)
    toy_run.store(tmp_path, "shadow", shadow.drop_vars(["answer_f1", "category_f1"]), quality="hit")
    (tmp_path / "shadow" / "correlation.json").write_text(json.dumps(rows))
    render.report(tmp_path)
    text = (tmp_path / "report.md").read_text()
    row = row_of(rows, "policies", 20)
    assert f"| policies | all | 20 | 3 | {row['f1']:.3f} | {row['proxy']:.3f} |" in text
    assert "bootstrap interval over other sessions" in text
    (tmp_path / "shadow" / "correlation.json").write_text('[{"over": 1}]')
    with pytest.raises(stored.StoreError, match="holds no readable correlations"):
        render.report(tmp_path)
