"""Statistics of the tables: bootstrap intervals of paired differences, corrections, power, comparison with print.

Means, t intervals, t tests and effect sizes come from `solarjax.analysis`; here is what a report over many cells needs
beside them. The unit of replication is the library's: seeds, or traces where there are several (clusters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import xarray as xr
from scipy import optimize, stats

from experiments.types import Published, PublishedKey, Row
from solarjax.analysis import difference, estimate, paired, replicates, unit_of_replication
from solarjax.analysis.curves import plain
from solarjax.report.variants import fold_grid

CONFIDENCE = 0.95
RESAMPLES = 2000
POWER, LEVEL = 0.8, 0.05
PRINTED_SEEDS = 3
"""Seeds behind a published figure (section 6.1.3)."""
REPRODUCED, BORDERLINE, NOT_REPRODUCED = "reproduced", "borderline", "not reproduced"

MEASURES = (
    "hit_rate",
    "recall_at_k",
    "precision_at_k",
    "max_similarity",
    "store_rate",
    "admissions_per_query",
    "admission_rate_full",
    "switches",
    "final_size",
    "learning_slope",
)
"""What a sweep's rows hold by default."""


def bootstrap_mean(values: np.ndarray, confidence: float = CONFIDENCE) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap interval of the mean over the last axis: `[..., R]` -> two `[...]`.

    The same resamples serve every cell. NaN where a replicate is NaN or there is one only. The resampling is seeded, so
    equal input gives equal output. With ten clusters it is a little narrow (by about 5 %, sqrt((n - 1) / n));
    rows carry Student's interval of the mean as well.
    """
    values = np.asarray(values, np.float64)
    low, high = np.full(values.shape[:-1], np.nan), np.full(values.shape[:-1], np.nan)
    known = np.isfinite(values).all(axis=-1)
    if values.shape[-1] >= 2 and known.any():
        found = stats.bootstrap(
            (values[known],), np.mean, axis=-1, n_resamples=RESAMPLES, batch=50, vectorized=True,
            confidence_level=confidence, method="percentile", rng=np.random.default_rng(0),
        ).confidence_interval  # fmt: skip
        low[known], high[known] = found.low, found.high
    return low, high


@cache
def detectable_effect(n: int, power: float = POWER, level: float = LEVEL) -> float:
    """Standardised difference d_z that a two-sided paired t test over `n` replicates finds with probability `power`.

    Solves the noncentral t law; for n = 10 it is about 1.
    """
    if n < 2:
        return float("nan")
    critical = stats.t.ppf(1 - level / 2, n - 1)

    def miss(d: float) -> float:
        # The other tail is below 1e-4 of the power wherever this is near the solution, and scipy returns NaN for it.
        return float(stats.nct.sf(critical, n - 1, d * np.sqrt(n))) - power

    # Twice the critical value and some is beyond any solution; far beyond it the noncentral law loses its digits.
    return float(optimize.brentq(miss, 1e-6, (2 * critical + 5) / np.sqrt(n)))


def sweep_rows(
    data: xr.Dataset,
    *,
    table: str,
    entry: str,
    group: str = "",
    x_name: str = "K",
    x: Callable[[int], float] | None = None,
    measures: Sequence[str] = MEASURES,
    baseline: str | None = "fifo",
) -> list[Row]:
    """The rows of a sweep: one per policy, capacity and measure (those that it has).

    Args:
      data: result of `solarjax.core.sweep.sweep`; grid points become policies of their own.
      table, entry, group, x_name: see `Row`.
      x: capacity -> x, the capacity itself by default.
      measures: variables without further axes.
      baseline: policy to subtract, None for no differences.

    Raises:
      AnalysisError: the baseline did not run.
    """
    data = fold_grid(data)
    return [
        row
        for name in measures
        if name in data
        for row in array_rows(data[name], name, table, entry, group, x_name, x or float, baseline)
    ]


def array_rows(
    values: xr.DataArray,
    measure: str,
    table: str,
    entry: str,
    group: str = "",
    x_name: str = "K",
    x: Callable[[int], float] = float,
    baseline: str | None = "fifo",
) -> list[Row]:
    """As `sweep_rows` for one variable `[trace, policy, capacity, seed]` (any of trace and seed may be missing)."""
    own = _cells(estimate(values))
    gap = bounds = None
    if baseline is not None:
        gap = _cells(paired(values, baseline))
        bounds = bootstrap_mean(replicates(difference(values, baseline)).transpose("policy", "capacity", ...).values)
    unit = unit_of_replication(values)
    rows = []
    for i, policy in enumerate(map(str, values["policy"].values)):
        for j, capacity in enumerate(map(int, values["capacity"].values)):
            at = {n: plain(column[i, j]) for n, column in own.items()}
            extra: dict[str, Any] = {}
            if gap is not None and bounds is not None and policy != baseline:
                that = {n: plain(column[i, j]) for n, column in gap.items()}
                reach = detectable_effect(int(that["n"]))
                extra = {
                    "baseline": baseline,
                    "diff": that["mean"],
                    "diff_low": plain(bounds[0][i, j]),
                    "diff_high": plain(bounds[1][i, j]),
                    "p_value": that["p_value"],
                    "effect": that["effect"],
                    "better": that["better"],
                    "detectable": None if that["sd"] is None else plain(np.float64(reach * that["sd"])),
                }
            rows.append(
                Row(
                    table=table, policy=policy, measure=measure, mean=at["mean"], group=group, x_name=x_name,
                    x=x(capacity), capacity=capacity, sd=at["sd"], low=at["low"], high=at["high"], n=int(at["n"]),
                    unit=unit, entry=entry, **extra,
                )
            )  # fmt: skip
    return rows


def _cells(frame: xr.Dataset) -> dict[str, np.ndarray]:
    """The columns of a dataset over policy and capacity as `[policy, capacity]` arrays: a lookup per cell is cheap."""
    return {str(name): column.transpose("policy", "capacity").values for name, column in frame.data_vars.items()}


def sample_row(samples: np.ndarray, *, unit: str = "seed", contrast: bool = False, **fields: Any) -> Row:
    """One row from independent replicates `[R]`.

    contrast: the samples are differences: `diff` and its bootstrap interval and p are filled in as well.
    fields: the rest of `Row`.
    """
    samples = np.asarray(samples, np.float64)
    samples = samples[~np.isnan(samples)]
    frame = xr.DataArray(samples[None], dims=("policy", "seed"), coords={"policy": ["x"]}, name="x")
    own = {str(n): plain(v.values[0]) for n, v in estimate(frame).data_vars.items()}
    extra: dict[str, Any] = {}
    if contrast:
        low, high = bootstrap_mean(samples)
        sd = own["sd"]
        spread = sd is not None and sd > 1e-12
        p = stats.ttest_1samp(samples, 0.0).pvalue if spread else (1.0 if np.all(samples == 0) else np.nan)
        extra = {
            "diff": own["mean"], "diff_low": plain(low[()]), "diff_high": plain(high[()]),
            "p_value": plain(np.float64(p)),
            "effect": own["mean"] / sd if spread else None,
            "better": float(np.mean(samples > 0) + 0.5 * np.mean(samples == 0)),
            "detectable": detectable_effect(len(samples)) * sd if spread else None,
        }  # fmt: skip
    return Row(
        mean=own["mean"], sd=own["sd"], low=own["low"], high=own["high"], n=int(own["n"]), unit=unit, **extra, **fields
    )


def correct(rows: Iterable[Row]) -> list[Row]:
    """Fills in `p_adjusted`: Benjamini-Hochberg over the defined p values of each (table, measure)."""
    rows = list(rows)
    families: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(rows):
        if row.p_value is not None:
            families.setdefault((row.table, row.measure), []).append(i)
    for members in families.values():
        adjusted = stats.false_discovery_control([rows[i].p_value for i in members])
        for i, p in zip(members, adjusted, strict=True):
            rows[i] = replace(rows[i], p_adjusted=float(p))
    return rows


def compare(rows: Iterable[Row], published: Mapping[PublishedKey, Published]) -> list[Row]:
    """Fills in the published figures and whether ours agree with them.

    A published figure is a mean of 3 seeds. It has a sampling error of its own, which we take from OUR sd: the
    difference has variance sd^2 (1 / n + 1 / 3), and its printed digits hide up to half a unit of the last one.
      reproduced      0 lies in the 95 % interval of the difference, widened by the rounding
      not reproduced  even after Holm's correction over all the figures compared here, p < 0.05
      borderline      between the two: one in twenty cells would land here by chance
    Normal quantiles: n is large, and the sd of three seeds is not what is used.
    """
    rows = list(rows)
    tested: list[tuple[int, float]] = []
    for i, row in enumerate(rows):
        figure = published.get((row.group, row.x, row.policy, row.measure))
        if figure is None or row.mean is None:
            continue
        half = 0.5 * 10.0**-figure.decimals
        error = np.sqrt((row.sd or 0.0) ** 2 * (1 / (row.n or 1) + 1 / PRINTED_SEEDS))
        gap = row.mean - figure.value
        reach = stats.norm.ppf(0.5 + CONFIDENCE / 2) * error + half
        beyond = max(0.0, abs(gap) - half)
        p = 1.0 if beyond <= 1e-12 else float(2 * stats.norm.sf(beyond / error)) if error > 0 else 0.0
        tested.append((i, p))
        rows[i] = replace(
            row, published=figure.value, published_decimals=figure.decimals, gap=gap, gap_low=gap - reach,
            gap_high=gap + reach, gap_p=p,
        )  # fmt: skip
    for rank, (i, p) in enumerate(_holm(tested)):
        del rank
        row = rows[i]
        inside = row.gap_low <= 0 <= row.gap_high  # type: ignore[operator]
        agrees = REPRODUCED if inside else NOT_REPRODUCED if p < LEVEL else BORDERLINE
        rows[i] = replace(row, gap_p=p, agrees=agrees)
    return rows


def _holm(tested: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Holm's step-down adjustment of (index, p) pairs."""
    order = sorted(tested, key=lambda pair: pair[1])
    out, highest = [], 0.0
    for rank, (i, p) in enumerate(order):
        highest = max(highest, min(1.0, p * (len(order) - rank)))
        out.append((i, highest))
    return out
