"""Regret of eviction as it runs: statistics are lost at an eviction, and only uses are seen."""

from __future__ import annotations

import numpy as np

from theory import predicates
from theory.bandit import World
from theory.define import Finding, define
from theory.predicates import Growth
from theory.regret import AS_RUN, Worst, regrets
from theory.regret_rows import (
    LONG_MARKS,
    MARKS,
    Row,
    keys_of,
    largest,
    plot_of,
    row_of,
    series_of,
    sublinear,
)
from theory.results import Budget, Check, Verdict

AS_RUN_GAP = 0.2
CLASSIC = ("fifo", "lru", "lfu", "arc", "random")
NEAR = 0.5


def as_run_capacities(budget: Budget) -> tuple[int, ...]:
    """K of the caches as they run."""
    return (2, 8, 64) if budget.full else (8,)


def _marks(budget: Budget, kind: str, k: int) -> tuple[int, ...]:
    """Full runs reach 10^5 at K = 2 (fresh arrivals: 31,623); wider caches stop at 10^4, where their regret has long
    been a straight line (a longer run would draw the line on)."""
    if not budget.full or k != 2:
        return MARKS
    return LONG_MARKS if kind == "cycle" else LONG_MARKS[:-1]


def _as_run(budget: Budget, kind: str, families: tuple[str, ...]) -> list[Row]:
    """A row for every rule at every K."""
    capacities = as_run_capacities(budget)
    rows = []
    for k in capacities:
        for family in families:
            marks = _marks(budget, kind, k)
            runs = regrets(family, World(kind, k, False, NEAR), (AS_RUN_GAP,), marks, keys_of(budget), budget.root_key)
            for label, run in runs.items():
                fixed = Worst(run.regret[:, 0], np.full(len(marks), AS_RUN_GAP), run.marks)
                rows.append(row_of(label, k, fixed, budget, len(capacities), False))
    return rows


def _plots(rows: list[Row], name: str, title: str) -> list[dict]:
    """A plot for each K: the rules at several K would be too many curves for one."""
    return [
        plot_of(
            f"{name}_{k}", f"{title}, K = {k}",
            [
                series_of(f"{row.entry['label']}: {row.late.value:.2f}", row.entry["T"], row.means)
                for row in rows
                if row.entry["K"] == k
            ],
        )
        for k in dict.fromkeys(row.entry["K"] for row in rows)
    ]  # fmt: skip


def _sizes(budget: Budget, kind: str) -> dict:
    marks = {f"K = {k}": _marks(budget, kind, k) for k in as_run_capacities(budget)}
    return {"world": kind, "K": as_run_capacities(budget), "T": marks, "gap": AS_RUN_GAP}


def _as_run_finding(budget: Budget, kind: str, title: str, notes: str) -> Finding:
    quick = ("solar_e", "solar_e_paper", *CLASSIC) if kind == "cycle" else ("solar_e", "fifo", "random")
    rows = _as_run(budget, kind, AS_RUN if budget.full else quick)
    own = [row for row in rows if row.entry["label"] == "solar_e"]
    worst, whole = largest([r.late for r in own]), largest([r.exponent for r in own])
    per_t = max(r.entry["per T"] for r in own)
    rates = own[-1].entry["per step between marks"]
    return Finding(
        verdict=sublinear([r.late for r in own]), figure=worst.value,
        figure_name="exponent of solar_e's regret over the later half of T", unit="1",
        interval=(worst.low, worst.high), predicted=0.5, sizes=_sizes(budget, kind), keys=keys_of(budget),
        notes=f"R/T = {per_t:.3g} at the largest T. {notes} Same cosine ({NEAR}) between good items, bad ones apart: "
        f"the similarity bonus then favours the bad. Over all T the exponent is {whole.value:.2f}; what exceeds 1 is "
        f"the start. Regret per step between the last checkpoints: {rates[-2]:.4f}, then {rates[-1]:.4f}.",
        data={"table": [r.entry for r in rows], "plots": _plots(rows, f"regret_{kind}", title)},
    )  # fmt: skip


@define(
    "regret_as_run", "Thompson eviction as it runs (statistics lost at eviction, uses only) is sublinear", "T5, S19"
)
def regret_as_run(budget: Budget) -> Finding:
    """K slots, K + 1 items of fixed utility, the missing one always arrives."""
    return _as_run_finding(
        budget, "cycle", "As run, all but one of the items (M1)",
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
    rows = _as_run(budget, "cycle", CLASSIC)
    found = min((r.late for r in rows), key=lambda e: e.low)
    linear = all(predicates.growth(r.late, False) is Growth.LINEAR for r in rows)
    return Finding(
        verdict=Verdict.HOLDS if linear else Verdict.UNDECIDED,
        figure=found.value, figure_name="smallest exponent over the classic rules, later half of T", unit="1",
        interval=(found.low, found.high), predicted=1.0, sizes=_sizes(budget, "cycle"), keys=keys_of(budget),
        notes="One instance with linear regret shows the claim for a rule. The instance: K + 1 items, one of them used "
        "less often. Cost ratios of the same rules: lb_zoo.",
        data={
            "table": [r.entry for r in rows],
            "plots": _plots(rows, "classic_linear", "Classic rules, all but one of the items"),
        },
    )  # fmt: skip


@define(
    "both_guarantees", "Only SOLAR has sublinear regret among all policies (half of the table of guarantees)", "S30"
)
def both_guarantees(budget: Budget) -> Finding:
    """The regret column of the table of guarantees; the ratio column is `adversary` and `lb_zoo`."""
    families = AS_RUN if budget.full else ("solar_e", "solar_e_paper", *CLASSIC)
    rows = _as_run(budget, "cycle", families)
    own = [r.late for r in rows if r.entry["label"] == "solar_e"]
    worst = largest(own)
    growths = {f"{r.entry['label']}, K={r.entry['K']}": r.entry["late growth"] for r in rows}
    return Finding(
        verdict=sublinear(own), figure=worst.value, figure_name="exponent of SOLAR's eviction regret, later half of T",
        unit="1", interval=(worst.low, worst.high), predicted=0.5, sizes=_sizes(budget, "cycle"), keys=keys_of(budget),
        notes="The claim needs SOLAR itself to be sublinear; where its release is linear, no policy has both "
        f"guarantees. Compared as run: {', '.join(families)}. Regret is no ratio to OPT, so there is no counterexample "
        "file.",
        data={"growth": growths, "table": [r.entry for r in rows]},
    )  # fmt: skip


CHECKS: list[Check] = [regret_as_run, regret_fresh, classic_linear, both_guarantees]
