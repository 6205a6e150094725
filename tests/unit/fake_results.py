"""A result of the shape `sweep` returns, drawn from a known law, for tests of what reads results."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

SCALARS = {
    "hit_rate": "1", "recall_at_k": "1", "precision_at_k": "1", "set_f1": "1", "max_similarity": "1",
    "mean_similarity": "1", "miss_cost": "cost per scored query", "store_rate": "1", "first_half": "1",
    "second_half": "1", "learning_slope": "1 per query", "switches": "steps", "admissions": "items",
    "evictions": "items", "rejections": "items", "offers": "items", "final_size": "items",
    "requests": "queries",
}  # fmt: skip


def fake_results(
    policies: tuple[str, ...] = ("fifo", "lru", "solar"),
    capacities: tuple[int, ...] = (10, 20),
    traces: tuple[str, ...] = ("cycling",),
    seeds: int = 8,
    steps: int = 0,
    grid: dict[str, list[float]] | None = None,
    lambdas: tuple[float, ...] = (1.0,),
    categories: tuple[str, ...] = (),
    root: int = 0,
) -> xr.Dataset:
    """`[trace, policy, capacity, seed, *grid]`; mean hit rate .3 + .1 * policy + .01 * capacity (indices)."""
    rng = np.random.default_rng(root)
    grid = grid or {}
    dims = ("trace", "policy", "capacity", "seed", *grid)
    shape = (len(traces), len(policies), len(capacities), seeds, *(len(v) for v in grid.values()))
    coords: dict[str, Any] = {
        "trace": list(traces), "policy": list(policies), "capacity": list(capacities),
        "seed": np.arange(seeds), **grid,
    }  # fmt: skip
    # One difficulty per (trace, seed), shared by the policies: what pairing is for.
    shared = rng.normal(0, 0.05, (len(traces), 1, 1, seeds))
    base = (
        0.3
        + 0.1 * np.arange(len(policies))[None, :, None, None]
        + 0.01 * np.arange(len(capacities))[None, None, :, None]
    )
    hit = (base + shared + rng.normal(0, 0.01, shape[:4])).reshape(shape[:4] + (1,) * len(grid))
    hit = np.broadcast_to(hit, shape).astype(np.float32)
    if grid:  # the first policy has no parameters: the grid does not move it
        lift = np.zeros(shape, np.float32)
        lift[:, 1:] += 0.01 * np.arange(shape[-1], dtype=np.float32)
        hit = hit + lift
    variables: dict[str, Any] = {}
    for index, (name, units) in enumerate(SCALARS.items()):
        values = hit if name == "hit_rate" else (hit * (index + 1)).astype(np.float32)
        variables[name] = (dims, values, {"units": units, "long_name": name.replace("_", " ")})
    variables["total_cost"] = (
        (*dims, "lambda"),
        np.stack([hit * 100 + lam for lam in lambdas], axis=-1),
        {"units": "cost", "long_name": "total cost"},
    )
    coords["lambda"] = list(lambdas)
    if categories:
        coords["category"] = list(categories)
        lift = 0.01 * np.arange(len(categories), dtype=np.float32)
        variables["category_hit_rate"] = (
            (*dims, "category"), hit[..., None] + lift, {"units": "1", "long_name": "hit rate by category"},
        )  # fmt: skip
        variables["category_requests"] = (
            (*dims, "category"), np.full((*shape, len(categories)), 5, np.int32),
            {"units": "queries", "long_name": "scored queries by category"},
        )  # fmt: skip
    if steps:
        scored = np.arange(steps)[None, None, :] >= steps // 4  # a quarter of warm-up
        scored = np.broadcast_to(scored, (len(traces), seeds, steps)).astype(np.uint8)
        hits = (rng.random((*shape, steps)) < hit[..., None]).astype(np.uint8)
        variables["hits"] = ((*dims, "step"), hits, {"units": "1", "long_name": "hit per step"})
        variables["scored"] = (("trace", "seed", "step"), scored, {"units": "1", "long_name": "scored"})
    attrs = {"config": json.dumps({"fake": True}), "solarjax_version": "0"}
    return xr.Dataset(variables, coords, attrs)


def fake_config(data: xr.Dataset, name: str = "cycling", **params: Any) -> dict[str, Any]:
    """A configuration as `solarjax.cli.job.Job.config` makes it, for `data`; `oracle` is offline."""
    labels = [str(label) for label in data["policy"].values]
    return {
        "source": {
            "kind": "workload",
            "name": name,
            "protocol": None,
            "params": {"n_topics": 20, **params},
            "files": [],
            "summary": "topics in a cycle",
        },
        "policies": [
            {
                "label": label,
                "name": label,
                "params": {"threshold": "release"} if "solar" in label else {},
                "online": label != "oracle",
                "stochastic": "solar" in label,
                "summary": f"what {label} does",
                "paper": f"where {label} is from",
            }
            for label in labels
        ],
        "capacities": [int(k) for k in data["capacity"].values],
        "seeds": [int(s) for s in data["seed"].values],
        "k": 3,
        "quality": "hit",
        "feedback": "retrieved",
        "like_at": 0.5,
        "lambdas": [1.0],
        "grid": {},
        "root_seed": 0,
        "per_step": False,
    }


def fake_provenance(config: dict[str, Any], command: str = "solarjax run") -> dict[str, Any]:
    """A provenance record as `solarjax.provenance.collect` makes it."""
    return {
        "schema": 1,
        "created": "2026-01-01T00:00:00+00:00",
        "command": command,
        "config": config,
        "code": "0" * 16,
        "git": {"sha": "a" * 40, "dirty": True},
        "versions": {"python": "3.11", "jax": "0.10"},
        "device": {
            "platform": "cpu",
            "kind": "cpu",
            "count": 1,
            "machine": "x86_64",
            "system": "Linux",
            "cpus": 2,
        },
        "seconds": 1.5,
    }
