"""A stored replay with numbers of no model: two sessions of LoCoMo's categories, three policies, two capacities, two
seeds, every value drawn. Tests compute what they expect from the arrays, in plain Python."""

from __future__ import annotations

import numpy as np
import xarray as xr

from solarjax.report import stored
from solarjax.traces.locomo import CATEGORY_NAMES

POLICIES, CAPACITIES, SEEDS, LAMBDAS, STEPS = ["fifo", "solar(signal=miss)", "lru"], [10, 20], [0, 1], [0.0, 2.5], 8
FILES = [{"name": "locomo10.json", "sha256": "ab" * 32}]
PLAIN = (
    "answer_f1 answer_f1_answerable hit_rate first_half second_half learning_slope admissions evictions final_size "
    "requests"
).split()
AXES = ("trace", "policy", "capacity", "seed")


def run(name, seed, categories=CATEGORY_NAMES, policies=POLICIES, steps=STEPS):
    """The dataset of one session."""
    draw = np.random.default_rng(seed)
    shape = (1, len(policies), len(CAPACITIES), len(SEEDS))
    data = {measure: (AXES, draw.uniform(size=shape)) for measure in (*PLAIN, "store_rate")}
    f1 = draw.uniform(size=(*shape, len(categories)))
    data["category_f1"] = ((*AXES, "category"), f1)
    data["category_requests"] = ((*AXES, "category"), draw.integers(1, 5, f1.shape).astype(float))
    data["total_cost"] = ((*AXES, "lambda"), draw.uniform(10, 20, (*shape, len(LAMBDAS))))
    for step in ("step_size", "step_quality", "step_hit"):
        data[step] = ((*AXES, "step"), draw.uniform(size=(*shape, steps)))
    data["step_scored"] = ((*AXES, "step"), np.broadcast_to(np.arange(steps) >= steps // 2, (*shape, steps)) * 1.0)
    coords = {"trace": [name], "policy": policies, "capacity": CAPACITIES, "seed": SEEDS, "lambda": LAMBDAS,
              "category": list(categories)}  # fmt: skip
    attrs = {"left_out": f'{{"{name}": {{"without evidence": {seed}}}}}', "server_version": f"0.{seed}", "root_seed": 0,
             "k": 3, "feedback": "retrieved"}  # fmt: skip
    return xr.Dataset(data, coords, attrs)


def record(name, **config):
    """Its provenance."""
    device = {"kind": "cpu", "count": 1, "platform": "cpu", "machine": "m", "system": "s", "cpus": 1}
    source = {"kind": "locomo", "name": "locomo", "protocol": "replay", "params": {}, "files": FILES, "summary": "S",
              "encoder": "e", "sessions": {name: "cd" * 32}}  # fmt: skip
    described = [{"label": p, "name": p, "params": {}, "online": True, "stochastic": False, "summary": "s",
                  "paper": "p"} for p in POLICIES]  # fmt: skip
    settings = {"mode": "on-policy", "warmup": 0.5}
    used = {"source": source, "model": {"name": "toy"}, "prompt": {"template": "t"}, "settings": settings,
            "seeds": SEEDS, "capacities": CAPACITIES, "policies": described, "lambdas": LAMBDAS, "k": 3,
            "quality": "answer_f1", "feedback": "retrieved", "like_at": 0.5, "root_seed": 0, "grid": {}}  # fmt: skip
    return {"command": "replay", "config": used | config, "code": "c", "created": f"2026-01-0{1 + (name == 'b')}",
            "git": {"sha": "g", "dirty": False}, "versions": {"python": "3"}, "device": device, "seconds": 10.0,
            "schema": 1, "timing": {"asked": 5, "wall_s": 9.5}, "server_version": "0.1",
            "sessions": {name: {"without evidence": 1}}}  # fmt: skip


def store(folder, name, data, **config):
    """Writes a complete run."""
    return stored.save(folder / name, data, record(name, **config))
