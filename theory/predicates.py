"""How a verdict is reached. Pure functions of measured figures and their intervals.

Three rules are common to all. `holds` needs the WHOLE interval on the right side at EVERY size that was tried.
`refuted` needs one certified counterexample: a figure on the wrong side as a whole interval (a point, where it is
exact). Anything else is `undecided`. Ratios to the offline optimum take its lower bound for `holds` and its upper
bound for `refuted` (`theory.opt` labels them); the two are never mixed.

Intervals that one verdict reads together are made with `looks` = their number, see `theory.statistics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from theory.errors import TheoryError
from theory.results import Verdict
from theory.statistics import Interval

T3S_LEVEL = 1.05
"""T3s is refuted above this ratio if it does not fall, see `tends_to_one`."""


def exact(value: float) -> Interval:
    """A figure without sampling error, as an interval of width 0."""
    return Interval(value, value, value)


def _some(figures: Iterable[Interval]) -> list[Interval]:
    found = list(figures)
    if not found:
        raise TheoryError("a verdict needs at least one figure")
    return found


def at_most(figures: Iterable[Interval], bounds: Sequence[float] | float, margin: float = 0.0) -> Verdict:
    """Whether figure <= bound at every size.

    Args:
      figures: one per size tried.
      bounds: one for all sizes, or one per size.
      margin: absolute allowance for rounding, applied in favour of the statement.

    Raises:
      TheoryError: no figures, or another number of bounds.
    """
    found = _some(figures)
    limits = [bounds] * len(found) if isinstance(bounds, int | float) else list(bounds)
    if len(limits) != len(found):
        raise TheoryError(f"{len(found)} figures against {len(limits)} bounds")
    if any(f.low > limit + margin for f, limit in zip(found, limits, strict=True)):
        return Verdict.REFUTED
    if all(f.high <= limit + margin for f, limit in zip(found, limits, strict=True)):
        return Verdict.HOLDS
    return Verdict.UNDECIDED


def at_least(figures: Iterable[Interval], bounds: Sequence[float] | float, margin: float = 0.0) -> Verdict:
    """Whether figure >= bound at every size; arguments as `at_most`."""
    mirrored = [Interval(-f.value, -f.high, -f.low) for f in _some(figures)]
    limits = -bounds if isinstance(bounds, int | float) else [-b for b in bounds]
    return at_most(mirrored, limits, margin)


def equals(figures: Iterable[Interval], targets: Sequence[float] | float, relative: float) -> Verdict:
    """Whether figure = target up to `relative`: the interval must lie within the band, or wholly outside it.

    Raises:
      TheoryError: no figures, another number of targets, or relative < 0.
    """
    if relative < 0:
        raise TheoryError(f"relative = {relative} must be >= 0")
    found = _some(figures)
    wanted = [targets] * len(found) if isinstance(targets, int | float) else list(targets)
    low = [t - relative * abs(t) for t in wanted]
    high = [t + relative * abs(t) for t in wanted]
    return both(at_most(found, high), at_least(found, low))


def covers(figures: Iterable[Interval], targets: Sequence[float] | float) -> bool:
    """Whether every interval contains its target."""
    found = _some(figures)
    wanted = [targets] * len(found) if isinstance(targets, int | float) else list(targets)
    return all(f.low <= t <= f.high for f, t in zip(found, wanted, strict=True))


def both(*verdicts: Verdict) -> Verdict:
    """The verdict on a conjunction: one refuted part refutes it, and it holds only if every part does."""
    if Verdict.REFUTED in verdicts:
        return Verdict.REFUTED
    return Verdict.HOLDS if verdicts and all(v is Verdict.HOLDS for v in verdicts) else Verdict.UNDECIDED


def counted(counts: Sequence[int], limits: Sequence[int]) -> Verdict:
    """An integer inequality count <= limit on every run: exact, so never undecided."""
    return at_most([exact(float(c)) for c in counts], [float(x) for x in limits])


class Growth(StrEnum):
    """How a quantity grows with its size, by its log-log slope."""

    SQRT = "sqrt-compatible"
    SUBLINEAR = "sublinear"
    LINEAR = "linear"
    UNDECIDED = "undecided"


def growth(slope: Interval, worst_gap: bool) -> Growth:
    """The class of a regret's exponent.

    linear: lower end > 0.95. sqrt-compatible: interval within [0.4, 0.6], claimed only at the worst gap, because a
    fixed gap says nothing of a minimax rate. sublinear: upper end < 0.9.
    """
    if slope.low > 0.95:
        return Growth.LINEAR
    if worst_gap and slope.low >= 0.4 and slope.high <= 0.6:
        return Growth.SQRT
    return Growth.SUBLINEAR if slope.high < 0.9 else Growth.UNDECIDED


def sqrt_upper(slope: Interval) -> Verdict:
    """Whether a worst-gap regret is O(sqrt) up to logarithms: exponent at most 0.6; more than 0.6 refutes it."""
    return at_most([slope], 0.6)


def sqrt_lower(slope: Interval) -> Verdict:
    """Whether a worst-gap regret is Omega(sqrt): exponent at least 0.4; a policy below it refutes the bound."""
    return at_least([slope], 0.4)


def tends_to_one(last: Interval, trend: Interval) -> Verdict:
    """T3s: whether a ratio tends to 1.

    Args:
      last: the ratio at the largest T.
      trend: slope of log(ratio - 1) against log T.

    Refuted if the interval at the largest T lies above 1.05 and the trend's contains 0; holds if the trend's lies
    below -0.5. A positive trend, wholly above 0, refutes as well.
    """
    if last.low > T3S_LEVEL and trend.high >= 0:
        return Verdict.REFUTED
    return Verdict.HOLDS if trend.high < -0.5 else Verdict.UNDECIDED


def crossing(left: Interval, right: Interval) -> Verdict:
    """Whether a curve passes from above to below zero between two sizes: it needs both intervals off zero."""
    if left.low > 0 and right.high < 0:
        return Verdict.HOLDS
    return Verdict.REFUTED if left.high < 0 or right.low > 0 else Verdict.UNDECIDED


def stable(verdicts: Sequence[Verdict]) -> bool:
    """Whether runs on different key sets agree."""
    return len(set(verdicts)) <= 1
