"""Mean, spread and confidence interval over what was repeated.

The unit of replication decides the error bar. With one trace it is the seed. With several traces (say ten
conversations) seeds of one trace share its questions, so they are not independent: each trace is averaged
over its seeds first, and the interval is over the trace means (errors clustered by trace).
Axes: R replicates; the rest is whatever the variable carries (policy, capacity, grid axes, category ...).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

TRACE, SEED = "trace", "seed"
CONFIDENCE = 0.95


class AnalysisError(ValueError):
    """A question the data cannot answer; the message names what is there."""


class Estimate(NamedTuple):
    """One estimate per cell, each `[...] f64`; NaN where it is undefined.

    mean: sample mean.     sd: sample standard deviation (ddof 1); NaN for one replicate.
    low, high: two-sided Student t interval of the mean; NaN for one replicate.
    n: replicates that are not NaN.
    """

    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n: np.ndarray


def t_interval(values: np.ndarray, confidence: float = CONFIDENCE) -> Estimate:
    """Student t interval over the last axis, `[..., R]` -> `[...]`; NaN replicates are left out.

    Raises:
      AnalysisError: if `confidence` is not strictly between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise AnalysisError(f"confidence = {confidence!r} must lie strictly between 0 and 1")
    values = np.asarray(values, np.float64)
    known = ~np.isnan(values)
    n = known.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=-1) / n
        deviation = np.where(known, values - mean[..., None], 0.0)
        sd = np.sqrt((deviation**2).sum(axis=-1) / np.where(n > 1, n - 1, np.nan))
        half = stats.t.ppf(0.5 + confidence / 2, np.where(n > 1, n - 1, np.nan)) * sd / np.sqrt(n)
    return Estimate(mean, sd, mean - half, mean + half, n)


def unit_of_replication(data: xr.DataArray | xr.Dataset) -> str:
    """`'trace'` if there are several traces, else `'seed'`."""
    return TRACE if data.sizes.get(TRACE, 1) > 1 else SEED


def replicates(data: xr.DataArray) -> xr.DataArray:
    """`data` with the axes trace and seed reduced to one last axis `replicate` of independent values, f64.

    Several traces: one value per trace, its mean over seeds (NaN seeds left out). One trace: one per seed.

    Raises:
      AnalysisError: if there is neither a trace nor a seed axis.
    """
    if TRACE not in data.dims and SEED not in data.dims:
        raise AnalysisError(f"{data.name}: no axis {TRACE!r} or {SEED!r} to average over, only {tuple(data.dims)}")
    data = data.astype(np.float64)
    if unit_of_replication(data) == TRACE:
        if SEED in data.dims:
            data = data.mean(SEED, skipna=True)
        return data.rename({TRACE: "replicate"}).transpose(..., "replicate")
    if TRACE in data.dims:
        data = data.isel({TRACE: 0}, drop=True)
    if SEED not in data.dims:
        data = data.expand_dims(SEED)
    return data.rename({SEED: "replicate"}).transpose(..., "replicate")


def estimate(data: xr.DataArray, confidence: float = CONFIDENCE) -> xr.Dataset:
    """Mean with interval per cell.

    Args:
      data: `[trace, policy, capacity, seed, ...]` or any part of these axes.
      confidence: coverage of the interval.

    Returns:
      A dataset with `mean`, `sd`, `low`, `high`, `n` over the axes that are left, and attributes `unit`
      ('trace' or 'seed'), `confidence`, and the variable's `units` and `long_name`.

    Raises:
      AnalysisError: see `replicates` and `t_interval`.
    """
    values = replicates(data)
    result = t_interval(values.values, confidence)
    frame = values.isel(replicate=0, drop=True)
    out = xr.Dataset({name: (frame.dims, part) for name, part in result._asdict().items()}, frame.coords)
    out.attrs = {
        "unit": unit_of_replication(data),
        "confidence": confidence,
        "units": data.attrs.get("units", ""),
        "long_name": data.attrs.get("long_name", str(data.name)),
    }
    return out
