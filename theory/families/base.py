"""What a family is, and the exact-match world most of them live in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from theory.errors import TheoryError
from theory.model import Batch, instance

IRREDUCIBLE = -2
"""In a list of requests: a query that no item answers. NO_QUERY (-1) is no query at all."""


@dataclass(frozen=True)
class Family:
    """A generator of instances with closed forms.

    build(**params) -> one instance.
    costs: policy text (as `policies.registry.parse_cases` reads it) -> function of the parameters: that policy's cost.
    opt: function of the parameters: OPT, or an upper bound of it if `opt_exact` is False.
    defaults: parameters of a small instance.   limit: what the ratio tends to, in words.
    """

    name: str
    summary: str
    build: Callable[..., Batch]
    costs: Mapping[str, Callable[..., float]]
    opt: Callable[..., float]
    defaults: Mapping[str, Any]
    limit: str
    opt_exact: bool = True


def exact_match(
    requests: list[int], arrivals: list[int], items: int, capacity: int, lam: float, name: str, **more: Any
) -> Batch:
    """Orthogonal items: request i is answered by item i only, at similarity 1; every other similarity is 0.

    Args:
      requests: items, -1 for no query, IRREDUCIBLE for one that nothing answers.   arrivals: items, -1 for none.

    Raises:
      TheoryError: fewer items than K, see `model.Batch`.
    """
    query = np.array([items if r == IRREDUCIBLE else r for r in requests], np.int32)
    table = np.concatenate([np.eye(items), np.zeros((1, items))])
    return instance(table, query, np.array(arrivals, np.int32), capacity, lam, name=name, **more)


def misses_to_fire(lam: float, tau_per_lam: float = 2.0) -> int:
    """Full misses until c >= tau = tau_per_lam * lam: ceil(tau), at least 1."""
    # tau is a product of float32 numbers in the gate; a relative 1e-9 keeps ceil from rounding 2 * 0.5 up.
    return max(1, ceil(tau_per_lam * lam * (1 - 1e-9)))


def check_positive(**values: float) -> None:
    """Raises TheoryError naming the first value that is not > 0."""
    for name, value in values.items():
        if not value > 0:
            raise TheoryError(f"{name} = {value} must be > 0")


GATED = "gated_fifo(threshold=fixed,signal=miss,fill=gated)"
"""The gate of Theorem 3 alone: tau = 2 lam on the miss cost, FIFO eviction; deterministic. With K = 1 every gated
policy does the same."""
