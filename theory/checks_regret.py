"""Regret with fixed arms: Theorems 5 and 6 under bandit and under cache feedback."""

from __future__ import annotations

from typing import Any

import numpy as np

from theory import predicates
from theory.bandit import World
from theory.define import Finding, define
from theory.regret import BANDIT, Group, worst_gap
from theory.regret_rows import (
    GAPS,
    LONG_MARKS,
    MARKS,
    Row,
    capacities_of,
    groups_of,
    keys_of,
    largest,
    plot_of,
    row_of,
    rows_of,
    series_of,
    sizes_of,
    sublinear,
)
from theory.results import Budget, Check, Verdict
from theory.statistics import Interval, bootstrap, independent_power_law

LOWER_CONSTANT = 1 / 20
"""Constant of the lower bound sqrt(K T) / 20 (Auer, Cesa-Bianchi, Freund, Schapire, SIAM J. Comput. 32, 2002)."""
PHASE_GAPS = (0.4, 0.2, 0.1)
ENOUGH = 100
"""Keys below which an exponent that is near its limit gets one verdict from some keys and another from others."""


def _order_sqrt_t(budget: Budget, kind: str, families: tuple[str, ...], name: str, title: str, notes: str) -> Finding:
    """Thompson's exponents in T over the capacities; `notes` may name `{looks}`."""
    capacities = capacities_of(budget)
    table, series = [], []
    own: list[Row] = []
    for k in capacities:
        for family in families:
            for label, row in rows_of(budget, family, World(kind, k, True), len(capacities)).items():
                table.append(row.entry)
                series.append(series_of(f"{label}, K={k}: {row.exponent.value:.2f}", row.entry["T"], row.means))
                own += [row] if label == "thompson" else []
    worst, late = largest([r.exponent for r in own]), largest([r.late for r in own])
    return Finding(
        verdict=predicates.both(*(predicates.sqrt_upper(r.exponent) for r in own)),
        figure=worst.value, figure_name="largest exponent of worst-gap regret in T", unit="1",
        interval=(worst.low, worst.high), predicted=0.5,
        sizes={
            "world": kind, "K": capacities, "rules": families,
            "groups": {f"K = {k}": sizes_of(groups_of(budget, "thompson", k)) for k in capacities},
            "discounted": "gaps and T of the first group", "other rules": "every gap at every T",
        },
        keys=keys_of(budget),
        notes=notes.format(looks=f"{len(capacities)} look(s)") + f" Over the later half of T: {late.value:.2f} "
        f"[{late.low:.2f}, {late.high:.2f}].",
        data={"table": table, "plots": [plot_of(name, title, series)]},
    )  # fmt: skip


@define("regret_bandit", "Thompson sampling on the textbook bandit has worst-gap regret of order sqrt(T)", "T5, S19")
def regret_bandit(budget: Budget) -> Finding:
    """The stylised statement: fixed arms, one observed per step, the worst gap at every T."""
    return _order_sqrt_t(
        budget, "pull", BANDIT, "regret_bandit", "Textbook bandit (B1), worst gap",
        "Holds means: exponent at most 0.6 as a whole interval at every K; the gap is the worst for each T, chosen on "
        "other keys. {looks}. The other rules are yardsticks; discounting forgets, so its regret is linear on a "
        "stationary bandit.",
    )  # fmt: skip


@define(
    "regret_cache_feedback",
    "Thompson sampling with fixed arms and cache feedback has regret of order sqrt(T)",
    "T5, S19",
)
def regret_cache_feedback(budget: Budget) -> Finding:
    """Fixed arms, all residents observed: the reading of Theorem 5 that is closest to a cache."""
    families = ("thompson", "discounted", "ucb", "epsilon") if budget.full else ("thompson", "ucb")
    return _order_sqrt_t(
        budget, "leave", families, "regret_cache_feedback", "Fixed arms, cache feedback (M1)",
        "The posterior is told of uses and of non-uses and survives an eviction, as the theorem assumes; the cache "
        "does neither (regret_as_run). Holds means: exponent at most 0.6 as a whole interval. {looks}.",
    )  # fmt: skip


