"""Capacity curves as tidy tables: one row per policy, capacity and grid point, for CSV, JSON or a plot."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr

from solarjax.analysis.paired import BASELINE, check_baseline, paired
from solarjax.analysis.summary import CONFIDENCE, AnalysisError, estimate

Row = dict[str, Any]


def plain(value: Any) -> Any:
    """A numpy scalar as the Python value it holds; NaN as None, since a missing number is not a number."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value


def tidy(table: xr.Dataset) -> list[Row]:
    """Every cell of `table` as a row: its coordinates, then its variables (None where NaN).

    Rows follow the order of the axes as stored. All variables must carry the same axes.
    """
    dims = [str(d) for d in next(iter(table.data_vars.values())).dims]
    axes = [[plain(v) for v in table[d].values] for d in dims]
    columns = {str(name): table[name].transpose(*dims).values for name in table.data_vars}
    rows = []
    for index in itertools.product(*(range(len(axis)) for axis in axes)):
        row: Row = {d: axis[i] for d, axis, i in zip(dims, axes, index, strict=True)}
        row.update({name: plain(values[index]) for name, values in columns.items()})
        rows.append(row)
    return rows


def capacity_curve(
    data: xr.Dataset, variable: str, baseline: str | None = BASELINE, confidence: float = CONFIDENCE
) -> list[Row]:
    """Rows of `variable` against capacity: mean, sd, low, high, n and, with a baseline, the difference.

    Args:
      data: a result of `sweep`.
      variable: its name.
      baseline: policy to compare with; None leaves `diff`, `diff_low`, `diff_high`, `p_value`, `effect`,
        `better` out.
      confidence: coverage of both intervals.

    Raises:
      AnalysisError: unknown variable or baseline; the message lists what there is.
    """
    if variable not in data.data_vars:
        known = ", ".join(sorted(str(name) for name in data.data_vars))
        raise AnalysisError(f"no variable {variable!r} in these results (they hold {known})")
    table = estimate(data[variable], confidence)
    if baseline is not None:
        gap = paired(data[variable], baseline, confidence)
        names = {"mean": "diff", "low": "diff_low", "high": "diff_high"}
        kept = [*names, "p_value", "effect", "better"]
        table = table.assign({names.get(n, n): gap[n].variable for n in kept})
    return tidy(table)


def headroom(data: xr.Dataset, variable: str, oracles: Iterable[str], baseline: str = BASELINE) -> xr.DataArray | None:
    """Share of the gap between the baseline and the best offline policy that each policy closes.

    `(mean(policy) - mean(baseline)) / (mean(best oracle) - mean(baseline))`, a ratio of means per cell: 0 for
    the baseline, 1 for that oracle. Negative below the baseline, above 1 where a policy beats the (heuristic)
    oracle. NaN where the oracle is not above the baseline. None if no oracle ran.

    Raises:
      AnalysisError: unknown baseline.
    """
    check_baseline(data, baseline)
    labels = [str(name) for name in data["policy"].values]
    there = [labels.index(name) for name in oracles if name in labels]
    if not there:
        return None
    mean = estimate(data[variable])["mean"]
    floor = mean.isel(policy=labels.index(baseline), drop=True)
    gap = mean.isel(policy=there).max("policy") - floor
    return ((mean - floor) / gap.where(gap > 0)).transpose(*mean.dims)
