"""Sizes of the regret checks, and the rows and curves they share."""

from __future__ import annotations

import numpy as np

from theory import predicates
from theory.predicates import Growth
from theory.regret import Worst
from theory.results import Budget, Verdict
from theory.statistics import Interval

QUICK_GAPS, FULL_GAPS = (0.4, 0.2, 0.1, 0.05), (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125)
QUICK_MARKS, FULL_MARKS = (100, 316, 1000, 3162, 10_000), (100, 316, 1000, 3162, 10_000, 31_623, 100_000)


def keys_of(budget: Budget) -> int:
    """Regret varies much from key to key and costs little next to compiling, so a quick look takes more keys."""
    return budget.keys if budget.full else 4 * budget.keys


def grid(budget: Budget) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Gaps and checkpoints T."""
    return (FULL_GAPS, FULL_MARKS) if budget.full else (QUICK_GAPS, QUICK_MARKS)


def capacities_of(budget: Budget) -> tuple[int, ...]:
    """K of the runs that reach the largest T."""
    return (2, 8) if budget.full else (8,)


def series_of(label: str, marks: np.ndarray, means: list[Interval]) -> dict:
    """One curve of a plot."""
    return {
        "label": label,
        "x": marks,
        "y": [m.value for m in means],
        "low": [m.low for m in means],
        "high": [m.high for m in means],
    }


def plot_of(name: str, title: str, series: list[dict]) -> dict:
    """A plot of regret against T."""
    return {
        "name": name, "title": title, "x": "steps T", "y": "regret, requests", "x_log": True, "y_log": True,
        "series": series,
    }  # fmt: skip


def row_of(label: str, k: int, worst: Worst, budget: Budget, looks: int) -> tuple[dict, Interval, list[Interval]]:
    """Table row of a worst-gap run: exponent, constants and class."""
    means = worst.means(budget.root_key, looks)
    exponent = worst.exponent(budget.root_key, looks)
    last, t = means[-1], float(worst.marks[-1])
    return (
        {
            "label": label, "K": k, "T": worst.marks, "regret": [m.value for m in means], "gap": worst.gap,
            "exponent": list(exponent), "growth": str(predicates.growth(exponent, True)),
            "per sqrt(KT)": last.value / np.sqrt(k * t), "per sqrt(KT log T)": last.value / np.sqrt(k * t * np.log(t)),
            "per T": last.value / t,
        },
        exponent,
        means,
    )  # fmt: skip


def sublinear(exponents: list[Interval]) -> Verdict:
    """The verdict on 'regret is sublinear': one linear size refutes it."""
    classes = [predicates.growth(e, False) for e in exponents]
    if Growth.LINEAR in classes:
        return Verdict.REFUTED
    return Verdict.HOLDS if all(c is Growth.SUBLINEAR for c in classes) else Verdict.UNDECIDED


def worst_of(exponents: dict, label: str) -> Interval:
    """The largest exponent of one rule over the capacities."""
    return max((e for (name, _), e in exponents.items() if name == label), key=lambda e: e.high)
