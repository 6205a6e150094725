"""Time of one decision of a live replay, warm: the question's look-up, then policy and write.

Nothing is known of relevance here, so the quality of a retrieval is its best cosine, clipped to [0, 1].
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr

from solarjax.policies.registry import parse_cases
from solarjax.replay.stepper import Decided, Stepper, in_this_thread, lane_key

WARM = 50
"""Decisions on the full cache before the clock starts."""


def measure(config: Mapping[str, Any]) -> xr.Dataset:
    """Milliseconds of each decision, the copy of query and item to the device included.

    Args:
      config: `policies` as `parse_cases` reads them, `capacity`, `dim`, `k`, `decisions`, `topics`, `root_seed`.

    Returns:
      `latency_ms [policy, decision]`, `written [policy, decision]`, and `compile_s [policy]`.
    """
    in_this_thread()  # as `solarjax replay` does
    cases, _ = parse_cases(config["policies"])
    capacity, dim, decisions = int(config["capacity"]), int(config["dim"]), int(config["decisions"])
    rng = np.random.default_rng(int(config["root_seed"]))
    total = capacity + WARM + decisions
    centres = rng.normal(size=(int(config["topics"]), dim))
    items, queries = (_unit(centres[rng.integers(0, len(centres), total)], rng) for _ in range(2))
    key = lane_key(int(config["root_seed"]), "latency", 0)
    milliseconds, written, compiling = [], [], []
    for case in cases:
        start = time.perf_counter()
        stepper = Stepper(case, capacity, total, dim, key, k=int(config["k"]))
        compiling.append(time.perf_counter() - start)
        done = decide(stepper, queries, items)[-decisions:]
        milliseconds.append([1e3 * one.seconds for one in done])
        written.append([one.admitted for one in done])
    return xr.Dataset(
        {
            "latency_ms": (("policy", "decision"), np.asarray(milliseconds)),
            "written": (("policy", "decision"), np.asarray(written)),
            "compile_s": ("policy", np.asarray(compiling)),
        },
        {"policy": [case.label for case in cases], "decision": np.arange(decisions)},
        {"device": str(jax.devices()[0].device_kind)},
    )


def decide(stepper: Stepper, queries: np.ndarray, items: np.ndarray) -> list[Decided]:
    """One decision for each row of `queries [T, D] f32` and `items [T, D] f32`, in order."""
    out = []
    for query, item in zip(queries, items, strict=True):
        found = stepper.look(query)
        out.append(stepper.decide(item, float(np.clip(found.cosine[0], 0, 1))))
    return out


def _unit(centres: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    points = centres + 0.5 * rng.normal(size=centres.shape)
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
