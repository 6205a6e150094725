"""Parity with the authors' release step by step, compiled as for users: its long stream and its frozen pools."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from solarjax.core.sweep import sweep
from solarjax.policies.registry import case
from solarjax.traces import format as trace_format
from solarjax.workloads.sources import RecordedSource
from tests.golden.release import STREAM, cases_of, compare_step_by_step

pytestmark = [pytest.mark.golden, pytest.mark.usefixtures("compiled_as_for_users")]


def test_deterministic_policies_step_by_step(reference: dict, shared_data: Path) -> None:
    compare_step_by_step(STREAM, reference, shared_data / "solar_synthetic")


@pytest.mark.parametrize("capacities", [(10, 20), (50,), (100, 200), (500,), (1000, 2000), (5000,)])
def test_frozen_pools(capacities: tuple[int, ...], reference: dict, shared_data: Path) -> None:
    """The noise probe: a pool prefilled through `admit`, then queries only. One prefill file per capacity.

    Pools of similar sizes run together, each at both capacities, and are compared at their own.
    """
    folder = shared_data / "solar_synthetic"
    names = [name for name in cases_of(reference, ("retrieval_noise_static",)) if capacity_of(name) in capacities]
    assert len(names) == 2 * len(capacities)
    traces = []
    for name in names:
        prefill = folder / f"{name}-prefill.npy"
        trace = trace_format.load(folder / f"retrieval_noise_static-{name.split('-')[-1]}.npz", prefill=prefill)
        traces.append(dataclasses.replace(trace, name=name))
    results = sweep(RecordedSource(traces), [case("fifo")], capacities, 1, per_step=True).squeeze(["policy", "seed"])
    for name in names:
        result = results.sel(trace=name, capacity=capacity_of(name)).squeeze()
        want = reference[name]["fifo"]
        hits = result.hits.values[result.scored.values.astype(bool)]
        assert "".join(map(str, hits)) == want["hits"], name
        assert int(result.admissions) == want["admissions"]


def capacity_of(name: str) -> int:
    """`retrieval_noise_static-K10-seed42` -> 10."""
    return int(name.split("-")[1].removeprefix("K"))
