"""Steps per second against the number of lanes, on whatever device jax has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from solarjax.bench import engine, floor, machine, paired
from solarjax.bench.compare import Progress
from solarjax.bench.errors import BenchError
from solarjax.bench.workload import Arrays, draw
from solarjax.core.plan import default_budget

WORKLOADS = {"cpu": 64, "gpu": 512}
"""Workloads that the lanes share: on a GPU their tables have to exceed its last cache."""
TEMPORARIES = 4
"""Copies of the carry that a compiled scan may hold at a time; generous, it only decides where to stop."""


def device(
    policies: Sequence[str],
    capacities: Sequence[int],
    lanes: Sequence[int],
    *,
    steps: int = 500,
    repeats: int = 5,
    seconds: float = 60.0,
    budget: int | None = None,
    say: Progress = lambda text: None,
    speed: machine.Speed | None = None,
) -> list[dict[str, Any]]:
    """One row per policy, capacity and number of lanes.

    Lanes share up to `WORKLOADS` tables; each has a key of its own.

    Args:
      policies, capacities, steps, repeats, say, speed: as in `compare.compare`.
      lanes: increasing numbers of lanes.
      seconds: a point that would take longer, judged by the one before, is left out, and so are larger ones.
      budget: device bytes; by default 80 % of the device's limit, or a quarter of the machine's memory.

    Returns:
      Rows with `steps_per_s`, `spread`, `trace_s`, `compile_s`, `streamed_bytes` per step, `bound_steps_per_s` (what
      the measured bandwidth allows) and `of_bound`; or with `left_out`: `memory` or `time`, and the estimate.

    Raises:
      BenchError: lanes that are not positive and increasing.
    """
    if not lanes or min(lanes) < 1 or list(lanes) != sorted(set(lanes)):
        raise BenchError(f"lanes {', '.join(map(str, lanes))}: positive and increasing numbers are needed")
    rate = machine.measure() if speed is None else speed
    limit = device_budget() if budget is None else budget
    kind = "cpu" if jax.default_backend() == "cpu" else "gpu"
    arrays = draw(WORKLOADS[kind], steps)
    rows = []
    blocks: dict[int, engine.Block] = {}
    for policy in policies:
        for capacity in capacities:
            took = 0.0  # seconds per lane of the point before
            for count in lanes:
                row: dict[str, Any] = {"policy": policy, "capacity": capacity, "lanes": count, "steps": steps}
                need = table_bytes(arrays) + count * (TEMPORARIES * engine.carried_bytes(policy, capacity) + 64)
                predicted = took * count * (repeats + 1)
                if need > limit or predicted > seconds:
                    why = "memory" if need > limit else "time"
                    rows.append(row | {"left_out": why, "estimate": need if why == "memory" else predicted})
                    break
                say(f"{policy} K={capacity}, {count} lanes")
                own = min(count, len(arrays.query))
                if own not in blocks:
                    blocks[own] = engine.on_device(arrays.some(own))
                made = engine.program(blocks[own], policy, capacity, count)
                times, out = paired.repeat(made.run, repeats)
                middle = paired.spread(times)
                took = middle.median / count
                replaced = float(np.asarray(out["evictions"]).sum() / (count * steps))
                streamed = floor.streamed_bytes(policy, capacity, replaced)
                reached, bound = count * steps / middle.median, rate.bytes_per_s / streamed
                rows.append(
                    row
                    | {
                        "left_out": None,
                        "repeats": repeats,
                        "steps_per_s": reached,
                        "spread": (middle.q3 - middle.q1) / middle.median,
                        "trace_s": made.trace_s,
                        "compile_s": made.compile_s,
                        "streamed_bytes": streamed,
                        "bytes_per_s": rate.bytes_per_s,
                        "bound_steps_per_s": bound,
                        "of_bound": reached / bound,
                    }
                )
    return rows


def table_bytes(arrays: Arrays) -> int:
    """Bytes of the look-up tables; relevance is packed on the device."""
    return arrays.similarity.nbytes + arrays.near.nbytes + arrays.relevance.nbytes // 8


def device_budget() -> int:
    """Bytes that a measurement may use on jax's default device."""
    try:
        stats = jax.devices()[0].memory_stats()
    except jax.errors.JaxRuntimeError:
        stats = None  # a device that keeps none
    return int(stats["bytes_limit"] * 0.8) if stats and "bytes_limit" in stats else default_budget()