@define("regret_phases", "Thompson eviction stays sublinear when utilities change O(log T) times", "T5, S19, S26")
def regret_phases(budget: Budget) -> Finding:
    """Fixed arms with the full posterior; the bad item changes at T = 100, 200, 400, ..."""
    marks = tuple(100 * 2**j for j in range(1, 8 if budget.full else 7))
    groups = (Group(PHASE_GAPS, marks),)
    table, series, rows = [], [], {}
    for family in ("thompson", "discounted"):
        runs = worst_gap(family, World("phases", 8, True), groups, keys_of(budget, ENOUGH), budget.root_key)
        for label, worst in runs.items():
            rows[label] = row = row_of(label, 8, worst, budget, 1)
            table.append(row.entry)
            series.append(series_of(f"{label}: {row.late.value:.2f}", worst.marks, row.means))
    own = rows["thompson"]
    rates = own.entry["per step between marks"]
    return Finding(
        verdict=sublinear([own.late]), figure=own.late.value,
        figure_name=f"exponent of worst-gap regret in T from T = {own.entry['late from T']}", unit="1",
        interval=(own.late.low, own.late.high), predicted=0.5, sizes={"K": [8], "groups": sizes_of(groups)},
        keys=keys_of(budget, ENOUGH),
        notes="The posterior never forgets, so after a change it needs about as many steps as came before. Discounting "
        f"(0.99) is the remedy, at the price of linear regret at small gaps. Over all T the exponent is "
        f"{own.exponent.value:.2f}: the first phase is learnt at leisure and costs little, which bends the slope above "
        f"1. Regret per step between the last checkpoints: {rates[-2]:.4f}, then {rates[-1]:.4f}.",
        data={"table": table, "plots": [plot_of("regret_phases", "Phases of doubling length (M3)", series)]},
    )  # fmt: skip


@define("regret_lower", "Every rule has worst-gap regret at least sqrt(K T)/20 under bandit feedback", "T6, S20")
def regret_lower(budget: Budget) -> Finding:
    """The lower-bound instance of Theorem 6: one arm better by a gap, which is the worst for K and T."""
    capacities = capacities_of(budget)
    table: list[dict[str, Any]] = []
    figures: list[Interval] = []
    looks = len(capacities) * sum(len(groups_of(budget, family, 8)[-1].marks) for family in BANDIT)
    for k in capacities:
        for family in BANDIT:
            groups = groups_of(budget, family, k)
            found = worst_gap(family, World("pull", k, True), groups, keys_of(budget), budget.root_key)
            for label, worst in found.items():
                scale = np.sqrt(k * worst.marks)
                means = worst.means(budget.root_key, looks)
                own = [Interval(*(v / s for v in m)) for m, s in zip(means, scale, strict=True)]
                figures += own
                table.append({"label": label, "K": k, "T": worst.marks, "per sqrt(KT)": [m.value for m in own]})
    least = min(figures, key=lambda f: f.low)
    verdict = predicates.at_least(figures, LOWER_CONSTANT)
    holds = verdict is Verdict.HOLDS
    return Finding(
        verdict=Verdict.HOLDS_UNDER if holds else verdict,
        condition=f"bandit feedback, and the {len(BANDIT)} rules tried" if holds else None,
        figure=least.value, figure_name="least worst-gap R/sqrt(KT) over rules, K and T", unit="1",
        interval=(least.low, least.high), predicted=LOWER_CONSTANT,
        sizes={
            "K": capacities, "rules": BANDIT,
            "groups": {f"K = {k}": sizes_of(groups_of(budget, "thompson", k)) for k in capacities},
        },
        keys=keys_of(budget),
        notes=f"A statement about all rules cannot be proved by running some; here none breaks it. {looks} looks.",
        data={"table": table},
    )  # fmt: skip


WIDE, WIDE_MARKS = (2, 8, 32), MARKS[:-1]
"""Capacities and checkpoints of the growth in K."""
WIDE_GAP, WIDE_RULES = 0.2, ("thompson", "ucb", "epsilon", "random")
"""The fixed gap and the rules of the widest caches."""


