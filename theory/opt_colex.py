"""Exact offline optimum over the subsets of at most K items, numbered in colexicographic order.

For many items and a small capacity: N = T = 100, K = 3 has 166,751 contents where bit masks would need 2^100. Same
recursion as `opt_exact`, class `online` only. A swap S - i + e is two table look-ups: S - i ("down"), then + e ("up").
"""

from __future__ import annotations

import functools
import itertools
from math import comb
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from theory.errors import TheoryError
from theory.losses import quality_of
from theory.model import Batch
from theory.opt_exact import MEMORY_BYTES, Path


class Subsets(NamedTuple):
    """All subsets of size 0..K: by size, then by colexicographic rank.

    members: `[S, K] i32`, ascending, N where there is none.   size: `[S] i32`.
    down: `[S, K] i32`, number of the subset without its m-th member (itself if there is none).
    up: `[S', N] i32` for the S' subsets smaller than K: number of the subset with the item (0 if it is in already).
    """

    members: np.ndarray
    size: np.ndarray
    down: np.ndarray
    up: np.ndarray


def count_subsets(items: int, capacity: int) -> int:
    """Subsets of at most `capacity` of `items`."""
    return sum(comb(items, j) for j in range(capacity + 1))


@functools.lru_cache(maxsize=4)
def subsets(items: int, capacity: int) -> Subsets:
    """The tables; the colexicographic rank of c_1 < c_2 < ... is sum_j C(c_j, j)."""
    choose = np.array([[comb(n, j) for j in range(capacity + 2)] for n in range(items + 1)], np.int64)
    offset = np.concatenate([[0], np.cumsum([comb(items, j) for j in range(capacity + 1)])])
    levels = []
    for j in range(capacity + 1):
        flat = itertools.chain.from_iterable(itertools.combinations(range(items), j))
        rows = np.fromiter(flat, np.int32).reshape(comb(items, j), j)
        rank = sum((choose[rows[:, m], m + 1] for m in range(j)), np.zeros(len(rows), np.int64))
        levels.append(rows[np.argsort(rank)])

    def number(rows: np.ndarray) -> np.ndarray:
        j = rows.shape[-1]
        return offset[j] + sum((choose[rows[..., m], m + 1] for m in range(j)), np.zeros(rows.shape[:-1], np.int64))

    total = int(offset[-1])
    members = np.full((total, capacity), items, np.int32)
    down = np.tile(np.arange(total, dtype=np.int32)[:, None], (1, capacity))
    up = np.zeros((int(offset[capacity]), items), np.int32)
    for j, rows in enumerate(levels):
        at = slice(offset[j], offset[j + 1])
        members[at, :j] = rows
        for m in range(j):
            down[at, m] = number(np.delete(rows, m, axis=1))
        if j < capacity:
            for i in range(items):
                absent = (rows != i).all(axis=1)
                wider = np.sort(np.concatenate([rows[absent], np.full((absent.sum(), 1), i, np.int32)], axis=1), axis=1)
                up[np.flatnonzero(absent) + offset[j], i] = number(wider)
    return Subsets(members, (members < items).sum(axis=1).astype(np.int32), down, up)


def colex_cost(batch: Batch, memory_bytes: int = MEMORY_BYTES) -> np.ndarray:
    """OPT of each instance, `[B] f64`.

    Raises:
      TheoryError: too many contents for `memory_bytes`, or an action class other than `online`.
    """
    return _run(batch, False, memory_bytes)[0]


def colex_path(batch: Batch, memory_bytes: int = MEMORY_BYTES) -> Path:
    """OPT with one of its plans; among equally good steps it changes nothing. Raises as `colex_cost`."""
    cost, aheads = _run(batch, True, memory_bytes)
    table = subsets(batch.num_items, batch.capacity)
    found = {tuple(row[row < batch.num_items]): i for i, row in enumerate(table.members)}
    contents = np.zeros((len(batch), batch.num_steps + 1, batch.num_items + 1), bool)
    changed = np.zeros((len(batch), batch.num_steps), bool)
    for b, ahead in enumerate(aheads):
        now = found[tuple(sorted(batch.conventions.initial))]
        contents[b, 0, table.members[now]] = True
        for t in range(batch.num_steps):
            item, small = int(batch.arrival[b, t]), table.size[now] < batch.capacity
            best, best_cost = now, ahead[t, now] - 1e-12
            if item >= 0 and item not in table.members[now]:
                grown = [table.up[now, item]] if small else []
                swaps = [table.up[table.down[now, m], item] for m in range(table.size[now])]
                for free, options in ((batch.conventions.fill_free, grown), (False, swaps)):
                    for new in options:
                        price = ahead[t, new] + (0 if free else batch.lam[b])
                        if price < best_cost:
                            best, best_cost = new, price
            changed[b, t] = best != now
            now = best
            contents[b, t + 1, table.members[now]] = True
    return Path(contents[:, :, :-1], changed, cost)


