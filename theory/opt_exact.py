"""Exact offline optimum over bit-mask contents: a min-plus recursion in float64, over many tiny instances at once.

J_t(S) is the least cost from step t on, given content S. With e the arrival of step t,

  J_t(S) = l_t(S) + min{ J_{t+1}(S), lam + J_{t+1}(S + e) if |S| < K, lam + min_{i in S} J_{t+1}(S - i + e) }

for the class `online`; `store_step` and `store_item` replace the second part (see `model.Conventions`). Any
set function l_t will do. Offline-optimal semantic caching is NP-hard in general (arXiv 2603.03301); this is exponential
in N.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from theory.errors import TheoryError
from theory.losses import loss_table
from theory.model import Batch

MEMORY_BYTES = 2 * 2**30
"""Default memory budget of one call."""
BLOCK_BYTES = 2**27
"""Tables of one compiled block of instances; more instances are cut into several blocks."""


class Path(NamedTuple):
    """An optimal plan. contents: `[B, T + 1, N] bool`, S_0..S_T.  changed: `[B, T] bool`, steps that pay.
    cost: `[B] f64`."""

    contents: np.ndarray
    changed: np.ndarray
    cost: np.ndarray


def state_bytes(batch: Batch, path: bool) -> int:
    """Bytes that the recursion needs for one instance of `batch`."""
    rows = batch.relevance.shape[1] + 8 + (batch.num_steps + 1) * path
    return 8 * rows * 2**batch.num_items


def exact_cost(batch: Batch, memory_bytes: int = MEMORY_BYTES) -> np.ndarray:
    """OPT of each instance, `[B] f64`.

    Raises:
      TheoryError: one instance does not fit `memory_bytes`.
    """
    return _solve(batch, False, memory_bytes)[0]


def exact_path(batch: Batch, memory_bytes: int = MEMORY_BYTES) -> Path:
    """OPT with one of its plans; among equally good steps it changes nothing.

    Raises:
      TheoryError: one instance does not fit `memory_bytes`.
    """
    cost, ahead = _solve(batch, True, memory_bytes)
    assert ahead is not None
    states = np.arange(2**batch.num_items)
    now = np.full(len(batch), _mask(batch.conventions.initial))
    lane = np.arange(len(batch))
    contents, changed = [now], []
    for t in range(batch.num_steps):
        offer = ahead[:, t] + _transition(batch, t, now, states)
        stay = ahead[lane, t, now]
        best = offer.argmin(axis=1)
        moves = offer[lane, best] < stay - 1e-12
        now = np.where(moves, best, now)
        contents.append(now)
        changed.append(moves)
    bits = np.stack(contents, axis=1)[:, :, None] >> np.arange(batch.num_items) & 1
    return Path(bits > 0, np.stack(changed, axis=1), cost)


def paid_switches(batch: Batch, contents: np.ndarray) -> np.ndarray:
    """What each step of a plan pays for changing, in units of lam; `[B, T] f64`.

    Args:
      contents: `[B, T + 1, N] bool`.
    """
    before, after = contents[:, :-1], contents[:, 1:]
    if batch.conventions.actions == "store_item":
        return (after & ~before).sum(axis=2).astype(np.float64)
    paid = (before != after).any(axis=2)
    if batch.conventions.fill_free:
        paid &= (before & ~after).any(axis=2)
    return paid.astype(np.float64)


def _mask(items: tuple[int, ...]) -> int:
    return sum(1 << i for i in items)


def _seen(batch: Batch) -> np.ndarray:
    """`[B, T] i32` mask of the items that arrived up to and including each step, or were there at the start."""
    bit = np.where(batch.arrival >= 0, 1 << np.maximum(batch.arrival, 0), 0)
    return (np.bitwise_or.accumulate(bit, axis=1) | _mask(batch.conventions.initial)).astype(np.int32)


def _transition(batch: Batch, t: int, now: np.ndarray, states: np.ndarray) -> np.ndarray:
    """`[B, 2^N]` cost of going from `now [B]` to each state after step t; inf where it is not allowed."""
    added, removed = states[None] & ~now[:, None], now[:, None] & ~states[None]
    same = (added | removed) == 0
    lam = batch.lam[:, None]
    if batch.conventions.actions == "online":
        arrival = batch.arrival[:, t]
        bit = np.where(arrival >= 0, 1 << np.maximum(arrival, 0), -1)
        allowed = (added == bit[:, None]) & (np.bitwise_count(removed) <= 1)
        price = np.where((removed == 0) & batch.conventions.fill_free, 0.0, lam)
    else:
        allowed = (added & ~_seen(batch)[:, t, None]) == 0
        counts = np.bitwise_count(added) if batch.conventions.actions == "store_item" else 1
        price = lam * counts
    return np.where(same, 0.0, np.where(allowed, price, np.inf))


def _solve(batch: Batch, path: bool, memory_bytes: int) -> tuple[np.ndarray, np.ndarray | None]:
    need = state_bytes(batch, path)
    # A mask is an int32; 2^24 states would need a table of 128 MiB for every query anyway.
    if batch.num_items > 24 or need > memory_bytes:
        raise TheoryError(
            f"exact OPT over 2^{batch.num_items} contents needs {need / 2**20:.0f} MiB, the memory budget is "
            f"{memory_bytes / 2**20:.0f} MiB (and N <= 24); use fewer items, `opt_colex` for small K, or a lower bound"
        )
    block = int(np.clip(min(BLOCK_BYTES, memory_bytes) // need, 1, len(batch)))
    costs, aheads = [], []
    solve = functools.partial(
        _backward,
        capacity=batch.capacity,
        k=batch.k,
        quality=batch.quality,
        actions=batch.conventions.actions,
        fill_free=batch.conventions.fill_free,
        path=path,
    )
    seen = _seen(batch)
    with jax.enable_x64(True):
        for start in range(0, len(batch), block):
            # The last block is filled up by repeating its end, so that one compilation serves all.
            index = np.minimum(np.arange(start, start + block), len(batch) - 1)
            arrays = (batch.relevance, batch.similarity, batch.query, batch.arrival, seen, batch.lam)
            first, ahead = solve(*(jnp.asarray(x[index]) for x in arrays))
            count = min(block, len(batch) - start)
            costs.append(np.asarray(first)[:count, _mask(batch.conventions.initial)])
            if path:
                aheads.append(np.asarray(ahead).swapaxes(0, 1)[:count])
    return np.concatenate(costs), np.concatenate(aheads) if path else None


@functools.partial(jax.jit, static_argnames=("capacity", "k", "quality", "actions", "fill_free", "path"))
def _backward(
    relevance: Array,
    similarity: Array,
    query: Array,
    arrival: Array,
    seen: Array,
    lam: Array,
    *,
    capacity: int,
    k: int,
    quality: str,
    actions: str,
    fill_free: bool,
    path: bool,
) -> tuple[Array, Array | None]:
    """J_0 `[B, 2^N]`, and J_1..J_T `[T, B, 2^N]` if `path`."""
    items = relevance.shape[2]
    states = jnp.arange(2**items, dtype=jnp.int32)
    size = lax.population_count(states)
    fits = (size <= capacity)[None]
    table = loss_table(relevance, similarity, k=k, quality=quality)
    price = lam[:, None]

    def online(ahead: Array, item: Array) -> Array:
        bit = jnp.where(item >= 0, 1 << jnp.maximum(item, 0), 0)[:, None]
        with_item = jnp.take_along_axis(ahead, states[None] | bit, axis=1)
        added = jnp.where((size < capacity)[None], with_item, jnp.inf) + (0.0 if fill_free else price)
        swapped = jnp.full_like(ahead, jnp.inf)
        for i in range(items):
            without = with_item[:, states ^ (1 << i)]
            swapped = jnp.where(((states >> i) & 1)[None] > 0, jnp.minimum(swapped, without), swapped)
        able = (bit > 0) & ((states[None] & bit) == 0)
        return jnp.where(able, jnp.minimum(added, swapped + price), jnp.inf)

    def store_step(ahead: Array, known: Array) -> Array:
        allowed = (states[None] & ~known[:, None]) == 0
        best = jnp.where(allowed, ahead, jnp.inf).min(axis=1, keepdims=True)
        return jnp.broadcast_to(best + price, ahead.shape)

    def store_item(ahead: Array, known: Array) -> Array:
        best = ahead
        for i in range(items):
            inside = ((states >> i) & 1)[None] > 0
            other = best[:, states ^ (1 << i)]
            may = (((known >> i) & 1) > 0)[:, None]
            best = jnp.minimum(best, jnp.where(inside, other, jnp.where(may, other + price, jnp.inf)))
        return best

    def step(ahead: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array | None]:
        asked, item, known = row
        loss = jnp.take_along_axis(table, jnp.maximum(asked, 0)[:, None, None], axis=1)[:, 0]
        loss = jnp.where((asked >= 0)[:, None], loss, 0.0)
        if actions == "online":
            other = online(ahead, item)
        else:
            other = (store_step if actions == "store_step" else store_item)(ahead, known)
        now = jnp.where(fits, loss + jnp.minimum(ahead, other), jnp.inf)
        return now, ahead if path else None

    end = jnp.broadcast_to(jnp.where(fits, 0.0, jnp.inf), (relevance.shape[0], len(states)))
    return lax.scan(step, end, (query.T, arrival.T, seen.T), reverse=True)
