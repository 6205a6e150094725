"""The report's statistics against closed forms, hand-worked cases and stated error rates."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from experiments.statistics import (
    BORDERLINE,
    NOT_REPRODUCED,
    REPRODUCED,
    array_rows,
    bootstrap_mean,
    compare,
    correct,
    detectable_effect,
    sample_row,
    sweep_rows,
)
from experiments.types import Published, Row


def test_bootstrap_agrees_with_the_normal_interval():
    """Mean of 1,000 normals: the percentile interval is the z interval up to the noise of 2,000 resamples."""
    values = np.random.default_rng(1).normal(0.3, 0.1, (4, 1000))
    low, high = bootstrap_mean(values)
    half = stats.norm.ppf(0.975) * values.std(axis=1) / np.sqrt(1000)
    # A bootstrap quantile's standard error is about sqrt(p q / B) / density = 0.06 sd at B = 2,000; 4 of these.
    slack = 4 * 0.06 * values.std(axis=1) / np.sqrt(1000)
    assert np.all(np.abs(low - (values.mean(axis=1) - half)) < slack)
    assert np.all(np.abs(high - (values.mean(axis=1) + half)) < slack)


def test_bootstrap_leaves_out_what_it_cannot_know():
    values = np.array([[0.1, 0.2, np.nan], [0.1, 0.2, 0.3], [0.5, 0.5, 0.5]])
    low, high = bootstrap_mean(values)
    assert np.isnan(low[0]) and np.isnan(high[0]) and low[1] < 0.2 < high[1] and low[2] == high[2] == 0.5
    assert np.isnan(bootstrap_mean(np.array([[1.0]]))[0]).all()
    assert np.array_equal(bootstrap_mean(values)[0], low, equal_nan=True)


@pytest.mark.parametrize(("n", "printed"), [(10, 0.996), (20, 0.660), (100, 0.283)])
def test_detectable_effect_agrees_with_tables(n, printed):
    """Paired t test, alpha .05 two-sided, power .8: the values that G*Power prints."""
    assert detectable_effect(n) == pytest.approx(printed, abs=5e-4)


def test_detectable_effect_has_the_power_it_says():
    d, runs = detectable_effect(10), 4000
    draws = np.random.default_rng(2).normal(d, 1, (runs, 10))
    found = (stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05).mean()
    # 4 standard errors of a share of 4,000 (false alarm 6e-5).
    assert abs(found - 0.8) < 4 * np.sqrt(0.8 * 0.2 / runs)


def hits(seeds=200, shift=0.1):
    rng = np.random.default_rng(3)
    shared = rng.normal(0, 0.2, (1, 1, 2, seeds))
    own = rng.normal(0, 0.02, (1, 2, 2, seeds))
    values = 0.5 + shared + own + np.array([0, shift])[None, :, None, None]
    coords = {"trace": ["t"], "policy": ["fifo", "lru"], "capacity": [5, 10], "seed": range(seeds)}
    return xr.Dataset({"hit_rate": (("trace", "policy", "capacity", "seed"), values)}, coords)


def test_rows_of_a_sweep_hold_the_paired_difference():
    data = hits()
    rows = {(r.policy, r.x): r for r in sweep_rows(data, table="t", entry="e", group="g")}
    assert len(rows) == 4 and rows["fifo", 5.0].diff is None
    row = rows["lru", 10.0]
    values = data["hit_rate"].isel(trace=0, capacity=1)
    gap = values.sel(policy="lru").values - values.sel(policy="fifo").values
    assert row.diff == pytest.approx(gap.mean()) and row.diff_low < 0.1 < row.diff_high
    assert row.p_value == pytest.approx(stats.ttest_rel(values.sel(policy="lru"), values.sel(policy="fifo")).pvalue)
    # Pairing removes the shared spread of .2: the interval is that of the differences.
    assert row.diff_high - row.diff_low < 0.02 < row.high - row.low
    assert row.detectable == pytest.approx(detectable_effect(200) * gap.std(ddof=1))
    assert (row.table, row.group, row.entry, row.unit, row.n, row.baseline) == ("t", "g", "e", "seed", 200, "fifo")


def test_rows_over_conversations_count_conversations():
    data = xr.concat([hits().assign_coords(trace=[name]) for name in "abc"], "trace")
    row = array_rows(data["hit_rate"], "hit_rate", "t", "e")[-1]
    assert row.unit == "trace" and row.n == 3


def test_contrast_rows():
    row = sample_row(np.array([0.1, 0.2, 0.3]), contrast=True, table="t", policy="p", measure="m")
    assert row.diff == pytest.approx(0.2) and row.effect == pytest.approx(2.0) and row.better == 1.0
    flat = sample_row(np.zeros(5), contrast=True, table="t", policy="p", measure="m")
    assert flat.diff == 0 and flat.p_value == 1.0 and flat.effect is None
    constant = sample_row(np.full(5, 0.3), contrast=True, table="t", policy="p", measure="m")
    assert constant.diff_low == constant.diff_high == pytest.approx(0.3) and constant.p_value is None


def plain_row(policy, p=None, mean=0.5, sd=0.1, n=1000, **more):
    return Row("t", policy, "hit_rate", mean, x=1.0, sd=sd, n=n, p_value=p, **more)


def test_correction_is_benjamini_hochberg_within_a_table():
    """Hand-worked: p = .01, .02, .03, .5 of m = 4 give .04, .04, .04, .5."""
    rows = [plain_row(str(i), p) for i, p in enumerate([0.03, 0.01, 0.5, 0.02])]
    other = Row("u", "z", "hit_rate", 0.5, p_value=0.03)
    done = correct([*rows, other, plain_row("none")])
    assert [r.p_adjusted for r in done[:4]] == pytest.approx([0.04, 0.04, 0.5, 0.04])
    assert done[4].p_adjusted == pytest.approx(0.03) and done[5].p_adjusted is None


def test_agreement_takes_the_three_seeds_into_account():
    """sd .1: three seeds alone have a standard error of .058, so .59 against .5 is no disagreement."""
    published = {("", 1.0, p, "hit_rate"): Published(v) for p, v in (("near", 0.59), ("far", 0.9), ("edge", 0.63))}
    rows = {r.policy: r for r in compare([plain_row(p) for p in ("near", "far", "edge", "free")], published)}
    assert [rows[p].agrees for p in ("near", "far", "edge", "free")] == [REPRODUCED, NOT_REPRODUCED, BORDERLINE, ""]
    assert rows["near"].gap == pytest.approx(-0.09) and rows["near"].gap_low < 0 < rows["near"].gap_high
    assert rows["far"].gap_high < 0


def test_exact_figures_agree_up_to_their_rounding():
    published = {("", 1.0, "a", "hit_rate"): Published(0.9), ("", 1.0, "b", "hit_rate"): Published(0.899)}
    rows = [plain_row(p, mean=0.9004, sd=0.0) for p in "ab"]
    assert [r.agrees for r in compare(rows, published)] == [REPRODUCED, NOT_REPRODUCED]


def test_agreement_has_its_error_rate():
    """Published means of 3 seeds from our own law: 95 % are reproduced, and Holm errs in at most 5 % of the tables."""
    rng = np.random.default_rng(4)
    cells, tables = 20, 200
    inside = wrong = 0
    for _ in range(tables):
        figures = {("", 1.0, str(i), "hit_rate"): Published(rng.normal(0.5, 0.1, 3).mean(), 9) for i in range(cells)}
        rows = compare([plain_row(str(i), mean=rng.normal(0.5, 0.1 / np.sqrt(1000))) for i in range(cells)], figures)
        inside += sum(r.agrees == REPRODUCED for r in rows)
        wrong += any(r.agrees == NOT_REPRODUCED for r in rows)
    total = cells * tables
    assert abs(inside / total - 0.95) < 4 * np.sqrt(0.95 * 0.05 / total)
    assert wrong / tables < 0.05 + 4 * np.sqrt(0.05 * 0.95 / tables)
