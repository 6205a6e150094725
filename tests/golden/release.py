"""What the tests of parity with the authors' release share: the cases, and how both sides are run and compared.

The reference holds what the release (numpy, float32) computes on its own synthetic data. The engine is called by its
public path: load, source, sweep.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from solarjax.core.sweep import sweep
from solarjax.policies.registry import case
from solarjax.traces import format as trace_format
from solarjax.workloads.sources import RecordedSource

DETERMINISTIC = ("fifo", "lru", "lfu", "arc", "solar_a")
# One run of these families is so short that they go into one source and share what is compiled.
SHORT = ("cycling", "topic_drift", "working_set")
STREAM = ("retrieval_noise_stream",)


def split_case(name: str) -> tuple[str, int]:
    """`cycling-m10-seed42-K10` -> (`cycling-m10-seed42`, 10)."""
    trace, capacity = name.rsplit("-K", 1)
    return trace, int(capacity)


@cache
def run_cases(policies: tuple[str, ...], seeds: int, folder: Path, cases: tuple[str, ...]) -> xr.Dataset:
    """The traces of all cases in one source, at every capacity that a case has."""
    names = sorted({split_case(c)[0] for c in cases})
    capacities = sorted({split_case(c)[1] for c in cases})
    traces = [trace_format.load(folder / f"{name}.npz") for name in names]
    return sweep(RecordedSource(traces), [case(p) for p in policies], capacities, seeds, per_step=seeds == 1)


def cases_of(reference: dict, families: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the reference's cases of these families."""
    return tuple(name for name in reference if name.startswith(families))


def compare_step_by_step(families: tuple[str, ...], reference: dict, folder: Path) -> None:
    """Deterministic policies decide as the release does, but for 0.5 % of the steps (similarities round)."""
    cases = cases_of(reference, families)
    policies = tuple(p for p in DETERMINISTIC if p in reference[cases[0]])
    assert all((p in reference[name]) == (p in policies) for name in cases for p in DETERMINISTIC)
    result = run_cases(policies, 1, folder, cases)
    steps = different = 0
    for name in cases:
        trace, capacity = split_case(name)
        for policy in policies:
            want = reference[name][policy]
            got = result.sel(trace=trace, capacity=capacity, policy=policy).isel(seed=0)
            scored = result.scored.sel(trace=trace).isel(seed=0).values.astype(bool)
            hits = got.hits.values[scored].astype(bool)
            expected = np.array([c == "1" for c in want["hits"]])
            assert hits.shape == expected.shape
            wrong = int((hits != expected).sum())
            steps, different = steps + len(hits), different + wrong
            if wrong == 0:
                changes = (int(got.admissions), int(got.evictions))
                assert changes == (want["admissions"], want["evictions"]), (name, policy)
                assert int(got.final_size) == want["final_size"]
                assert float(got.store_rate) == pytest.approx(want["store_rate"], abs=1e-12)
                assert float(got.precision_at_k) == pytest.approx(want["precision_at_3"], abs=2e-6)
                assert float(got.learning_slope) == pytest.approx(want["learning_slope"], abs=2e-9)
    assert steps > 1000
    assert different <= 0.005 * steps, f"{different} of {steps} steps differ"
