"""One small sweep for the tests of this folder: three traces of different lengths, a grid, per-step output."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from solarjax.core.sweep import sweep
from solarjax.core.tasks import SweepPlan, plan_sweep
from solarjax.policies.registry import case
from tests.support.sweeps import assert_part_of, recorded

SEEDS = [3, 1, 4, 15, 9, 2, 6]
OPTIONS: dict[str, Any] = {
    "grid": {"p": [0.25, 1.0]}, "lambdas": [0, 2.5], "feedback": "liked", "per_step": True, "memory_bytes": 30_000,
}  # fmt: skip


def arguments() -> tuple[Any, ...]:
    """Source, policies, capacities, seeds: 3 x 2 x 2 x 2 x 7 cells. `unlimited` has neither a capacity nor the grid."""
    return recorded(), [case("bernoulli"), case("unlimited")], [3, 5], SEEDS


def small_plan(**changed: Any) -> SweepPlan:
    """Its plan, in blocks of two pairs."""
    plan = plan_sweep(*arguments(), **{**OPTIONS, **changed})
    assert plan.block_pairs == 2
    return plan


def expected() -> xr.Dataset:
    """What one process returns, in memory."""
    return sweep(*arguments(), **OPTIONS)


def assert_same(got: xr.Dataset, whole: xr.Dataset) -> None:
    """The same bits, labels and attributes."""
    assert set(got.dims) == set(whole.dims) and got.attrs == whole.attrs
    for name, labels in whole.coords.items():
        assert got[name].dtype == labels.dtype
        np.testing.assert_array_equal(got[name], labels)
    for name, values in whole.data_vars.items():
        assert got[name].attrs == values.attrs
    assert_part_of(got, whole)
