"""The offline optimum, always with a label: exact, lower bound, or heuristic (an upper bound).

A ratio to a lower bound of OPT is an upper bound of the true ratio: good for "holds". A ratio to a heuristic is a lower
bound of it: good for "refuted". Never mix the two; offline-optimal semantic caching is NP-hard (arXiv 2603.03301), so a
heuristic is never called OPT.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from theory.errors import TheoryError
from theory.model import Batch
from theory.opt_colex import colex_cost, colex_path, count_subsets
from theory.opt_exact import MEMORY_BYTES, Path, exact_cost, exact_path
from theory.opt_heuristics import beam, best_static, greedy
from theory.opt_lagrangian import lagrangian_bound

BITMASK_ITEMS = 12
"""Up to this many items bit masks are the faster exact method."""


class Kind(StrEnum):
    """What a number says about OPT."""

    EXACT = "exact"
    LOWER = "lower_bound"
    HEURISTIC = "heuristic"


class Optimum(NamedTuple):
    """`cost [B] f64`, what it is, and which method found it."""

    cost: np.ndarray
    kind: Kind
    method: str


def _by_subsets(batch: Batch) -> bool:
    return batch.num_items > BITMASK_ITEMS and batch.conventions.actions == "online"


def exact(batch: Batch, memory_bytes: int = MEMORY_BYTES) -> Optimum:
    """OPT itself, by bit masks or by subsets of size <= K, whichever has fewer contents.

    Raises:
      TheoryError: neither fits the memory budget.
    """
    if _by_subsets(batch):
        return Optimum(colex_cost(batch, memory_bytes), Kind.EXACT, "subsets")
    return Optimum(exact_cost(batch, memory_bytes), Kind.EXACT, "bitmask")


def exact_plan(batch: Batch, memory_bytes: int = MEMORY_BYTES) -> Path:
    """OPT with one of its plans. Raises as `exact`."""
    return (colex_path if _by_subsets(batch) else exact_path)(batch, memory_bytes)


def lower_bound(batch: Batch, iterations: int = 300) -> Optimum:
    """A certified lower bound (see `opt_lagrangian`)."""
    bounds = [lagrangian_bound(batch.take(i), iterations).value for i in range(len(batch))]
    return Optimum(np.array(bounds), Kind.LOWER, "lagrangian")


def heuristic(batch: Batch, width: int = 16) -> Optimum:
    """The cheapest of the plans that greedy, the best static set and beam search find: an upper bound."""
    plans = [
        [greedy(one).cost, best_static(one).cost, beam(one, width).cost] for one in map(batch.take, range(len(batch)))
    ]
    return Optimum(np.min(plans, axis=1), Kind.HEURISTIC, "greedy, static, beam")


def best_known(batch: Batch, memory_bytes: int = MEMORY_BYTES) -> Optimum:
    """`exact` where it fits the memory budget, a certified lower bound elsewhere."""
    try:
        return exact(batch, memory_bytes)
    except TheoryError:
        return lower_bound(batch)


def states(batch: Batch) -> int:
    """Contents that the exact method would visit."""
    return count_subsets(batch.num_items, batch.capacity) if _by_subsets(batch) else 2**batch.num_items
