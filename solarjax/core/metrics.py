"""Counters carried by a rollout, and what is derived from them on the host.

The carry holds sums only: its size does not depend on T. Rates are formed in `analysis` and in the sweep's
dataset from exact integer counts where there are any; float sums are compensated (Kahan), so a
sum over 1e5 steps keeps float32 precision.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Scores

COUNTS = (
    "requests",
    "hits",
    "hits_second",
    "available",
    "queries",
    "offers",
    "duplicates",
    "offers_full",
    "admissions",
    "evictions",
)
TOTALS = (
    "recall",
    "precision",
    "f1",
    "max_similarity",
    "mean_similarity",
    "answer_recall",
    "miss",
    "slope",
)


class Sums(NamedTuple):
    """Counters of B lanes, stacked: one array update per step instead of thirty small kernels.

    counts: `[len(COUNTS), B] i32`, in the order of `COUNTS`:
      requests: scored queries.              hits: scored queries with a relevant item in the top-k.
      hits_second: hits in the second half.  available: scored queries with a relevant item anywhere in the cache.
      queries: all queries, scored or not.   offers: arrivals, duplicates included.
      duplicates: arrivals of a resident.    offers_full: arrivals of new items at a full cache.
      admissions: items written.             evictions: writes that replaced a resident.
    totals, errors: `[len(TOTALS), B] f32`, Kahan sums and their running compensation, in the order of `TOTALS`: the
      scores over scored queries, the miss cost, and the weighted sum of hits that is the learning slope.
    category_requests, category_hits: `[G, B] i32`, requests and hits by query category.
    """

    counts: Array
    totals: Array
    errors: Array
    category_requests: Array
    category_hits: Array

    def add(self, counts: dict[str, Array], totals: dict[str, Array]) -> Sums:
        """These sums plus one step. Names that are missing add nothing.

        Args:
          counts: name -> `[B] bool`.
          totals: name -> `[B] f32`.
        """
        lanes = self.counts.shape[1]
        none, nothing = jnp.zeros(lanes, bool), jnp.zeros(lanes, jnp.float32)
        flags = jnp.stack([counts.get(name, none) for name in COUNTS]).astype(jnp.int32)
        corrected = jnp.stack([totals.get(name, nothing) for name in TOTALS]) - self.errors
        total = self.totals + corrected
        return self._replace(counts=self.counts + flags, totals=total, errors=(total - self.totals) - corrected)

    def named(self) -> dict[str, Array]:
        """Every counter by name, `[B]` each, and the category counters `[G, B]`."""
        out = {name: self.counts[i] for i, name in enumerate(COUNTS)}
        out |= {name: self.totals[i] for i, name in enumerate(TOTALS)}
        return out | {"category_requests": self.category_requests, "category_hits": self.category_hits}


def zero_sums(lanes: int, categories: int) -> Sums:
    """All counters at zero for `lanes` lanes."""
    return Sums(
        counts=jnp.zeros((len(COUNTS), lanes), jnp.int32),
        totals=jnp.zeros((len(TOTALS), lanes), jnp.float32),
        errors=jnp.zeros((len(TOTALS), lanes), jnp.float32),
        category_requests=jnp.zeros((categories, lanes), jnp.int32),
        category_hits=jnp.zeros((categories, lanes), jnp.int32),
    )


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
    cosine = jnp.where(there, similarity, np.float32(0))
    return Scores(
        hit=(found > 0).astype(jnp.float32),
        recall=recall,
        precision=precision,
        f1=np.float32(2) * precision * recall / jnp.maximum(precision + recall, np.float32(1e-9)),
        max_similarity=jnp.clip(similarity[0], 0, 1),
        mean_similarity=jnp.clip(cosine.sum(axis=0) / jnp.maximum(count, np.float32(1)), 0, 1),
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
