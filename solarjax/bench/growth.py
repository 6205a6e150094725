"""How the cost grows: measured exponents of the run time in T, K, M (items) and lanes, against the expected ones.

Expected, from the step's structure. A run is T equal steps, so the exponent of T is 1. A step costs
c0 + c1 B (kernels started, lanes), so that of the lanes B lies between 0 and 1 and tends to 1. In K a step costs
c0 + c1 K, plus f c2 K^2 at worst where a victim rule compares residents (f: residents replaced per step): all pairs, or
K for each list of neighbours that has run short. So it lies between 0 and 1, or 0 and 2. A step gathers K numbers from
tables of M columns whatever M is, so that of M is 0; what is measured above 0 is tables outgrowing a cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from solarjax.bench import engine
from solarjax.bench.compare import Progress
from solarjax.bench.errors import BenchError
from solarjax.bench.workload import draw
from solarjax.policies.registry import case

BASE = {"steps": 250, "capacity": 20, "items": 500, "lanes": 256}
AXES: Mapping[str, tuple[int, ...]] = {
    "steps": (125, 250, 500, 1000),
    "capacity": (10, 20, 40, 80),
    "items": (125, 250, 500, 1000),
    "lanes": (64, 128, 256, 512),
}
WORKLOADS = 32


def growth(
    policies: Sequence[str],
    *,
    axes: Mapping[str, Sequence[int]] = AXES,
    base: Mapping[str, int] = BASE,
    workloads: int = WORKLOADS,
    repeats: int = 7,
    say: Progress = lambda text: None,
) -> list[dict[str, Any]]:
    """One row per axis and policy.

    Every round runs all points of an axis in turn, so that drift meets all of them; each round gives one exponent.

    Returns:
      Rows with `axis`, `policy`, `points` (values), `seconds` (medians), `exponent` (mean over rounds) with `low`,
      `high` (95 % t interval over rounds), and `expected_low`, `expected_high`.

    Raises:
      BenchError: fewer than two rounds or points.
    """
    if repeats < 2 or min(len(points) for points in axes.values()) < 2:
        raise BenchError("growth needs at least 2 rounds and 2 points per axis")
    rows = []
    for axis, points in axes.items():
        for policy in policies:
            say(f"{policy} against {axis}")
            runs = [_run(policy, {**base, axis: value}, workloads) for value in points]
            seconds = rounds(runs, repeats)
            slopes = exponents(points, seconds)
            middle, low, high = interval(slopes)
            bottom, top = expected(axis, policy)
            rows.append(
                {
                    "axis": axis,
                    "policy": policy,
                    "points": list(points),
                    "seconds": np.median(seconds, axis=0).tolist(),
                    "repeats": repeats,
                    "exponent": middle,
                    "low": low,
                    "high": high,
                    "expected_low": bottom,
                    "expected_high": top,
                }
            )
    return rows


def expected(axis: str, policy: str) -> tuple[float, float]:
    """Ends of the range in which the exponent should lie; see above."""
    if axis == "capacity":
        return 0.0, 2.0 if case(policy).needs.pairwise else 1.0
    return {"steps": (1.0, 1.0), "items": (0.0, 0.0), "lanes": (0.0, 1.0)}[axis]


def rounds(runs: Sequence[Callable[[], Any]], repeats: int) -> np.ndarray:
    """Seconds `[repeats, len(runs)]`; each run once before, untimed."""
    for run in runs:
        run()
    seconds = np.empty((repeats, len(runs)))
    for number in range(repeats):
        for column, run in enumerate(runs):
            start = time.perf_counter()
            run()
            seconds[number, column] = time.perf_counter() - start
    return seconds


def exponents(points: Sequence[int], seconds: np.ndarray) -> np.ndarray:
    """Least-squares slope of log seconds against log points, for each round: `[R, n] -> [R]`."""
    x = np.log(np.asarray(points, float))
    x = x - x.mean()
    return np.log(seconds) @ x / (x @ x)


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean of `values [R]` and the ends of its 95 % t interval, R >= 2."""
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error
    return mean, mean - half, mean + half


def _run(policy: str, size: Mapping[str, int], workloads: int) -> Callable[[], Any]:
    arrays = draw(min(workloads, size["lanes"]), size["steps"], items=size["items"], queries=size["items"])
    return engine.program(engine.on_device(arrays), policy, size["capacity"], size["lanes"]).run
