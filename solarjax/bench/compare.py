"""The engine against its compiled peer, paired in one run on one core."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from solarjax.bench import engine, floor, machine, paired
from solarjax.bench.errors import BenchError
from solarjax.bench.peer import loop
from solarjax.bench.workload import Arrays, draw
from solarjax.policies.registry import case

AUTHORS_STEPS_PER_SECOND = 0.018e6
"""The authors' numpy release, best case measured before this project began (all policies mixed, K = 10)."""
SAME, SAME_LAW = 1e-3, 0.02
"""Hit rates of engine and peer may differ by this: decisions of one rule in float32 and float64, and two samples of
one law. More than that, and the two did not do the same work."""

Progress = Callable[[str], None]


def compare(
    policies: Sequence[str],
    capacities: Sequence[int],
    *,
    lanes: int = 1024,
    steps: int = 500,
    repeats: int = 7,
    bounds: bool = True,
    say: Progress = lambda text: None,
    speed: machine.Speed | None = None,
) -> list[dict[str, Any]]:
    """One row per policy and capacity.

    Args:
      policies: names of the registry; those without a peer, or all without numba, are measured alone.
      capacities: K values.
      lanes: B, a workload each.
      steps: T.
      repeats: paired runs.
      bounds: also state the floor.
      say: told what is being measured.
      speed: of this machine (`machine.measure`), for the floor; measured here if absent.

    Returns:
      Rows with `engine_steps_per_s` (median), `engine_spread` (q3 - q1 over the median), `trace_s`, `compile_s`,
      `hit_rate_engine`; `peer_steps_per_s`, `peer_compile_s`, `ratio` with `ratio_low, ratio_q1, ratio_q3,
      ratio_high` (of the pairs) and `hit_rate_peer`, None without a peer; and with `bounds` the floor (`floor.row`).

    Raises:
      BenchError: a size that is not allowed, or engine and peer did different work.
    """
    if repeats < 1:
        raise BenchError(f"{repeats} repeats: at least 1 is needed")
    chosen = [case(name).name for name in policies]
    rows = []
    arrays = draw(lanes, steps)
    block = engine.on_device(arrays)
    rate = (speed or machine.measure()) if bounds else None
    for policy in chosen:
        other = loop.peer(policy) if policy in loop.PEERS and loop.available() else None
        for number, capacity in enumerate(capacities):
            say(f"{policy} K={capacity}")
            compiled = engine.program(block, policy, capacity)
            peer_compile = None
            if other is not None and number == 0:
                start = time.perf_counter()
                other(arrays.some(1), capacity)
                peer_compile = time.perf_counter() - start
            rows.append(_row(policy, capacity, arrays, compiled, other, peer_compile, repeats, rate))
    return rows


def _row(
    policy: str,
    capacity: int,
    arrays: Arrays,
    compiled: engine.Program,
    other: Callable[[Arrays, int], np.ndarray] | None,
    peer_compile: float | None,
    repeats: int,
    speed: machine.Speed | None,
) -> dict[str, Any]:
    work = arrays.query.size
    row: dict[str, Any] = {"policy": policy, "capacity": capacity, "lanes": len(arrays.query), "steps": work}
    row["steps"] //= len(arrays.query)
    beside: dict[str, Any] = dict.fromkeys(
        ("peer_steps_per_s", "ratio", "ratio_low", "ratio_q1", "ratio_q3", "ratio_high", "hit_rate_peer")
    )
    if other is None:
        seconds, ours = paired.repeat(compiled.run, repeats)
    else:
        pair = paired.alternate(compiled.run, lambda: other(arrays, capacity), repeats)
        seconds, (ours, sums) = pair.first, pair.results
        ratio = paired.spread(pair.second / pair.first)
        beside = {
            "peer_steps_per_s": work / float(np.median(pair.second)),
            "ratio": ratio.median,
            "ratio_low": ratio.low,
            "ratio_q1": ratio.q1,
            "ratio_q3": ratio.q3,
            "ratio_high": ratio.high,
            "hit_rate_peer": float(loop.counters(sums)["hits"].sum() / work),
        }
    counters = {name: np.asarray(ours[name]).sum() / work for name in ("hits", "admissions", "evictions")}
    middle = paired.spread(seconds)
    row |= {
        "engine_steps_per_s": work / middle.median,
        "engine_spread": (middle.q3 - middle.q1) / middle.median,
        "times_authors": work / middle.median / AUTHORS_STEPS_PER_SECOND,
        "repeats": repeats,
        "trace_s": compiled.trace_s,
        "compile_s": compiled.compile_s,
        "peer_compile_s": peer_compile,
        "hit_rate_engine": float(counters["hits"]),
        "admissions_per_step": float(counters["admissions"]),
        "evictions_per_step": float(counters["evictions"]),
    }
    row |= beside
    if other is not None:
        check_same_work(policy, capacity, row["hit_rate_engine"], row["hit_rate_peer"])
    if speed is None:
        return row
    return row | floor.row(policy, capacity, float(counters["admissions"]), float(counters["evictions"]), row, speed)


def check_same_work(policy: str, capacity: int, engine_rate: float, peer_rate: float) -> None:
    """Raises BenchError if the hit rates of engine and peer differ by more than rounding, or sampling, explains."""
    allowed = SAME_LAW if case(policy).spec.stochastic else SAME
    if not abs(engine_rate - peer_rate) <= allowed:
        raise BenchError(
            f"engine and peer disagree on {policy} at K = {capacity}: hit rate {engine_rate:.4f} against "
            f"{peer_rate:.4f}, at most {allowed:g} apart is allowed; the times would compare different work"
        )
