"""Counters carried by a rollout, and what is derived from them on the host.

The carry holds sums only: its size does not depend on T. Rates are formed in `analysis` and in the sweep's
dataset from exact integer counts where there are any; float sums are compensated (Kahan), so a
sum over 1e5 steps keeps float32 precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Scores


class Compensated(NamedTuple):
    """A Kahan sum: value and running compensation, f32 each."""

    value: Array
    error: Array

    def add(self, term: Array) -> Compensated:
        """This sum plus `term`."""
        corrected = term - self.error
        total = self.value + corrected
        return Compensated(total, (total - self.value) - corrected)


class Sums(NamedTuple):
    """Counters of one lane. `[] i32` counts, compensated f32 sums.

    requests: scored queries.                 hits: scored queries with a relevant item in the top-k.
    hits_second: hits in the second half.     recall, precision, f1, max_similarity, mean_similarity, answer_recall:
    sums over scored queries.                 miss: sum of the miss cost over scored queries.
    slope: weighted sum of hits that equals the learning slope.
    available: scored queries with a relevant item anywhere in the cache.
    queries: all queries, scored or not, frozen ones included.
    offers: arrivals, duplicates included.    duplicates: arrivals of a resident item.
    offers_full: arrivals of new items at a full cache.
    admissions: items written.                evictions: writes that replaced a resident.
    category_requests, category_hits: `[G] i32` the same by query category.
    """

    requests: Array
    hits: Array
    hits_second: Array
    recall: Compensated
    precision: Compensated
    f1: Compensated
    max_similarity: Compensated
    mean_similarity: Compensated
    answer_recall: Compensated
    miss: Compensated
    slope: Compensated
    available: Array
    queries: Array
    offers: Array
    duplicates: Array
    offers_full: Array
    admissions: Array
    evictions: Array
    category_requests: Array
    category_hits: Array


_TOTALS = ("recall", "precision", "f1", "max_similarity", "mean_similarity", "answer_recall", "miss", "slope")


def zero_sums(lanes: int, categories: int) -> Sums:
    """All counters at zero for `lanes` lanes."""

    def count() -> Array:
        return jnp.zeros(lanes, jnp.int32)

    def total() -> Compensated:
        return Compensated(jnp.zeros(lanes, jnp.float32), jnp.zeros(lanes, jnp.float32))

    fields: dict[str, Any] = {name: total() if name in _TOTALS else count() for name in Sums._fields}
    fields["category_requests"] = jnp.zeros((categories, lanes), jnp.int32)
    fields["category_hits"] = jnp.zeros((categories, lanes), jnp.int32)
    return Sums(**fields)


def score_retrieval(relevance: Array, similarity: Array, answer: Array | None, relevant_total: Array) -> Scores:
    """Scores of retrievals from the k ranked items.

    Precision divides by the number retrieved: k, or fewer while the cache holds fewer. The release's recorded
    `precision_at_3` does the same.

    Args:
      relevance: `[k, B] f32` relevance by rank, 0 where nothing was retrieved.
      similarity: `[k, B] f32` cosine by rank, -inf where nothing was retrieved.
      answer: `[k, B] f32` answer recall by rank, or None.
      relevant_total: `[B] f32` relevance there is for the query.
    """
    found = relevance.sum(axis=0)
    recall = found / jnp.maximum(relevant_total, np.float32(1e-9))
    there = similarity > -jnp.inf
    count = there.astype(jnp.float32).sum(axis=0)
    precision = found / jnp.maximum(count, np.float32(1))
    cosine = jnp.where(there, jnp.clip(similarity, 0, 1), np.float32(0))
    return Scores(
        hit=(found > 0).astype(jnp.float32),
        recall=recall,
        precision=precision,
        f1=np.float32(2) * precision * recall / jnp.maximum(precision + recall, np.float32(1e-9)),
        max_similarity=cosine.max(axis=0),
        mean_similarity=cosine.sum(axis=0) / jnp.maximum(count, np.float32(1)),
        answer_recall=jnp.zeros_like(found) if answer is None else answer.max(axis=0),
    )


def slope_weights(scored: np.ndarray) -> np.ndarray:
    """Weights that turn hits into the learning slope.

    The learning slope is the least-squares slope, per scored query, of the rolling mean of the hit indicator over
    `max(20, n // 25)` scored queries (n = number of scored queries): the release's definition, recovered from its
    recorded values. Being linear in the hits it is one weighted sum. With fewer than two windows the plain
    least-squares slope of the hits is used; with fewer than two scored queries it is 0.

    Args:
      scored: `[T] bool`.

    Returns:
      `[T] f64`, 0 where not scored.
    """
    n = int(scored.sum())
    weights = np.zeros(len(scored))
    if n < 2:
        return weights
    window = max(20, n // 25)
    if n < window + 1:
        window = 1
    positions = np.arange(n - window + 1, dtype=np.float64)
    centred = positions - positions.mean()
    line = centred / (centred**2).sum()
    weights[np.flatnonzero(scored)] = np.convolve(line, np.ones(window) / window)
    return weights
