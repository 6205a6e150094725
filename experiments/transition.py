"""The transition capacity K*: where a policy's gap to FIFO changes sign, with an interval, and how it scales."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RESAMPLES = 2000


class Crossing(NamedTuple):
    """at: K*, None without a crossing.  low, high: 95 % percentile bootstrap interval, None unless defined.
    defined: share of the resamples that cross."""

    at: float | None
    low: float | None
    high: float | None
    defined: float


def resampled_means(gaps: np.ndarray, rng: np.random.Generator, resamples: int = RESAMPLES) -> np.ndarray:
    """`[resamples, K]` means over resampled seeds of `gaps [K, S]`; a resample takes the same seeds at every K."""
    seeds = gaps.shape[1]
    weights = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds
    return weights @ gaps.T


def crossings(capacities: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Where each curve of `means [R, K]` passes for the last time from above zero to zero or below.

    `[R]`; NaN where it never does. Linear between the capacities, which increase.
    """
    falls = (means[:, :-1] > 0) & (means[:, 1:] <= 0)
    last = falls.shape[1] - 1 - np.argmax(falls[:, ::-1], axis=1)
    row = np.arange(len(means))
    left, right = means[row, last], means[row, last + 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = left / (left - right)
    k = np.asarray(capacities, np.float64)
    return np.where(falls.any(axis=1), k[last] + part * (k[last + 1] - k[last]), np.nan)


def crossing(capacities: np.ndarray, gaps: np.ndarray) -> tuple[Crossing, np.ndarray]:
    """K* of `gaps [K, S]` (policy - FIFO by capacity and seed) and its resamples `[R]`.

    The interval is given if at least 95 % of the resamples cross; else the data do not say that there is a transition.
    """
    samples = crossings(capacities, resampled_means(gaps, np.random.default_rng(0)))
    point = float(crossings(capacities, gaps.mean(axis=1)[None])[0])
    known = samples[~np.isnan(samples)]
    defined = len(known) / len(samples)
    if np.isnan(point) or defined < 0.95:
        return Crossing(None if np.isnan(point) else point, None, None, defined), samples
    low, high = np.percentile(known, [2.5, 97.5])
    return Crossing(point, float(low), float(high), defined), samples


def scaling(sizes: np.ndarray, points: np.ndarray, samples: np.ndarray) -> Crossing | None:
    """Exponent of K* in the working-set size: slope of log K* on log size, least squares over the cells that cross.

    Args:
      sizes: `[C]` working-set sizes.   points: `[C]` K*, NaN where there is none.   samples: `[C, R]` resamples.

    Returns:
      Slope with its bootstrap interval, None if fewer than two cells cross.
    """
    held = ~np.isnan(points)
    if held.sum() < 2 or len(np.unique(sizes[held])) < 2:
        return None
    x = np.log(sizes[held])
    x = x - x.mean()

    def slope(y: np.ndarray) -> np.ndarray:
        return (x @ np.log(y)) / (x @ x)

    slopes = slope(samples[held])
    known = slopes[~np.isnan(slopes)]
    low, high = np.percentile(known, [2.5, 97.5]) if len(known) else (np.nan, np.nan)
    return Crossing(float(slope(points[held])), float(low), float(high), len(known) / len(slopes))