@define("minimax_k", "Every rule has regret that grows as sqrt(K) under cache feedback", "T6, S20")
def minimax_k(budget: Budget) -> Finding:
    """Exponent of the worst-gap regret in K, where a cache sees all residents, beside the textbook bandit's."""
    capacities, marks = WIDE, WIDE_MARKS
    groups = (Group(GAPS, marks),)
    table, series, found = [], [], {}
    for kind, name in (("leave", "cache feedback (M1)"), ("pull", "bandit feedback (B1)")):
        worst = [
            worst_gap(
                "thompson", World(kind, k, True), groups, keys_of(budget, ENOUGH), budget.root_key, selection=1.0
            )["thompson"]
            for k in capacities
        ]
        runs = np.stack([w.regret[:, -1] for w in worst], axis=1)
        found[kind] = independent_power_law(np.asarray(capacities), runs, budget.root_key, looks=2)
        means = [bootstrap(column, np.mean, budget.root_key) for column in runs.T]
        series.append(series_of(f"{name}: {found[kind].value:.2f}", np.asarray(capacities), means))
        table.append(
            {
                "label": name, "K": capacities, "regret": runs.mean(axis=0), "gap": [w.gap[-1] for w in worst],
                "exponent": list(found[kind]),
            }
        )  # fmt: skip
    own, other = found["leave"], found["pull"]
    plot = plot_of("minimax_k", f"Worst-gap regret of Thompson at T = {marks[-1]}", series) | {"x": "capacity K"}
    return Finding(
        verdict=predicates.sqrt_lower(own), figure=own.value, figure_name="exponent of worst-gap regret in K", unit="1",
        interval=(own.low, own.high), predicted=0.5, sizes={"K": capacities, "T": marks[-1], "gaps": GAPS},
        keys=keys_of(budget, ENOUGH),
        notes=f"One rule below sqrt(K) refutes a bound on all rules. Under bandit feedback the same rule has exponent "
        f"{other.value:.2f} [{other.low:.2f}, {other.high:.2f}]: the bound is one for bandits, and a cache is not a "
        "bandit. 2 looks. A regret is no ratio to OPT, so there is no counterexample file.",
        data={"table": table, "plots": [plot]},
    )  # fmt: skip


@define("regret_wide", "Thompson with fixed arms stays sublinear in wide caches (K = 64 in full runs)", "T5, S19")
def regret_wide(budget: Budget) -> Finding:
    """The largest capacity, both feedback models; full runs: one gap, so it checks sizes, not the minimax rate."""
    marks = LONG_MARKS if budget.full else WIDE_MARKS
    k = 64 if budget.full else 16
    gaps = (WIDE_GAP,) if budget.full else GAPS
    table, series, exponents = [], [], []
    for kind in ("pull", "leave"):
        world = World(kind, k, True)
        for family in WIDE_RULES if budget.full else ("thompson",):
            found = worst_gap(family, world, (Group(gaps, marks),), keys_of(budget), budget.root_key)
            for label, worst in found.items():
                # The first steps of a wide cache only fill the posterior: linear whatever the rule.
                row = row_of(f"{label} ({kind})", k, worst, budget, 2, not budget.full)
                table.append(row.entry)
                exponents += [row.late] if family == "thompson" else []
                series.append(series_of(f"{label} ({kind}): {row.late.value:.2f}", worst.marks, row.means))
    top = largest(exponents)
    return Finding(
        verdict=sublinear(exponents), figure=top.value, figure_name="largest exponent over the later half of T",
        unit="1", interval=(top.low, top.high), sizes={"K": k, "T": marks, "gaps": gaps}, keys=keys_of(budget),
        notes="Full runs use one fixed gap, which verifies no minimax rate. 2 looks. The other rules are yardsticks.",
        data={"table": table, "plots": [plot_of("regret_wide", f"K = {k}", series)]},
    )  # fmt: skip


CHECKS: list[Check] = [
    regret_bandit, regret_cache_feedback, regret_phases, regret_lower, minimax_k, regret_wide,
]  # fmt: skip
