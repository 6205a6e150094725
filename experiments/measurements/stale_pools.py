"""Stale versions: what a frozen pool and a FIFO cache of K items retrieve, for all K from one matrix of cosines.

FIFO needs no engine here: no item arrives twice, so before step t it holds the K items that arrived last.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array, lax

from solarjax.core import streams
from solarjax.workloads import stale_versions

TOP = 3
BLOCK = 250
"""Queries per matrix; 5,000 columns of f32 are then 5 MB."""
RULES = ("latest", "uniform", "fifo")


def measure(config: Mapping[str, Any]) -> xr.Dataset:
    """Hit rates by capacity.

    Args:
      config: `seeds`, `capacities` (increasing), `noises` (of the query), `root_seed`, `settings` of the workload
        `stale_versions` without `protocol`, `pool` and `query_noise`.

    Returns:
      `hit_rate [rule, query_noise, capacity, seed]`: `latest` and `uniform` are frozen pools asked about the last
      era, `fifo` is the stream.

    Raises:
      ValueError: a seed found no centres that far apart.
    """
    capacities, seeds = tuple(config["capacities"]), list(config["seeds"])
    keys = streams.per_seed(int(config["root_seed"]), streams.WORKLOAD, "stale_versions", seeds)
    parts = []
    for noise in config["noises"]:
        settings = tuple(sorted({**config["settings"], "query_noise": float(noise)}.items()))
        run = _program(settings, capacities)
        lines = []
        for seed, key in zip(seeds, keys, strict=True):
            ok, values = run(key)
            if not bool(ok):
                raise ValueError(f"stale_versions: seed {seed} found no centres that far apart")
            lines.append(np.asarray(values))
        parts.append(np.stack(lines, axis=-1))
    return xr.Dataset(
        {"hit_rate": (("rule", "query_noise", "capacity", "seed"), np.stack(parts, axis=1))},
        {"rule": list(RULES), "query_noise": list(config["noises"]), "capacity": list(capacities), "seed": seeds},
    )


@functools.cache
def _program(settings: tuple[tuple[str, Any], ...], capacities: tuple[int, ...]) -> Any:
    plain = dict(settings)
    frozen = {
        pool: stale_versions.make(**plain, protocol=stale_versions.FROZEN, pool=pool)
        for pool in (stale_versions.LATEST, stale_versions.UNIFORM)
    }
    online = stale_versions.make(**plain, protocol=stale_versions.ONLINE, pool=stale_versions.LATEST)

    def one(key: Array) -> tuple[Array, Array]:
        lines, fine = [], []
        for workload in frozen.values():
            made = workload.generate(key)
            fill = made.arrival[: made.items.shape[0]]
            place = jnp.zeros_like(fill).at[fill].set(jnp.arange(fill.shape[0], dtype=fill.dtype))
            asked = jnp.zeros((made.queries.shape[0], 1), jnp.int32)
            lines.append(_hits(made, jnp.broadcast_to(place[None], (1, place.shape[0])), asked, capacities))
            fine.append(made.ok)
        made = online.generate(key)
        count = jnp.arange(made.items.shape[0], dtype=jnp.int32)
        # Age at step t of item i: it arrived after step i was asked, so item t - 1 is the youngest, of age 0.
        lines.append(_hits(made, None, count[:, None], capacities))
        return jnp.stack([*fine, made.ok]).all(), jnp.stack(lines)

    return jax.jit(one)


def _hits(made: Any, place: Array | None, asked: Array, capacities: tuple[int, ...]) -> Array:
    """`[K]` share of the queries with a relevant item among the three best of the `capacities` first items.

    place: `[1, M]` order of a frozen pool; None: the order is the age at the step of the query.
    """
    items = jnp.arange(made.items.shape[0], dtype=jnp.int32)[None]
    block = min(BLOCK, made.queries.shape[0])
    count = made.queries.shape[0] // block * block

    def part(start: Array) -> Array:
        queries = lax.dynamic_slice_in_dim(made.queries, start, block)
        relevant = lax.dynamic_slice_in_dim(made.relevance, start, block)
        now = lax.dynamic_slice_in_dim(asked, start, block)
        order = now - 1 - items if place is None else jnp.broadcast_to(place, (block, items.shape[1]))
        similarity = jnp.matmul(queries, made.items.T, precision=lax.Precision.HIGHEST)
        found = []
        for capacity in capacities:
            held = jnp.where((order >= 0) & (order < capacity), similarity, np.float32(-jnp.inf))
            found.append(_hit(held, relevant).sum())
        return jnp.stack(found)

    return lax.map(part, jnp.arange(0, count, block, dtype=jnp.int32)).sum(axis=0) / np.float32(count)


def _hit(held: Array, relevant: Array) -> Array:
    """`[B] f32`: a relevant item is among the three largest of `held [B, M]`, -inf where absent."""
    best = jnp.where(relevant, held, np.float32(-jnp.inf)).max(axis=1)
    ahead = (held > best[:, None]).astype(jnp.int32).sum(axis=1)
    return ((best > -jnp.inf) & (ahead < TOP)).astype(jnp.float32)
