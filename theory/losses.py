"""Losses as functions of the content: for given contents, and for every subset at once.

Both follow the engine's scores (`solarjax.core.metrics.score_retrieval`) in float64; the tests compare them with the
engine itself.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from theory.model import Batch

CELLS = 2**24
"""Largest number of (instance, step, item) cells that are ranked at once; more are cut in time."""


def set_losses(batch: Batch, contents: np.ndarray) -> np.ndarray:
    """Loss of each step for given contents; 0 where nothing is asked.

    Args:
      contents: `[B, T, N] bool`, S_t before step t.

    Returns:
      `[B, T] f64`.
    """
    if contents.size > CELLS and contents.shape[1] > 1:
        half = contents.shape[1] // 2
        parts = ((slice(0, half), contents[:, :half]), (slice(half, None), contents[:, half:]))
        cut = [
            set_losses(dataclasses.replace(batch, query=batch.query[:, s], arrival=batch.arrival[:, s]), c)
            for s, c in parts
        ]
        return np.concatenate(cut, axis=1)
    lane = np.arange(len(batch))[:, None]
    row = np.maximum(batch.query, 0)
    similarity, relevance = batch.similarity[lane, row], batch.relevance[lane, row]
    total = batch.relevance.sum(axis=2)[lane, row]
    order = np.argsort(-similarity, axis=2, kind="stable")
    held = np.take_along_axis(contents, order, axis=2)
    top = held & (np.cumsum(held, axis=2) <= batch.k)
    near = np.where(top, np.take_along_axis(similarity, order, axis=2), 0)
    best = np.where(top, np.take_along_axis(similarity, order, axis=2), -np.inf).max(axis=2)
    found = np.where(top, np.take_along_axis(relevance, order, axis=2), 0).sum(axis=2)
    quality = quality_of(np, batch.quality, found, total, top.sum(axis=2), near.sum(axis=2), best)
    return np.where(batch.query >= 0, 1 - quality, 0.0)


def quality_of(xp, name: str, found, total, count, near, best):
    """Quality from what was found: relevance found and there, items retrieved, sum and maximum of their cosines."""
    if name == "hit":
        return xp.where(found > 0, 1.0, 0.0)
    if name == "max_similarity":
        return xp.clip(best, 0.0, 1.0)
    if name == "mean_similarity":
        return xp.clip(near / xp.maximum(count, 1), 0.0, 1.0)
    recall = found / xp.maximum(total, 1e-9)
    if name == "recall":
        return recall
    precision = found / xp.maximum(count, 1)
    if name == "precision":
        return precision
    return 2 * precision * recall / xp.maximum(precision + recall, 1e-9)


@functools.partial(jax.jit, static_argnames=("k", "quality"))
def loss_table(relevance: Array, similarity: Array, *, k: int, quality: str) -> Array:
    """Loss of every query for every subset of the items; subsets are bit masks, bit i for item i.

    Args:
      relevance, similarity: `[B, Q, N] f64`; call it under `jax.enable_x64(True)`.

    Returns:
      `[B, Q, 2^N] f64`.
    """
    items = relevance.shape[2]
    states = jnp.arange(2**items, dtype=jnp.int32)
    total = relevance.sum(axis=2)[:, :, None]
    shape = (*relevance.shape[:2], len(states))
    found, near = jnp.zeros(shape, relevance.dtype), jnp.zeros(shape, relevance.dtype)
    best = jnp.full(shape, -jnp.inf, relevance.dtype)
    position = jnp.arange(items, dtype=jnp.int32)
    for i in range(items):
        here = similarity[:, :, i : i + 1]
        # Items that rank before i: more similar, or equally similar with a smaller number.
        before = (similarity > here) | ((similarity == here) & (position < i)[None, None])
        ahead = jnp.where(before, (1 << position)[None, None], 0).sum(axis=2, dtype=jnp.int32)
        rank = jax.lax.population_count(states[None, None] & ahead[:, :, None])
        top = (((states >> i) & 1) > 0)[None, None] & (rank < k)
        found = found + jnp.where(top, relevance[:, :, i : i + 1], 0.0)
        near = near + jnp.where(top, here, 0.0)
        best = jnp.maximum(best, jnp.where(top, here, -jnp.inf))
    count = jnp.minimum(jax.lax.population_count(states), k).astype(relevance.dtype)[None, None]
    return 1 - quality_of(jnp, quality, found, total, count, near, best)
