"""Regret of eviction as it runs: statistics are lost at an eviction, and only uses are seen."""

from __future__ import annotations

import numpy as np

from theory import predicates
from theory.bandit import World
from theory.define import Finding, define
from theory.predicates import Growth
from theory.regret import AS_RUN, Worst, regrets
from theory.regret_rows import capacities_of, grid, keys_of, plot_of, row_of, series_of, sublinear, worst_of
from theory.results import Budget, Check, Verdict

AS_RUN_GAP = 0.2
CLASSIC = ("fifo", "lru", "lfu", "arc", "random")
NEAR = 0.5


def _as_run(budget: Budget, kind: str, families: tuple[str, ...]) -> tuple[list[dict], list[dict], dict]:
    _, marks = grid(budget)
    capacities = capacities_of(budget)
    table, series, exponents = [], [], {}
    for k in capacities:
        for family in families:
            runs = regrets(family, World(kind, k, False, NEAR), (AS_RUN_GAP,), marks, keys_of(budget), budget.root_key)
            for label, run in runs.items():
                worst = Worst(run.regret[:, 0], np.full(len(marks), AS_RUN_GAP), run.marks)
                row, exponent, means = row_of(label, k, worst, budget, len(capacities))
                row["growth"] = str(predicates.growth(exponent, False))
                table.append(row)
                exponents[label, k] = exponent
                series.append(series_of(f"{label}, K={k}: {exponent.value:.2f}", run.marks, means))
    return table, series, exponents


def _as_run_finding(budget: Budget, kind: str, title: str, notes: str) -> Finding:
    quick = ("solar_e", "solar_e_paper", *CLASSIC) if kind == "cycle" else ("solar_e", "fifo", "random")
    table, series, exponents = _as_run(budget, kind, AS_RUN if budget.full else quick)
    own = [e for (label, _), e in exponents.items() if label == "solar_e"]
    worst = worst_of(exponents, "solar_e")
    per_t = max(row["per T"] for row in table if row["label"] == "solar_e")
    return Finding(
        verdict=sublinear(own), figure=worst.value, figure_name="exponent of solar_e's regret in T", unit="1",
        interval=(worst.low, worst.high), predicted=0.5,
        sizes={"world": kind, "K": sorted({k for _, k in exponents}), "T": table[0]["T"], "gap": AS_RUN_GAP},
        keys=keys_of(budget),
        notes=f"R/T = {per_t:.3g} at the largest T. {notes} Same cosine ({NEAR}) between good items, bad ones apart: "
        "the similarity bonus then favours the bad.",
        data={"table": table, "plots": [plot_of(f"regret_{kind}", title, series)]},
    )  # fmt: skip


@define(
    "regret_as_run", "Thompson eviction as it runs (statistics lost at eviction, uses only) is sublinear", "T5, S19"
)
def regret_as_run(budget: Budget) -> Finding:
    """K slots, K + 1 items of fixed utility, the missing one always arrives."""
    return _as_run_finding(
        budget, "cycle", "As run, K of K + 1 items (M1)",
        "Benchmark: the best rule on the same admission schedule, which gives up the bad item every other step.",
    )  # fmt: skip


@define("regret_fresh", "Thompson eviction as it runs is sublinear when every arrival is a new arm", "T5, S19")
def regret_fresh(budget: Budget) -> Finding:
    """Fresh arrivals of two kinds."""
    return _as_run_finding(
        budget, "fresh", "As run, fresh arrivals (M2)",
        "Benchmark: the rule that knows utilities, on the same admission schedule. Without the novelty bonus the rule "
        "does better, see the table.",
    )  # fmt: skip


@define("classic_linear", "The classic eviction rules have linear regret (fifo, lru, lfu, arc, random)", "E3, S30")
def classic_linear(budget: Budget) -> Finding:
    """Growth classes on the world `cycle`: one instance family serves all five."""
    names = CLASSIC
    table, series, exponents = _as_run(budget, "cycle", names)
    classes = {name: [predicates.growth(e, False) for (n, _), e in exponents.items() if n == name] for name in names}
    found = min((e for e in exponents.values()), key=lambda e: e.low)
    linear = all(c is Growth.LINEAR for cs in classes.values() for c in cs)
    return Finding(
        verdict=Verdict.HOLDS if linear else Verdict.UNDECIDED,
        figure=found.value, figure_name="smallest exponent over the classic rules", unit="1",
        interval=(found.low, found.high), predicted=1.0,
        sizes={"K": sorted({k for _, k in exponents}), "T": table[0]["T"], "gap": AS_RUN_GAP}, keys=keys_of(budget),
        notes="One instance with linear regret shows the claim for a rule. The instance: K + 1 items, one of them used "
        "less often. Cost ratios of the same rules: lb_zoo.",
        data={"table": table, "plots": [plot_of("classic_linear", "Classic rules, K of K + 1 items", series)]},
    )  # fmt: skip


@define(
    "both_guarantees", "Only SOLAR has sublinear regret among all policies (half of the table of guarantees)", "S30"
)
def both_guarantees(budget: Budget) -> Finding:
    """The regret column of the table of guarantees; the ratio column is `adversary` and `lb_zoo`."""
    families = AS_RUN if budget.full else ("solar_e", "solar_e_paper", *CLASSIC)
    table, _, exponents = _as_run(budget, "cycle", families)
    own = [e for (label, _), e in exponents.items() if label == "solar_e"]
    worst = max(own, key=lambda e: e.high)
    growths = {f"{label}, K={k}": str(predicates.growth(e, False)) for (label, k), e in exponents.items()}
    return Finding(
        verdict=sublinear(own), figure=worst.value, figure_name="exponent of SOLAR's eviction regret", unit="1",
        interval=(worst.low, worst.high), predicted=0.5,
        sizes={"K": sorted({k for _, k in exponents}), "T": table[0]["T"], "gap": AS_RUN_GAP}, keys=keys_of(budget),
        notes="The claim needs SOLAR itself to be sublinear; where its release is linear, no policy has both "
        f"guarantees. "
        f"Compared as run: {', '.join(families)}.",
        data={"growth": growths, "table": table},
    )  # fmt: skip


CHECKS: list[Check] = [regret_as_run, regret_fresh, classic_linear, both_guarantees]
