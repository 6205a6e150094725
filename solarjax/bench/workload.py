"""The measured workload: topics in 128 dimensions, one item offered and one question asked at every step.

The engine and its peer read the same numbers: the peer lane by lane, as a loop would keep them, the engine in its own
layout (`core.tables`). Axes: W workloads, Q queries, M items, T steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solarjax.bench.errors import BenchError

TOPICS = 15
DIMENSIONS = 128
ITEM_NOISE, QUERY_NOISE = 0.1, 0.05
"""Standard deviation per coordinate around a topic's unit centre, before normalisation."""


class Arrays(NamedTuple):
    """Tables and schedule of W workloads, workload-major.

    similarity: `[W, Q, M] f32` cosine of query and item.     near: `[W, M, M] f32` cosine of two items.
    relevance: `[W, Q, M] bool` query and item share a topic.  total: `[W, Q] f32` relevant items of a query.
    query, arrival: `[W, T] i32` asked and offered at each step, never absent.
    second_half: `[T] bool`.                                   slope_weight: `[T] f32` (see `core.tables.Schedule`).
    """

    similarity: np.ndarray
    near: np.ndarray
    relevance: np.ndarray
    total: np.ndarray
    query: np.ndarray
    arrival: np.ndarray
    second_half: np.ndarray
    slope_weight: np.ndarray

    def some(self, count: int) -> Arrays:
        """The first `count` workloads, to compile a loop on little."""
        return self._replace(**{name: getattr(self, name)[:count] for name in self._fields[:6]})


def draw(
    workloads: int,
    steps: int,
    *,
    items: int | None = None,
    queries: int | None = None,
    repeats: bool = False,
    seed: int = 0,
) -> Arrays:
    """Draws workloads.

    Args:
      workloads: W.
      steps: T.
      items, queries: M and Q, by default T each. Step t asks query t mod Q and is offered item t mod M.
      repeats: ask and offer at random instead, so that items come back while they are resident, or ghosts.
      seed: of numpy's generator.

    Raises:
      BenchError: a size below 1.
    """
    items, queries = items or steps, queries or steps
    if min(workloads, steps, items, queries) < 1:
        raise BenchError(f"{workloads} workloads x {steps} steps x {items} items: each must be at least 1")
    from solarjax.core.metrics import slope_weights

    random = np.random.default_rng(seed)
    similarity = np.empty((workloads, queries, items), np.float32)
    near = np.empty((workloads, items, items), np.float32)
    relevance = np.empty((workloads, queries, items), bool)
    for number in range(workloads):
        centres = _unit(random.normal(size=(TOPICS, DIMENSIONS)))
        kept, asked = random.integers(0, TOPICS, items), random.integers(0, TOPICS, queries)
        points = _unit(centres[kept] + ITEM_NOISE * random.normal(size=(items, DIMENSIONS))).astype(np.float32)
        probes = _unit(centres[asked] + QUERY_NOISE * random.normal(size=(queries, DIMENSIONS))).astype(np.float32)
        np.matmul(probes, points.T, out=similarity[number])
        np.matmul(points, points.T, out=near[number])
        np.equal(asked[:, None], kept[None], out=relevance[number])
    if repeats:
        query = random.integers(0, queries, (workloads, steps)).astype(np.int32)
        arrival = random.integers(0, items, (workloads, steps)).astype(np.int32)
    else:
        clock = np.tile(np.arange(steps, dtype=np.int32), (workloads, 1))
        query, arrival = clock % np.int32(queries), clock % np.int32(items)
    return Arrays(
        similarity=similarity,
        near=near,
        relevance=relevance,
        total=relevance.sum(axis=2).astype(np.float32),
        query=query,
        arrival=arrival,
        second_half=np.arange(steps) >= (steps + 1) // 2,
        slope_weight=slope_weights(np.ones(steps, bool)).astype(np.float32),
    )


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