def _run(batch: Batch, path: bool, memory_bytes: int) -> tuple[np.ndarray, list[np.ndarray]]:
    if batch.conventions.actions != "online":
        raise TheoryError(f"subsets of size <= K know actions = online only, not {batch.conventions.actions}")
    states = count_subsets(batch.num_items, batch.capacity)
    need = states * (8 * (8 + 3 * batch.capacity + path * batch.num_steps) + 4 * batch.num_items)
    if states >= 2**31 or need > memory_bytes:
        raise TheoryError(
            f"exact OPT over {states} contents (N = {batch.num_items}, K = {batch.capacity}) needs "
            f"{need / 2**20:.0f} MiB, the memory budget is {memory_bytes / 2**20:.0f} MiB; use a lower bound"
        )
    table = subsets(batch.num_items, batch.capacity)
    start = int(np.flatnonzero((table.members == _padded(batch)).all(axis=1))[0])
    costs, aheads = [], []
    with jax.enable_x64(True):
        fixed = [jnp.asarray(x) for x in table]
        for b in range(len(batch)):
            arrays = [batch.relevance[b], batch.similarity[b], batch.query[b], batch.arrival[b], batch.lam[b]]
            first, ahead = _backward(
                *fixed,
                *(jnp.asarray(x) for x in arrays),
                k=batch.k,
                quality=batch.quality,
                fill_free=batch.conventions.fill_free,
                path=path,
            )
            costs.append(float(first[start]))
            if path:
                aheads.append(np.asarray(ahead))
    return np.array(costs), aheads


def _padded(batch: Batch) -> np.ndarray:
    row = np.full(batch.capacity, batch.num_items, np.int32)
    row[: len(batch.conventions.initial)] = sorted(batch.conventions.initial)
    return row


@functools.partial(jax.jit, static_argnames=("k", "quality", "fill_free", "path"))
def _backward(
    members: Array,
    size: Array,
    down: Array,
    up: Array,
    relevance: Array,
    similarity: Array,
    query: Array,
    arrival: Array,
    lam: Array,
    *,
    k: int,
    quality: str,
    fill_free: bool,
    path: bool,
) -> tuple[Array, Array | None]:
    """J_0 `[S]`, and J_1..J_T `[T, S]` if `path`, of one instance."""
    capacity, smaller = members.shape[1], up.shape[0]
    there = [members[:, m] < relevance.shape[1] for m in range(capacity)]
    total = relevance.sum(axis=1)

    def losses(row: Array) -> Array:
        padded = jnp.pad(jnp.stack([relevance[row], similarity[row]]), ((0, 0), (0, 1)))
        grade, near = padded[0][members], jnp.where(jnp.stack(there, axis=1), padded[1][members], -jnp.inf)
        top = jnp.stack(there, axis=1)
        if k < capacity:
            # Members are ascending, so of equal cosines the smaller item number ranks first, as in `losses`.
            ahead = [
                sum(
                    ((near[:, o] > near[:, m]) | ((near[:, o] == near[:, m]) & (o < m))).astype(jnp.int32)
                    for o in range(capacity)
                    if o != m
                )
                for m in range(capacity)
            ]
            top = top & (jnp.stack(ahead, axis=1) < k)
        best = jnp.where(top, near, -jnp.inf).max(axis=1)
        found, summed = (jnp.where(top, x, 0.0).sum(axis=1) for x in (grade, near))
        count = jnp.minimum(size, k).astype(relevance.dtype)
        return 1 - quality_of(jnp, quality, found, total[row], count, summed, best)

    def step(ahead: Array, row: tuple[Array, Array]) -> tuple[Array, Array | None]:
        asked, item = row
        loss = jnp.where(asked >= 0, losses(jnp.maximum(asked, 0)), 0.0)
        with_item = ahead[up[:, jnp.maximum(item, 0)]]
        added = jnp.full_like(ahead, jnp.inf).at[:smaller].set(with_item + (0.0 if fill_free else lam))
        swaps = [jnp.where(there[m], with_item[jnp.minimum(down[:, m], smaller - 1)], jnp.inf) for m in range(capacity)]
        swapped = functools.reduce(jnp.minimum, swaps) + lam
        able = (item >= 0) & (members != item).all(axis=1)
        other = jnp.where(able, jnp.minimum(added, swapped), jnp.inf)
        return loss + jnp.minimum(ahead, other), ahead if path else None

    return lax.scan(step, jnp.zeros(len(size), relevance.dtype), (query, arrival), reverse=True)
