"""Sizes of the regret checks, and the rows and curves they share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from theory import predicates
from theory.bandit import World
from theory.errors import TheoryError
from theory.predicates import Growth
from theory.regret import Group, Worst, worst_gap
from theory.results import Budget, Verdict
from theory.statistics import Interval

GAPS, LONG_GAPS = (0.4, 0.2, 0.1, 0.05), (0.05, 0.025, 0.0125)
MARKS = (100, 316, 1000, 3162, 10_000)
LONG_MARKS = (*MARKS, 31_623, 100_000)
"""Gaps are those of K = 8; the worst gap goes with sqrt(K / T), so they are scaled by sqrt(K / 8)."""


def keys_of(budget: Budget, least: int = 2) -> int:
    """Regret varies much from key to key, so a quick look takes more keys, and some checks never fewer than `least`."""
    return max(least, budget.keys if budget.full else 2 * budget.keys)


def groups_of(budget: Budget, family: str, k: int) -> tuple[Group, ...]:
    """Gaps and checkpoints T. Full runs go to 10^5; the discounted rule (linear from T = 10^3 on) stops at 10^4. Beta
    draws are dear, so Thompson's runs beyond 10^4 have the small gaps only: the large ones are not the worst for
    T = 10^4 any more, which `check_reach` makes sure of. The other rules run every gap to the end."""
    scale = float(np.sqrt(k / 8))
    short = Group(tuple(round(g * scale, 6) for g in GAPS), MARKS)
    if not budget.full or family == "discounted":
        return (short,)
    small = tuple(round(g * scale, 6) for g in LONG_GAPS)
    large = tuple(gap for gap in short.gaps if gap not in small)
    if family == "thompson":
        return (Group(large, MARKS), Group(small, LONG_MARKS))
    return (Group(large + small, LONG_MARKS),)


def sizes_of(groups: tuple[Group, ...]) -> list[dict[str, Any]]:
    """The groups for a result's `sizes`."""
    return [{"gaps": g.gaps, "T": g.marks} for g in groups]


def capacities_of(budget: Budget) -> tuple[int, ...]:
    """K of the runs at the worst gap for each T."""
    return (2, 8) if budget.full else (8,)


class Row(NamedTuple):
    """entry: table row.  exponent: over all T.  late: over the later half of them.  means: per T."""

    entry: dict[str, Any]
    exponent: Interval
    late: Interval
    means: list[Interval]


def series_of(label: str, marks: np.ndarray, means: list[Interval]) -> dict[str, Any]:
    """One curve of a plot."""
    return {
        "label": label,
        "x": marks,
        "y": [m.value for m in means],
        "low": [m.low for m in means],
        "high": [m.high for m in means],
    }


def plot_of(name: str, title: str, series: list[dict[str, Any]]) -> dict[str, Any]:
    """A plot of regret against T."""
    return {
        "name": name, "title": title, "x": "steps T", "y": "regret, requests", "x_log": True, "y_log": True,
        "series": series,
    }  # fmt: skip


def row_of(label: str, k: int, worst: Worst, budget: Budget, looks: int, worst_case: bool = True) -> Row:
    """Exponents, constants and growth class of one rule.

    Args:
      looks: intervals that one verdict reads together.
      worst_case: the gap is the worst for each T (a minimax statement), not one fixed gap.
    """
    means = worst.means(budget.root_key, looks)
    exponent, late = (w.exponent(budget.root_key, looks) for w in (worst, worst.late()))
    last, t = means[-1], float(worst.marks[-1])
    entry = {
        "label": label, "K": k, "T": worst.marks, "regret": [m.value for m in means], "gap": worst.gap,
        "exponent": list(exponent), "late exponent": list(late), "late from T": worst.late().marks[0],
        "growth": str(predicates.growth(exponent, worst_case)), "late growth": str(predicates.growth(late, False)),
        "per sqrt(KT)": last.value / np.sqrt(k * t), "per sqrt(KT log T)": last.value / np.sqrt(k * t * np.log(t)),
        "per T": last.value / t, "per step between marks": worst.rates(),
    }  # fmt: skip
    return Row(entry, exponent, late, means)


def check_reach(found: dict[str, Worst], groups: tuple[Group, ...]) -> None:
    """Whether the gaps that stop early had stopped to be the worst when they did.

    Raises:
      TheoryError: the worst gap at the last checkpoint of the first group is one of that group.
    """
    last = len(groups[0].marks) - 1
    for label, worst in found.items():
        if worst.gap[last] in groups[0].gaps:
            raise TheoryError(f"{label}: gap {worst.gap[last]} is the worst at T = {groups[0].marks[-1]}, run it on")


def rows_of(budget: Budget, family: str, world: World, looks: int) -> dict[str, Row]:
    """Rows of every variant of a family at the worst gap for each T."""
    groups = groups_of(budget, family, world.k)
    found = worst_gap(family, world, groups, keys_of(budget), budget.root_key)
    if len(groups) > 1:
        check_reach(found, groups)
    return {label: row_of(label, world.k, worst, budget, looks) for label, worst in found.items()}


def sublinear(exponents: list[Interval]) -> Verdict:
    """The verdict on 'regret is sublinear': one linear size refutes it."""
    classes = [predicates.growth(e, False) for e in exponents]
    if Growth.LINEAR in classes:
        return Verdict.REFUTED
    return Verdict.HOLDS if all(c is Growth.SUBLINEAR for c in classes) else Verdict.UNDECIDED


def largest(exponents: list[Interval]) -> Interval:
    """The exponent with the largest upper end."""
    return max(exponents, key=lambda e: e.high)
