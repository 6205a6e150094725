"""Checks of a sweep's arguments, before anything is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from solarjax.core.chunks import SweepError
from solarjax.core.params import check_name, check_value
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
    rule = f"capacities = {list(capacities)}: each must be a whole number >= 1"
    capacities = _whole_numbers(capacities, rule)
    if not capacities or min(capacities) < 1:
        raise SweepError(rule)
    if len(set(capacities)) < len(capacities):
        raise SweepError(f"capacities = {capacities}: each may be named once")
    rule = "seeds must be different whole numbers in 0..2^32-1"
    seeds = list(range(seeds)) if isinstance(seeds, int) else _whole_numbers(seeds, rule)
    if not seeds:
        raise SweepError("seeds: at least one is needed")
    if min(seeds) < 0 or max(seeds) >= 2**32 or len(set(seeds)) < len(seeds):
        raise SweepError(rule)
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


def check_policies(policies: Sequence[Any], grid: Mapping[str, Sequence[float]]) -> None:
    """The policy cases, and the grid against their parameters.

    Raises:
      SweepError: no case, two of one label (results are labelled by it), a grid parameter that none of them has, or a
        value out of its range.
    """
    labels = [case.label for case in policies]
    if not labels:
        raise SweepError("no policy named")
    if len(set(labels)) < len(labels):
        raise SweepError(f"policy {next(x for x in labels if labels.count(x) > 1)!r} is named twice")
    known = {name for case in policies for name, _ in case.traced}
    for name, points in grid.items():
        check_name("grid parameter", name, known, SweepError)
        for case in policies:
            if name in dict(case.traced):
                for value in points:
                    check_value(case.label, name, case.spec.params[name], value, SweepError)


def _whole_numbers(values: Sequence[Any], rule: str) -> list[int]:
    try:
        numbers = [int(value) for value in values]
        if all(number == float(value) for number, value in zip(numbers, values, strict=True)):
            return numbers
    except (TypeError, ValueError, OverflowError):
        pass
    raise SweepError(rule)
