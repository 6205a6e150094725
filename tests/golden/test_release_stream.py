"""Parity with the authors' release step by step, compiled as for users: its long stream and its frozen pools."""

from __future__ import annotations

from pathlib import Path

import pytest

from solarjax.core.sweep import sweep
from solarjax.policies.registry import case
from solarjax.traces import format as trace_format
from solarjax.workloads.sources import RecordedSource
from tests.golden.release import STREAM, cases_of, compare_step_by_step

pytestmark = [pytest.mark.golden, pytest.mark.usefixtures("optimised")]


def test_deterministic_policies_step_by_step(reference: dict, shared_data: Path) -> None:
    compare_step_by_step(STREAM, reference, shared_data / "solar_synthetic")


def test_frozen_pools(reference: dict, shared_data: Path) -> None:
    """The noise probe: a pool prefilled through `admit`, then queries only. One prefill file per capacity."""
    folder = shared_data / "solar_synthetic"
    names = cases_of(reference, ("retrieval_noise_static",))
    assert len(names) == 18
    for name in names:
        _, capacity, seed = name.split("-")
        prefill = folder / f"{name}-prefill.npy"
        trace = trace_format.load(folder / f"retrieval_noise_static-{seed}.npz", prefill=prefill)
        result = sweep(RecordedSource([trace]), [case("fifo")], [int(capacity[1:])], 1, per_step=True).squeeze()
        want = reference[name]["fifo"]
        hits = result.hits.values[result.scored.values.astype(bool)]
        assert "".join(map(str, hits)) == want["hits"], name
        assert int(result.admissions) == want["admissions"]
