"""Compile time of one policy, measured in a process that has compiled nothing and reads no compilation cache."""

from __future__ import annotations

from typing import Any

from solarjax.bench import engine
from solarjax.bench.workload import draw

GOAL_SECONDS = 5.0


def compiling(policy: str, capacity: int, lanes: int = 256, steps: int = 500) -> dict[str, Any]:
    """One row: `trace_s` in Python, `compile_s` in XLA, `total_s`. Call it first thing in a fresh process."""
    block = engine.on_device(draw(1, steps))
    made = engine.program(block, policy, capacity, lanes)
    return {
        "policy": policy,
        "capacity": capacity,
        "lanes": lanes,
        "steps": steps,
        "trace_s": made.trace_s,
        "compile_s": made.compile_s,
        "total_s": made.trace_s + made.compile_s,
    }
