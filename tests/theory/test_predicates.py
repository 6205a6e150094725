"""Verdicts and intervals, by hand and against closed forms; nothing here runs a policy."""

import math

import numpy as np
import pytest
from scipy import stats

from theory import predicates, statistics
from theory.errors import TheoryError
from theory.predicates import Growth, exact
from theory.results import Verdict
from theory.statistics import Interval

HOLDS, REFUTED, UNDECIDED = Verdict.HOLDS, Verdict.REFUTED, Verdict.UNDECIDED


def span(low, high):
    return Interval((low + high) / 2, low, high)


@pytest.mark.parametrize(
    ("figures", "bounds", "verdict"),
    [
        ([span(1, 2)], 2.0, HOLDS),
        ([span(1, 2.1)], 2.0, UNDECIDED),
        ([span(2.1, 3)], 2.0, REFUTED),
        ([span(1, 2), span(2.1, 3)], [2.0, 3.0], HOLDS),  # a bound per size
        ([span(1, 2), span(2.1, 3)], 2.0, REFUTED),  # one size is enough
        ([span(1, 2), span(1, 3)], 2.0, UNDECIDED),  # every size is needed
        ([exact(2.0)], 2.0, HOLDS),
        ([exact(math.nextafter(2.0, 3))], 2.0, REFUTED),
    ],
)
def test_at_most_and_its_mirror(figures, bounds, verdict):
    assert predicates.at_most(figures, bounds) is verdict
    mirrored = [Interval(-f.value, -f.high, -f.low) for f in figures]
    opposite = -bounds if isinstance(bounds, float) else [-b for b in bounds]
    assert predicates.at_least(mirrored, opposite) is verdict


def test_margin_favours_the_statement():
    assert predicates.at_most([exact(2.0 + 1e-7)], 2.0, 1e-6) is HOLDS
    assert predicates.at_least([exact(2.0 - 1e-7)], 2.0, 1e-6) is HOLDS


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (span(0.97, 1.04), HOLDS),
        (span(0.97, 1.06), UNDECIDED),
        (span(1.06, 1.2), REFUTED),
        (span(0.8, 0.94), REFUTED),
        (span(0.9, 1.1), UNDECIDED),
    ],
)
def test_equals_needs_the_interval_in_the_band_or_out_of_it(figure, verdict):
    assert predicates.equals([figure], 1.0, 0.05) is verdict
    assert predicates.equals([Interval(-figure.value, -figure.high, -figure.low)], -1.0, 0.05) is verdict


def test_both_counted_covers_stable():
    assert predicates.both(HOLDS, REFUTED, UNDECIDED) is REFUTED
    assert predicates.both(HOLDS, UNDECIDED) is UNDECIDED
    assert predicates.both(HOLDS, HOLDS) is HOLDS
    assert predicates.both() is UNDECIDED
    assert predicates.counted([3, 4], [3, 5]) is HOLDS
    assert predicates.counted([3, 6], [3, 5]) is REFUTED
    assert predicates.covers([span(0, 1), span(1, 2)], 1.0)
    assert not predicates.covers([span(0, 1), span(1.1, 2)], 1.0)
    assert predicates.stable([HOLDS, HOLDS]) and not predicates.stable([HOLDS, UNDECIDED])


@pytest.mark.parametrize(
    ("slope", "worst", "growth"),
    [
        (span(0.96, 1.01), True, Growth.LINEAR),
        (span(0.42, 0.58), True, Growth.SQRT),
        (span(0.42, 0.58), False, Growth.SUBLINEAR),  # a fixed gap says nothing of a minimax rate
        (span(0.3, 0.5), True, Growth.SUBLINEAR),
        (span(0.6, 0.89), True, Growth.SUBLINEAR),
        (span(0.85, 0.96), True, Growth.UNDECIDED),
        (span(0.9, 0.95), False, Growth.UNDECIDED),
    ],
)
def test_growth_classes(slope, worst, growth):
    assert predicates.growth(slope, worst) is growth


def test_square_root_bounds():
    assert predicates.sqrt_upper(span(0.4, 0.6)) is HOLDS and predicates.sqrt_upper(span(0.61, 0.7)) is REFUTED
    assert predicates.sqrt_lower(span(0.4, 0.6)) is HOLDS and predicates.sqrt_lower(span(0.1, 0.39)) is REFUTED
    assert predicates.sqrt_upper(span(0.5, 0.7)) is UNDECIDED and predicates.sqrt_lower(span(0.3, 0.5)) is UNDECIDED


