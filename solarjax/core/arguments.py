"""Checks of a sweep's arguments, before anything is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from solarjax.core.chunks import SweepError
from solarjax.core.types import Scores

FEEDBACKS = ("retrieved", "liked", "liked_disliked")


class Arguments(NamedTuple):
    """Checked arguments in canonical types."""

    capacities: list[int]
    seeds: list[int]
    grid: dict[str, list[float]]
    lambdas: list[float]


def check_arguments(
    capacities: Sequence[int],
    seeds: int | Sequence[int],
    grid: Mapping[str, Sequence[float]] | None,
    lambdas: Sequence[float],
    k: int,
    quality: str,
    feedback: str,
    root_seed: int,
) -> Arguments:
    """The arguments in canonical form.

    Raises:
      SweepError: naming the argument, its value and what is allowed.
    """
    capacities = [int(c) for c in capacities]
    if not capacities or min(capacities) < 1:
        raise SweepError(f"capacities = {capacities}: each must be a whole number >= 1")
    if len(set(capacities)) < len(capacities):
        raise SweepError(f"capacities = {capacities}: each may be named once")
    seeds = list(range(seeds)) if isinstance(seeds, int) else [int(s) for s in seeds]
    if not seeds:
        raise SweepError("seeds: at least one is needed")
    if min(seeds) < 0 or max(seeds) >= 2**32 or len(set(seeds)) < len(seeds):
        raise SweepError("seeds must be different whole numbers in 0..2^32-1")
    if not 0 <= root_seed < 2**32:
        raise SweepError(f"root_seed = {root_seed} must be in 0..2^32-1")
    if k < 1:
        raise SweepError(f"k = {k}: the retrieval depth must be at least 1")
    for label, value, known in (("quality", quality, Scores._fields), ("feedback", feedback, FEEDBACKS)):
        if value not in known:
            raise SweepError(f"{label} = {value!r} is not one of {', '.join(known)}")
    points_of = {name: [float(v) for v in points] for name, points in (grid or {}).items()}
    for name, points in points_of.items():
        if not points or len(set(points)) < len(points):
            raise SweepError(f"grid {name} = {points}: different values are needed")
    lambdas = [float(x) for x in lambdas]
    if not lambdas or min(lambdas) < 0 or not np.all(np.isfinite(lambdas)):
        raise SweepError(f"lambdas = {lambdas}: switching costs must be finite and >= 0")
    return Arguments(capacities, seeds, points_of, lambdas)
