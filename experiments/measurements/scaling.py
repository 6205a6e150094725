"""Run time of the compiled rollout against steps T, capacity K, slots N and lanes B, compile time apart."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from solarjax.core.execute import make_rules
from solarjax.core.lanes import Lanes
from solarjax.core.rollout import rollout
from solarjax.policies.registry import parse_cases
from solarjax.workloads import working_set
from solarjax.workloads.registry import make
from solarjax.workloads.sources import GeneratedSource

WORKLOAD = working_set.SPEC
"""Named here so that results are keyed by its code: the registry is not followed."""


def measure(config: Mapping[str, Any]) -> xr.Dataset:
    """Seconds of every repeat at every point.

    Args:
      config: `policies`; `base` = {"T", "K", "N", "B"}; `axes`: name -> sizes, a point changes the base in one axis
        (`N` moves K with it, so that no slot is masked; `K` alone leaves masked slots); `repeats`, `root_seed`.

    Returns:
      `seconds [policy, point, repeat]`, with coordinates `axis [point]` and `size [point]`.
    """
    cases, _ = parse_cases(config["policies"])
    points = [(axis, int(size)) for axis, sizes in config["axes"].items() for size in sizes]
    seconds = np.empty((len(cases), len(points), int(config["repeats"])))
    for j, (axis, size) in enumerate(points):
        at = {**config["base"], axis: size}
        if axis == "N":
            at["K"] = size
        source = GeneratedSource(make("working_set", n_steps=at["T"]))
        # One workload serves all lanes: what is timed is the policies, and tables of 1,000 lanes would not fit a cache.
        for i, case in enumerate(cases):
            needs = case.needs
            near = needs.pairwise or needs.candidate_similarity
            block = source.block([(0, 0)], int(config["root_seed"]), near, False)
            rules = make_rules(case, at["N"], source, 3, "hit", "retrieved", 0.5, False)
            lanes = _lanes(case, at["B"], at["K"], int(config["root_seed"]))
            run = jax.jit(rollout, static_argnums=0).lower(rules, block.tables, block.schedule, lanes).compile()
            jax.block_until_ready(run(block.tables, block.schedule, lanes))
            for r in range(seconds.shape[2]):
                start = time.perf_counter()
                jax.block_until_ready(run(block.tables, block.schedule, lanes))
                seconds[i, j, r] = time.perf_counter() - start
    return xr.Dataset(
        {"seconds": (("policy", "point", "repeat"), seconds)},
        {
            "policy": [case.label for case in cases],
            "axis": ("point", [axis for axis, _ in points]),
            "size": ("point", [size for _, size in points]),
        },
        {"device": str(jax.devices()[0].device_kind)},
    )


def _lanes(case: Any, count: int, capacity: int, root_seed: int) -> Lanes:
    zero = jnp.zeros(count, jnp.int32)
    keys = jax.random.key_data(jax.random.split(jax.random.key(root_seed), count))
    return Lanes(
        table=zero,
        pair=zero,
        capacity=jnp.full(count, capacity, jnp.int32),
        key=keys.T,
        params={name: jnp.full(count, value, jnp.float32) for name, value in case.traced},
    )
