"""Peak memory of one sweep, measured in a process of its own."""

from __future__ import annotations

import resource
import sys
from typing import Any

BUDGET = 256 * 2**20
"""Bytes that the sweep may use for a block."""


def memory(seeds: int) -> dict[str, Any]:
    """One row: `peak_mib`, the peak resident memory of the process after a sweep over that many seeds."""
    from solarjax.core.sweep import sweep
    from solarjax.policies.registry import case
    from solarjax.workloads.registry import make
    from solarjax.workloads.sources import GeneratedSource

    source = GeneratedSource(make("cycling", n_topics=20))
    sweep(source, [case("fifo"), case("solar")], [10], seeds, memory_bytes=BUDGET)
    # Kibibytes on Linux, bytes on macOS.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return {"seeds": seeds, "policies": 2, "steps": source.num_steps, "budget_mib": BUDGET / 2**20, "peak_mib": peak}
