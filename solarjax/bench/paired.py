"""Paired timing: two things run in turn, so that a machine whose speed drifts slows both."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Spread(NamedTuple):
    """Median of repeats and how they lie around it. low, high: the extremes.  q1, q3: the quartiles."""

    median: float
    low: float
    high: float
    q1: float
    q3: float
    repeats: int


class Pair(NamedTuple):
    """Seconds of both, `[R]` each, and what each returned last."""

    first: np.ndarray
    second: np.ndarray
    results: tuple[Any, Any]


def spread(values: np.ndarray) -> Spread:
    """Summary of `values [R]`, R >= 1."""
    low, q1, median, q3, high = np.quantile(np.asarray(values, float), (0, 0.25, 0.5, 0.75, 1))
    return Spread(float(median), float(low), float(high), float(q1), float(q3), len(values))


def alternate(first: Callable[[], Any], second: Callable[[], Any], repeats: int) -> Pair:
    """Times `first, second, first, second, ...`; each once before, untimed."""
    first(), second()
    seconds = np.empty((repeats, 2))
    results: tuple[Any, Any] = (None, None)
    for number in range(repeats):
        start = time.perf_counter()
        one = first()
        middle = time.perf_counter()
        results = (one, second())
        seconds[number] = middle - start, time.perf_counter() - middle
    return Pair(seconds[:, 0], seconds[:, 1], results)


def repeat(run: Callable[[], Any], repeats: int) -> tuple[np.ndarray, Any]:
    """(seconds `[R]`, the last result) of `run`, once before untimed."""
    run()
    seconds, result = np.empty(repeats), None
    for number in range(repeats):
        start = time.perf_counter()
        result = run()
        seconds[number] = time.perf_counter() - start
    return seconds, result


def one_core() -> int | None:
    """Binds this process to one core; to be called before a thread pool exists.

    Returns:
      The core's number, or None where the system cannot bind (then nothing is done).
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core
