"""The relaxation behind the lower bounds: each item's gain at each step, and how many may be counted.

quality_t(S) <= max { sum_{i in Y} w_ti : Y subset of S, |Y| <= slots } for every content S:

  recall           w = relevance / total, slots = k; an oracle that ranks by relevance, so also where cosines mislead
  hit              w = 1 if relevant, slots = 1
  max_similarity   w = cosine clipped to [0, 1], slots = 1; mean_similarity is at most that
  precision        w = relevance, slots = 1 (a mean of grades is at most the largest)
  f1               w = 2 relevance / (1 + total), slots = k (f1 = 2 found / (count + total) and count >= 1)

For recall with orthogonal or equally ranked items, hit with k >= the relevant ones, and max_similarity it is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from theory.errors import TheoryError
from theory.model import Batch


class Gains(NamedTuple):
    """gain: `[T, N] f64` w, 0 where nothing is asked.   slots: items counted.   asked: `[T] bool`.
    may: `[T, N] bool`, the item may be inserted after the step.   start: `[N] bool`, resident at t = 0."""

    gain: np.ndarray
    slots: int
    asked: np.ndarray
    may: np.ndarray
    start: np.ndarray


def gains(batch: Batch) -> Gains:
    """The relaxed gains of one instance.

    Raises:
      TheoryError: several instances.
    """
    if len(batch) != 1:
        raise TheoryError(f"one instance at a time, this batch has {len(batch)}")
    relevance, near = batch.relevance[0], batch.similarity[0]
    total = relevance.sum(axis=1, keepdims=True)
    table = {
        "hit": lambda: (relevance > 0).astype(np.float64),
        "recall": lambda: relevance / np.maximum(total, 1e-9),
        "precision": lambda: relevance,
        "f1": lambda: 2 * relevance / (1 + total),
        "max_similarity": lambda: np.clip(near, 0, 1),
        "mean_similarity": lambda: np.clip(near, 0, 1),
    }[batch.quality]()
    slots = min(batch.k, batch.capacity) if batch.quality in ("recall", "f1") else 1
    asked = batch.query[0] >= 0
    items = np.arange(batch.num_items)
    start = np.isin(items, batch.conventions.initial)
    may = batch.arrival[0][:, None] == items
    if batch.conventions.actions != "online":
        may = np.logical_or.accumulate(may, axis=0) | start
    return Gains(np.where(asked[:, None], table[batch.query[0]], 0.0), slots, asked, may, start)


def insertion_price(batch: Batch) -> float:
    """What the relaxation charges for one insertion of one instance, never more than it costs.

    lam, where every insertion is paid for. In the class `store_step` one lam pays for all changes of a step; those
    insert at most K items, so lam / K each is a lower bound.
    """
    lam = float(batch.lam[0])
    return lam / batch.capacity if batch.conventions.actions == "store_step" else lam


def free_fills(batch: Batch) -> float:
    """What free fills may save at most: lam for each of K slots. 0 where fills are paid for."""
    return float(batch.lam[0]) * batch.capacity if batch.conventions.fill_free else 0.0
