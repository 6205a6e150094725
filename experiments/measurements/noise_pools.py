"""The retrieval-noise probe with its cause laid open: pools of on-topic and off-topic items of separate sizes.

The pool of capacity K is the first K items of a fill order. For one query it splits into items of the query's topic and
the others. Retrieval from (on-topic part of pool K1) + (off-topic part of pool K2) answers "because": if off-topic
items confuse the retriever, the hit rate falls with K2 at fixed K1. K1 = K2 is the probe of the paper.
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
from solarjax.workloads import retrieval_noise_static

POOLS = ("preferred", "uniform")
TOP = 3
CHUNK = 8
"""Seeds per call; memory is about 40 MB a seed."""


def measure(config: Mapping[str, Any]) -> xr.Dataset:
    """Retrieval quality of every mixture of pools.

    Args:
      config: `seeds`, `capacities` (increasing, 0 for an empty part), `root_seed`, and `settings` of the workload
        `retrieval_noise_static` (all but `pool`).

    Returns:
      `hit_rate`, `precision_at_k` (relevant / retrieved) and `topic_precision` (of the query's topic / retrieved),
      `[pool, on_topic, off_topic, seed]`, NaN for the empty pool.

    Raises:
      ValueError: a seed found no centres that far apart.
    """
    settings, capacities = dict(config["settings"]), tuple(config["capacities"])
    seeds = list(config["seeds"])
    name = "retrieval_noise_static"
    run = _program(tuple(sorted(settings.items())), capacities)
    parts = []
    for start in range(0, len(seeds), CHUNK):
        part = seeds[start : start + CHUNK]
        full = part + [part[-1]] * (CHUNK - len(part))
        ok, values = run(streams.per_seed(int(config["root_seed"]), streams.WORKLOAD, name, full))
        if not np.asarray(ok).all():
            raise ValueError(f"{name}: seed {full[int(np.argmin(ok))]} found no centres that far apart")
        parts.append(np.asarray(values)[: len(part)])
    values = np.moveaxis(np.concatenate(parts), 0, -1)  # [measure, pool, on, off, seed]
    dims = ("pool", "on_topic", "off_topic", "seed")
    names = ("hit_rate", "precision_at_k", "topic_precision")
    return xr.Dataset(
        {n: (dims, values[i]) for i, n in enumerate(names)},
        {"pool": list(POOLS), "on_topic": list(capacities), "off_topic": list(capacities), "seed": seeds},
    )


@functools.cache
def _program(settings: tuple[tuple[str, Any], ...], capacities: tuple[int, ...]) -> Any:
    made = [retrieval_noise_static.make(**dict(settings), pool=pool) for pool in POOLS]
    per_topic = int(dict(settings)["items_per_topic"])

    def one(key: Array) -> tuple[Array, Array]:
        instances = [workload.generate(key) for workload in made]
        first = instances[0]  # the pools differ in their fill order only
        topic = jnp.argmax(first.relevance, axis=1).astype(jnp.int32) // per_topic
        similarity = jnp.matmul(first.queries, first.items.T, precision=lax.Precision.HIGHEST)
        columns = topic[:, None] * per_topic + jnp.arange(per_topic, dtype=jnp.int32)[None]
        near = jnp.take_along_axis(similarity, columns, axis=1)
        relevant = jnp.take_along_axis(first.relevance, columns, axis=1)
        item_topic = jnp.arange(first.items.shape[0], dtype=jnp.int32) // per_topic
        other = jnp.where(item_topic[None] == topic[:, None], np.float32(-jnp.inf), similarity)
        pools = []
        for instance in instances:
            fill = instance.arrival[: first.items.shape[0]]
            position = jnp.zeros_like(fill).at[fill].set(jnp.arange(fill.shape[0], dtype=fill.dtype))
            pools.append(_pool(near, relevant, position[columns], other[:, fill], capacities))
        return jnp.stack([i.ok for i in instances]).all(), jnp.stack(pools, axis=1)

    return jax.jit(lambda keys: lax.map(one, keys))


def _pool(near: Array, relevant: Array, position: Array, other: Array, capacities: tuple[int, ...]) -> Array:
    """`[3, C, C]` measures for one pool rule.

    near, relevant, position: `[Q, P]` cosine, relevance and place in the fill order of the query's own topic.
    other: `[Q, M]` cosines in fill order, -inf for the own topic.
    """
    none = jnp.full((near.shape[0], TOP), -jnp.inf, jnp.float32)
    off, best, before = [], none, 0
    for capacity in capacities:
        if capacity > before:
            best = _largest(jnp.concatenate([best, _largest(other[:, before:capacity])], axis=1))
            before = capacity
        off.append(best)
    lines = []
    for capacity in capacities:
        value, at = lax.top_k(jnp.where(position < capacity, near, np.float32(-jnp.inf)), TOP)
        useful = jnp.take_along_axis(relevant, at, axis=1)
        # The three best of both parts: an on-topic item is in if fewer than three beat it.
        cells = []
        for rival in off:
            ahead = (rival[:, None, :] > value[:, :, None]).sum(-1) + jnp.arange(TOP, dtype=jnp.int32)[None]
            kept = (ahead < TOP) & (value > -jnp.inf)
            count = jnp.minimum((value > -jnp.inf).sum(1) + (rival > -jnp.inf).sum(1), TOP).astype(jnp.float32)
            good = (kept & useful).sum(1).astype(jnp.float32)
            shown = jnp.where(count > 0, count, np.float32(jnp.nan))
            of_topic = kept.sum(1).astype(jnp.float32)
            hit = jnp.where(count > 0, (good > 0).astype(jnp.float32), np.float32(jnp.nan))
            cells.append(jnp.stack([hit.mean(), (good / shown).mean(), (of_topic / shown).mean()]))
        lines.append(jnp.stack(cells, axis=1))
    return jnp.stack(lines, axis=1)


def _largest(values: Array) -> Array:
    """The three largest of each row, `[Q, 3]`. Three passes of max are far cheaper than a sort of 5,000 columns."""
    found = []
    for _ in range(TOP):
        top = values.max(axis=1)
        found.append(top)
        values = jnp.where(values == top[:, None], np.float32(-jnp.inf), values)
    return jnp.stack(found, axis=1)
