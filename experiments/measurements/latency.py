"""Time of one decision on the online path, warm: from the arrays of a request to the arrays of a decision."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr

from experiments.measurements.online import online
from solarjax.policies.registry import parse_cases

WARM = 50
"""Decisions on the full cache before the clock starts."""


def measure(config: Mapping[str, Any]) -> xr.Dataset:
    """Milliseconds of each decision, the copy of query and item to the device included.

    Args:
      config: `policies` as `parse_cases` reads them, `capacity`, `dim`, `k`, `decisions`, `topics`, `root_seed`.

    Returns:
      `latency_ms [policy, decision]`, `written [policy, decision]`, and `compile_s [policy]`.
    """
    cases, _ = parse_cases(config["policies"])
    capacity, dim, decisions = int(config["capacity"]), int(config["dim"]), int(config["decisions"])
    rng = np.random.default_rng(int(config["root_seed"]))
    total = capacity + WARM + decisions
    centres = rng.normal(size=(int(config["topics"]), dim))
    items, queries = (_unit(centres[rng.integers(0, len(centres), total)], rng) for _ in range(2))
    key = jax.random.key_data(jax.random.key(int(config["root_seed"])))
    milliseconds, written, compiling = [], [], []
    for case in cases:
        cache, step = online(case, capacity, dim, int(config["k"]), key)
        start = time.perf_counter()
        run = jax.jit(step, donate_argnums=0).lower(cache, queries[0], items[0], np.int32(0)).compile()
        compiling.append(time.perf_counter() - start)
        cache = jax.tree.map(lambda x: x.copy(), cache)
        times, stored = [], []
        for t in range(total):
            start = time.perf_counter()
            cache, decided = jax.block_until_ready(run(cache, queries[t], items[t], np.int32(t)))
            times.append(1e3 * (time.perf_counter() - start))
            stored.append(bool(decided.written))
        milliseconds.append(times[-decisions:])
        written.append(stored[-decisions:])
    return xr.Dataset(
        {
            "latency_ms": (("policy", "decision"), np.asarray(milliseconds)),
            "written": (("policy", "decision"), np.asarray(written)),
            "compile_s": ("policy", np.asarray(compiling)),
        },
        {"policy": [case.label for case in cases], "decision": np.arange(decisions)},
        {"device": str(jax.devices()[0].device_kind)},
    )


def _unit(centres: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    points = centres + 0.5 * rng.normal(size=centres.shape)
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
