"""Paired comparison with a baseline policy.

Policies run on the same traces with the same seeds, so the difference is taken replicate by replicate: what
makes one workload harder than another cancels. p values are two-sided, of the paired Student t test, and not
corrected for the number of comparisons.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import stats

from solarjax.analysis.summary import CONFIDENCE, AnalysisError, estimate, replicates

BASELINE = "fifo"


def check_baseline(data: xr.DataArray | xr.Dataset, baseline: str) -> None:
    """Raises `AnalysisError` naming the policies there are if `baseline` is not one of them."""
    known = [str(name) for name in data["policy"].values]
    if baseline not in known:
        raise AnalysisError(f"baseline policy {baseline!r} is not in these results (they hold {', '.join(known)})")


def difference(data: xr.DataArray, baseline: str = BASELINE) -> xr.DataArray:
    """`data` minus the baseline policy's value in the same cell and replicate, f64; same axes."""
    check_baseline(data, baseline)
    data = data.astype(np.float64)
    at = [str(name) for name in data["policy"].values].index(baseline)
    return (data - data.isel(policy=at, drop=True)).transpose(*data.dims)


def paired(data: xr.DataArray, baseline: str = BASELINE, confidence: float = CONFIDENCE) -> xr.Dataset:
    """Paired difference of each policy to the baseline.

    Args:
      data: `[trace, policy, capacity, seed, ...]`.
      baseline: label on the policy axis.
      confidence: coverage of the interval.

    Returns:
      `estimate` of the difference (`mean`, `sd`, `low`, `high`, `n`) and
      `p_value`: two-sided paired t test; 1 where every difference is 0, NaN where all are the same other
        number (repeating a deterministic run is no evidence) or there is one replicate.
      `effect`: Cohen's d_z, mean / sd of the differences; NaN where sd is 0 or undefined.
      `better`: share of the replicates above the baseline, a tie counting half.

    Raises:
      AnalysisError: unknown baseline, or no replicates.
    """
    gap = difference(data, baseline)
    gap.attrs = dict(data.attrs)
    out = estimate(gap, confidence)
    values = replicates(gap).values
    mean, sd, n = (out[name].values for name in ("mean", "sd", "n"))
    # Rounding of a mean over seeds leaves differences in the last bits: that is no spread either.
    tiny = 1e-12 * (1 + np.abs(mean))
    flat = ~(sd > tiny)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(flat, np.nan, mean / (sd / np.sqrt(n)))
        p = 2 * stats.t.sf(np.abs(t), n - 1)
        above = ((values > 0).sum(axis=-1) + 0.5 * (values == 0).sum(axis=-1)) / n
    same = flat & (np.abs(mean) <= tiny) & (n > 1)
    dims = out["mean"].dims
    extra = {
        "p_value": np.where(same, 1.0, p),
        "effect": np.where(flat, np.nan, mean / np.where(flat, 1.0, sd)),
        "better": above,
    }
    return out.assign({name: (dims, part) for name, part in extra.items()}).assign_attrs(baseline=baseline)
