"""Parity with the authors' release, step by step: deterministic policies on its short families.

Compiled quickly; the stream and the pools are compared by the programs that users get (test_release_stream).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from solarjax.core.sweep import sweep
from solarjax.policies.registry import case
from solarjax.traces import format as trace_format
from solarjax.workloads.sources import RecordedSource
from tests.golden.release import SHORT, compare_step_by_step

pytestmark = pytest.mark.golden


def test_deterministic_policies_step_by_step(reference: dict, shared_data: Path) -> None:
    compare_step_by_step(SHORT, reference, shared_data / "solar_synthetic")


def test_a_wrong_rule_would_be_seen(reference: dict, shared_data: Path) -> None:
    """The comparison has teeth: LRU's trace is not FIFO's, and a flat prior moves SOLAR-E's mean."""
    name = "working_set-seed42-K10"
    trace = trace_format.load(shared_data / "solar_synthetic" / "working_set-seed42.npz")
    result = sweep(RecordedSource([trace]), [case("lru"), case("fifo")], [10], 1, per_step=True)
    lru = result.hits.sel(policy="lru").squeeze().values
    fifo = np.array([int(c) for c in reference[name]["fifo"]["hits"]])
    assert (lru != fifo).mean() > 0.005