@pytest.mark.parametrize(
    ("last", "trend", "verdict"),
    [
        (span(1.2, 1.3), span(-0.1, 0.1), REFUTED),
        (span(1.2, 1.3), span(0.1, 0.2), REFUTED),
        (span(1.2, 1.3), span(-0.9, -0.6), HOLDS),
        (span(1.2, 1.3), span(-0.9, -0.4), UNDECIDED),
        (span(1.0, 1.04), span(-0.1, 0.1), UNDECIDED),
    ],
)
def test_tends_to_one(last, trend, verdict):
    assert predicates.tends_to_one(last, trend) is verdict


def test_crossing_needs_both_ends_off_zero():
    assert predicates.crossing(span(0.1, 0.2), span(-0.2, -0.1)) is HOLDS
    assert predicates.crossing(span(0.1, 0.2), span(-0.2, 0.1)) is UNDECIDED
    assert predicates.crossing(span(0.1, 0.2), span(0.1, 0.3)) is REFUTED
    assert predicates.crossing(span(-0.2, -0.1), span(-0.2, -0.1)) is REFUTED


def test_predicates_refuse_nothing_to_judge():
    with pytest.raises(TheoryError, match="at least one figure"):
        predicates.at_most([], 1.0)
    with pytest.raises(TheoryError, match="1 figures against 2 bounds"):
        predicates.at_most([exact(1.0)], [1.0, 2.0])
    with pytest.raises(TheoryError, match="relative = -1"):
        predicates.equals([exact(1.0)], 1.0, -1)


def test_mean_interval_is_students():
    values = np.array([1.0, 2.0, 4.0, 7.0])
    found = statistics.mean_interval(values)
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert found == pytest.approx((3.5, low, high))
    wide = statistics.mean_interval(values, looks=10)
    assert wide.low < found.low and wide.high > found.high
    assert wide[1:] == pytest.approx(stats.t.interval(0.995, 3, values.mean(), stats.sem(values)))


def test_wilson_by_hand():
    n, x, z = 40, 31, stats.norm.ppf(0.975)
    p = x / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert statistics.wilson(x, n) == pytest.approx((p, centre - half, centre + half))
    assert statistics.wilson(0, 5).low == pytest.approx(0, abs=1e-12) and statistics.wilson(5, 5).high == 1
    with pytest.raises(TheoryError, match="6 of 5"):
        statistics.wilson(6, 5)


def test_bootstrap_covers_as_often_as_it_says():
    """200 samples of 60 exponentials: a 90 % interval that covers in fewer than 82 % or more than 97 % is wrong (the
    chance of that is below 10^-3 for a coverage of 0.87 to 0.92, which is what 60 skewed values allow)."""
    rng = np.random.default_rng(0)
    found = [statistics.bootstrap(rng.exponential(1, 60), np.mean, i, 300, confidence=0.9) for i in range(200)]
    assert 0.82 <= np.mean([f.low <= 1 <= f.high for f in found]) <= 0.97


def test_power_law_of_a_power_law():
    x = np.array([10.0, 100.0, 1000.0])
    noise = np.random.default_rng(1).lognormal(0, 0.1, (50, 1))
    runs = noise * 3 * x**0.7
    for law in (statistics.power_law, statistics.independent_power_law):
        found = law(x, runs, 0)
        assert found.value == pytest.approx(0.7) and found.low <= found.value <= found.high
    # Whole rows are resampled: the factor of a key is common to its sizes, so the exponent is certain.
    assert statistics.power_law(x, runs, 0).high - statistics.power_law(x, runs, 0).low < 1e-9
    assert statistics.independent_power_law(x, runs, 0).high > 0.7 + 1e-4
    assert np.isnan(statistics.slope(x, np.array([1.0, 0.0, 2.0])))
    for bad in (lambda: statistics.power_law(x, runs[:, :2], 0), lambda: statistics.power_law(x, -runs, 0)):
        with pytest.raises(TheoryError):
            bad()


def test_level_shares_the_error_among_the_looks():
    assert statistics.level(0.95, 1) == pytest.approx(0.95) and statistics.level(0.95, 10) == pytest.approx(0.995)
    for bad in ((1.0, 1), (0.0, 1), (0.95, 0)):
        with pytest.raises(TheoryError):
            statistics.level(*bad)
