"""Statistics against scipy, closed forms and a hand-worked cluster example."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from solarjax.analysis import (
    AnalysisError,
    capacity_curve,
    difference,
    estimate,
    headroom,
    paired,
    replicates,
    t_interval,
    tidy,
    unit_of_replication,
)
from tests.unit.fake_results import fake_results

RNG = np.random.default_rng(7)


def as_array(values, dims, **coords):
    return xr.DataArray(values, dims=dims, coords=coords, name="hit_rate")


def test_interval_is_scipys():
    values = RNG.normal(2, 3, (4, 17))
    got = t_interval(values, 0.9)
    for i, row in enumerate(values):
        low, high = stats.t.interval(0.9, 16, loc=row.mean(), scale=stats.sem(row))
        assert got.low[i] == pytest.approx(low, rel=1e-12)
        assert got.high[i] == pytest.approx(high, rel=1e-12)
    np.testing.assert_allclose(got.sd, values.std(axis=1, ddof=1), rtol=1e-12)
    assert got.n.tolist() == [17] * 4


def test_interval_closed_form_for_two_values():
    # sd of {0, 1} is 1/sqrt 2, its standard error 1/2; t(.975, 1) = tan(pi * .475).
    got = t_interval(np.array([0.0, 1.0]))
    half = np.tan(np.pi * 0.475) / 2
    assert float(got.high) == pytest.approx(0.5 + half, rel=1e-9)
    assert float(got.low) == pytest.approx(0.5 - half, rel=1e-9)


def test_interval_covers_at_its_rate():
    # 4,000 intervals of 5 normal values: the coverage is Binomial(4000, .95), within 4 standard errors.
    got = t_interval(RNG.normal(1.5, 2, (4000, 5)))
    covered = np.mean((got.low <= 1.5) & (got.high >= 1.5))
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 4000)


def test_missing_values_are_left_out_and_counted():
    values = np.array([[1.0, np.nan, 3.0, 8.0], [np.nan] * 4, [5.0, np.nan, np.nan, np.nan]])
    got = t_interval(values)
    assert got.n.tolist() == [3, 0, 1]
    assert got.mean[0] == 4 and got.sd[0] == pytest.approx(np.std([1, 3, 8], ddof=1))
    assert np.isnan(got.mean[1]) and np.isnan(got.low[1])
    assert got.mean[2] == 5 and np.isnan(got.sd[2]) and np.isnan(got.low[2])


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, float("nan")])
def test_confidence_must_be_a_probability(confidence):
    with pytest.raises(AnalysisError, match="confidence"):
        t_interval(np.arange(3.0), confidence)


def test_one_trace_is_averaged_over_seeds():
    data = as_array(RNG.random((1, 2, 6)), ("trace", "policy", "seed"), policy=["a", "b"])
    assert unit_of_replication(data) == "seed"
    out = estimate(data)
    assert out.attrs["unit"] == "seed" and out["n"].values.tolist() == [6, 6]
    np.testing.assert_allclose(out["mean"], data.values[0].mean(axis=1))


def test_several_traces_are_clusters():
    # Two traces whose seeds agree: 2 independent values, however many seeds. Naive pooling would say n = 100.
    values = np.zeros((2, 1, 50))
    values[1] = 1.0
    out = estimate(as_array(values, ("trace", "policy", "seed"), policy=["a"]))
    assert out.attrs["unit"] == "trace" and int(out["n"].item()) == 2
    assert float(out["sd"].item()) == pytest.approx(np.sqrt(0.5))
    assert float(out["high"].item() - out["low"].item()) == pytest.approx(2 * np.tan(np.pi * 0.475) / 2)


def test_clusters_weigh_equally_even_with_missing_seeds():
    values = np.array([[[1.0, np.nan, np.nan]], [[0.0, 0.0, 0.3]]])
    out = estimate(as_array(values, ("trace", "policy", "seed"), policy=["a"]))
    assert float(out["mean"].item()) == pytest.approx((1.0 + 0.1) / 2)


def test_other_axes_stay():
    data = fake_results(grid={"lam": [1.0, 5.0, 9.0]}, lambdas=(1.0, 2.0))
    assert estimate(data["hit_rate"])["mean"].dims == ("policy", "capacity", "lam")
    assert estimate(data["total_cost"])["mean"].sizes["lambda"] == 2
    assert estimate(data["hit_rate"]).attrs["long_name"] == "hit rate"


def test_nothing_to_average_over():
    with pytest.raises(AnalysisError, match="no axis 'trace' or 'seed'"):
        replicates(as_array(np.zeros(2), ("policy",), policy=["a", "b"]))


def test_paired_test_is_scipys():
    data = fake_results(seeds=23)["hit_rate"]
    out = paired(data)
    base = data.sel(policy="fifo", capacity=20).values[0].astype(np.float64)
    own = data.sel(policy="solar", capacity=20).values[0].astype(np.float64)
    want = stats.ttest_rel(own, base)
    cell = out.sel(policy="solar", capacity=20)
    interval = want.confidence_interval(0.95)
    assert cell["p_value"].item() == pytest.approx(want.pvalue, rel=1e-9)
    assert (cell["low"].item(), cell["high"].item()) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert cell["effect"].item() == pytest.approx(want.statistic / np.sqrt(23), rel=1e-9)
    assert cell["better"].item() == np.mean(own > base)


def test_pairing_removes_shared_difficulty():
    data = fake_results(seeds=40)["hit_rate"]
    alone = estimate(data).sel(policy="solar", capacity=10)
    gap = paired(data).sel(policy="solar", capacity=10)
    assert gap["high"] - gap["low"] < 0.5 * (alone["high"] - alone["low"])


def test_paired_over_clusters_uses_trace_means():
    data = fake_results(traces=tuple("abcdefghij"), seeds=4)["hit_rate"]
    out = paired(data).sel(policy="lru", capacity=10)
    means = data.astype(np.float64).mean("seed").sel(capacity=10)
    want = stats.ttest_rel(means.sel(policy="lru"), means.sel(policy="fifo"))
    assert out["n"].item() == 10 and out["p_value"].item() == pytest.approx(want.pvalue, rel=1e-9)


def test_repeating_a_deterministic_run_is_no_evidence():
    values = np.broadcast_to(np.array([0.2, 0.5, 0.2])[None, :, None], (1, 3, 9))
    out = paired(as_array(values, ("trace", "policy", "seed"), policy=["fifo", "lru", "twin"]))
    assert np.isnan(out["p_value"].sel(policy="lru").item()) and np.isnan(out["effect"].sel(policy="lru").item())
    assert out["mean"].sel(policy="lru").item() == pytest.approx(0.3)
    assert out["p_value"].sel(policy="twin").item() == 1.0 and out["better"].sel(policy="twin").item() == 0.5


def test_difference_keeps_axes_and_is_zero_for_the_baseline():
    data = fake_results(grid={"lam": [1.0, 2.0]})["hit_rate"]
    gap = difference(data, "lru")
    assert gap.dims == data.dims
    assert np.all(gap.sel(policy="lru") == 0) and np.any(gap.sel(policy="solar") != 0)


def test_unknown_baseline_names_what_there_is():
    with pytest.raises(AnalysisError, match=r"'fifi'.*fifo, lru, solar"):
        paired(fake_results()["hit_rate"], "fifi")


def test_curve_is_tidy_and_complete():
    data = fake_results(capacities=(5, 10, 20))
    rows = capacity_curve(data, "hit_rate")
    assert len(rows) == 9
    assert {(r["policy"], r["capacity"]) for r in rows} == {
        (p, k) for p in ("fifo", "lru", "solar") for k in (5, 10, 20)
    }
    row = next(r for r in rows if r["policy"] == "solar" and r["capacity"] == 10)
    cell = data["hit_rate"].sel(policy="solar", capacity=10).values[0].astype(np.float64)
    assert row["mean"] == pytest.approx(cell.mean(), rel=1e-12)
    base = data["hit_rate"].sel(policy="fifo", capacity=10).values[0].astype(np.float64)
    assert row["diff"] == pytest.approx((cell - base).mean(), rel=1e-9)
    assert type(row["capacity"]) is int and type(row["mean"]) is float


def test_curve_without_baseline_and_with_one_seed():
    rows = capacity_curve(fake_results(seeds=1), "hit_rate", baseline=None)
    assert "diff" not in rows[0] and rows[0]["low"] is None and rows[0]["n"] == 1


def test_curve_of_an_unknown_variable():
    with pytest.raises(AnalysisError, match=r"'hits'.*hit_rate"):
        capacity_curve(fake_results(), "hits")


def test_tidy_follows_the_axes():
    table = xr.Dataset({"x": (("a", "b"), [[1, 2], [3, 4]])}, {"a": ["p", "q"], "b": [0.5, 1.5]})
    assert tidy(table) == [
        {"a": "p", "b": 0.5, "x": 1}, {"a": "p", "b": 1.5, "x": 2},
        {"a": "q", "b": 0.5, "x": 3}, {"a": "q", "b": 1.5, "x": 4},
    ]  # fmt: skip


def test_headroom_by_hand():
    # fifo .2, best oracle .6: a policy at .3 closes a quarter; one at .1 falls behind by a quarter.
    values = np.array([0.2, 0.3, 0.1, 0.6, 0.4])[None, :, None, None] * np.ones((1, 5, 1, 3))
    policies = ["fifo", "good", "bad", "oracle", "oracle2"]
    data = xr.Dataset({"hit_rate": (("trace", "policy", "capacity", "seed"), values)}, {"policy": policies})
    share = headroom(data, "hit_rate", ["oracle", "oracle2"])
    assert share.sel(policy=["fifo", "good", "bad", "oracle"]).values[:, 0] == pytest.approx([0, 0.25, -0.25, 1])
    assert headroom(data, "hit_rate", ["elsewhere"]) is None


def test_no_headroom_where_the_oracle_is_not_above():
    values = np.array([0.5, 0.5])[None, :, None] * np.ones((1, 2, 3))
    data = xr.Dataset({"hit_rate": (("trace", "policy", "seed"), values)}, {"policy": ["fifo", "oracle"]})
    assert np.all(np.isnan(headroom(data, "hit_rate", ["oracle"])))
