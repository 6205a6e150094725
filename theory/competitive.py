"""Measured competitive ratios: COST(policy) / OPT over many instances, the worst instance kept.

The ratio is against exact OPT, or against a certified lower bound where exact is out of reach; the result says which.
Against a lower bound a ratio can only come out too large, so it proves "holds" and not "refuted".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from solarjax.policies.registry import PolicyCase
from theory import opt
from theory.engine import Played, play
from theory.errors import TheoryError
from theory.model import Batch
from theory.opt import Kind, Optimum
from theory.statistics import CONFIDENCE, Interval, level

QUANTILES = (0.5, 0.9, 0.99, 0.999)


class Ratios(NamedTuple):
    """policy: label.   opt_kind: `exact` or `lower_bound`.   ratios: `[B] f64`, inf where OPT is 0 and the cost is not.
    cost: `[B] f64`, mean over the policy's keys.   opt: `[B] f64`.   quantiles: name -> interval.
    worst: the instance of the largest ratio.   worst_ratio: that ratio.   keys: policy keys per instance."""

    policy: str
    opt_kind: Kind
    ratios: np.ndarray
    cost: np.ndarray
    opt: np.ndarray
    quantiles: dict[str, Interval]
    worst: Batch
    worst_ratio: float
    keys: int


def ratio(cost: ArrayLike, optimum: ArrayLike) -> np.ndarray:
    """cost / OPT; 1 where both are 0, inf where only OPT is."""
    paid, best = np.asarray(cost, np.float64), np.asarray(optimum, np.float64)
    safe = np.where(best > 0, best, 1.0)
    return np.where(best > 0, paid / safe, np.where(paid > 0, np.inf, 1.0))


def quantile_intervals(values: np.ndarray, seed: int, resamples: int = 400) -> dict[str, Interval]:
    """Quantiles of a sample of instances, each with its percentile-bootstrap interval; the instances are resampled."""
    values = np.sort(values)
    rng = np.random.default_rng(seed)
    # Order statistics of a resample of a sorted sample: only the drawn positions need sorting, and they are integers.
    drawn = np.sort(rng.integers(0, len(values), (resamples, len(values)), dtype=np.int32), axis=1)
    tail = (1 - level(CONFIDENCE)) / 2
    out = {}
    for q in QUANTILES:
        at = min(len(values) - 1, int(np.ceil(q * len(values))) - 1)
        sample = values[drawn[:, at]]
        low, high = np.quantile(sample, [tail, 1 - tail], method="nearest")
        out[f"{q:g}"] = Interval(float(values[at]), float(low), float(high))
    return out


def measure(
    case: PolicyCase,
    batch: Batch,
    *,
    keys: int = 1,
    root_key: int = 0,
    optimum: Optimum | None = None,
    params: dict[str, np.ndarray] | None = None,
    devices: Sequence[Any] | None = None,
) -> Ratios:
    """Ratios of one policy on every instance.

    Args:
      case: any online policy of the registry.
      keys: policy keys per instance; the cost is their mean (an oblivious adversary).
      optimum: OPT if known already (one computation serves many policies); exact where it fits, else a lower bound.
      params: numeric parameters per instance, see `engine.play`.

    Raises:
      TheoryError: an offline policy, or an `optimum` that is a heuristic (an upper bound says nothing here).
    """
    found = opt.best_known(batch) if optimum is None else optimum
    if found.kind is Kind.HEURISTIC:
        raise TheoryError("a ratio needs exact OPT or a certified lower bound; a heuristic is an upper bound")
    played = play(case, batch, keys=keys, root_key=root_key, params=params, devices=devices)
    return from_costs(case.label, batch, played, found, keys, root_key)


def from_costs(label: str, batch: Batch, played: Played, found: Optimum, keys: int, seed: int) -> Ratios:
    """The ratios of a finished run."""
    cost = played.cost.mean(axis=1)
    values = ratio(cost, found.cost)
    worst = int(values.argmax())
    return Ratios(
        policy=label,
        opt_kind=found.kind,
        ratios=values,
        cost=cost,
        opt=found.cost,
        quantiles=quantile_intervals(values, seed),
        worst=batch.take(worst),
        worst_ratio=float(values[worst]),
        keys=keys,
    )
