"""Intervals: of a mean, of a share, of a statistic, of a growth exponent. All two-sided.

`looks` is the number of intervals that one verdict reads together. Each is then made wider (Bonferroni), so that all
of them cover at once with the stated confidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from theory.errors import TheoryError

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """An estimate with its interval, in the unit of the estimate."""

    value: float
    low: float
    high: float


def level(confidence: float = CONFIDENCE, looks: int = 1) -> float:
    """Confidence of each of `looks` intervals that together cover with `confidence`.

    Raises:
      TheoryError: confidence outside (0, 1) or looks < 1.
    """
    if not 0 < confidence < 1:
        raise TheoryError(f"confidence = {confidence} must lie strictly between 0 and 1")
    if looks < 1:
        raise TheoryError(f"looks = {looks} must be at least 1")
    return 1 - (1 - confidence) / looks


def _sample(values: np.ndarray, least: int) -> np.ndarray:
    values = np.asarray(values, np.float64)
    if values.shape[-1] < least or not np.isfinite(values).all():
        raise TheoryError(f"an interval needs at least {least} finite values, got {values.shape[-1]}")
    return values


def mean_interval(values: np.ndarray, confidence: float = CONFIDENCE, looks: int = 1) -> Interval:
    """Student t interval of the mean of `values [R]`."""
    values = _sample(values, 2)
    mean, n = float(values.mean()), len(values)
    half = float(stats.t.ppf(0.5 + level(confidence, looks) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def wilson(successes: int, trials: int, confidence: float = CONFIDENCE, looks: int = 1) -> Interval:
    """Wilson score interval of a share; never empty and never outside [0, 1].

    Raises:
      TheoryError: unless 0 <= successes <= trials and trials >= 1.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise TheoryError(f"{successes} of {trials} is no share")
    found = stats.binomtest(int(successes), int(trials)).proportion_ci(level(confidence, looks), "wilson")
    return Interval(successes / trials, float(found.low), float(found.high))


def bootstrap(
    values: np.ndarray,
    statistic: Callable[[np.ndarray], float],
    seed: int,
    resamples: int = 2000,
    confidence: float = CONFIDENCE,
    looks: int = 1,
) -> Interval:
    """Percentile bootstrap over the FIRST axis of `values [R, ...]`.

    Args:
      values: one row per independent repetition.
      statistic: function of such an array; it may return NaN for a resample on which it is undefined.
      seed: of the resampling.

    Returns:
      The statistic of the sample, with the quantiles over the resamples on which it is defined.

    Raises:
      TheoryError: fewer than two rows, or the statistic is undefined on the sample or on half of the resamples.
    """
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        raise TheoryError(f"a bootstrap needs at least 2 repetitions, got {len(values)}")
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(values), (resamples, len(values)))
    drawn = np.array([statistic(values[pick]) for pick in picks], np.float64)
    value = float(statistic(values))
    known = drawn[np.isfinite(drawn)]
    if not np.isfinite(value) or 2 * len(known) < resamples:
        raise TheoryError("the statistic is undefined on this sample or on half of its resamples")
    tail = (1 - level(confidence, looks)) / 2
    return Interval(value, float(np.quantile(known, tail)), float(np.quantile(known, 1 - tail)))


def slope(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Least-squares slope of log `y [..., n]` on log `x [n]`; NaN where a y is not positive."""
    x, y = np.log(np.asarray(x, np.float64)), np.asarray(y, np.float64)
    logs = np.log(np.where(y > 0, y, np.nan))
    centred = x - x.mean()
    return (logs * centred).sum(axis=-1) / (centred**2).sum()


def power_law(
    x: np.ndarray, runs: np.ndarray, seed: int, confidence: float = CONFIDENCE, looks: int = 1, resamples: int = 1000
) -> Interval:
    """Exponent b of mean(runs) ~ x^b: slope of log mean against log x, with a bootstrap interval over the runs.

    Args:
      x: `[n]` positive sizes, n >= 2.
      runs: `[R, n]`, one row per key; sizes of one row may be checkpoints of one run, because whole rows are resampled.

    Raises:
      TheoryError: fewer than two sizes or rows, or means that are not positive.
    """
    x, runs = np.asarray(x, np.float64), np.asarray(runs, np.float64)
    if runs.ndim != 2 or len(x) != runs.shape[1] or len(x) < 2 or not (x > 0).all():
        raise TheoryError(f"a power law needs runs [R, n] at n >= 2 positive sizes, got {runs.shape} at {x.tolist()}")
    return bootstrap(runs, lambda rows: float(slope(x, rows.mean(axis=0))), seed, resamples, confidence, looks)


def independent_power_law(
    x: np.ndarray, runs: np.ndarray, seed: int, confidence: float = CONFIDENCE, looks: int = 1, resamples: int = 1000
) -> Interval:
    """As `power_law`, for sizes that were run apart: each column of `runs [R, n]` is resampled on its own."""
    runs = np.asarray(runs, np.float64)
    if len(runs) < 2:
        raise TheoryError(f"a bootstrap needs at least 2 repetitions, got {len(runs)}")
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(runs), (resamples, *runs.shape))
    drawn = slope(x, np.take_along_axis(runs[None], picks, axis=1).mean(axis=1))
    value = float(slope(x, runs.mean(axis=0)))
    if not np.isfinite(value) or not np.isfinite(drawn).all():
        raise TheoryError("a power law needs positive means")
    tail = (1 - level(confidence, looks)) / 2
    return Interval(value, float(np.quantile(drawn, tail)), float(np.quantile(drawn, 1 - tail)))
