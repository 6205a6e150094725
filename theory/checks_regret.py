"""Regret with fixed arms: Theorems 5 and 6 under bandit and under cache feedback."""

from __future__ import annotations

import numpy as np

from theory import predicates
from theory.bandit import World
from theory.define import Finding, define
from theory.regret import BANDIT, Worst, regrets, worst_gap
from theory.regret_rows import FULL_MARKS, capacities_of, grid, keys_of, plot_of, row_of, series_of, sublinear, worst_of
from theory.results import Budget, Check, Verdict
from theory.statistics import Interval, bootstrap, independent_power_law

LOWER_CONSTANT = 1 / 20
"""Constant of the lower bound sqrt(K T) / 20 (Auer, Cesa-Bianchi, Freund, Schapire, SIAM J. Comput. 32, 2002)."""


def _wide(budget: Budget) -> tuple[tuple[int, ...], tuple[float, ...], tuple[int, ...]]:
    """Capacities, gaps and checkpoints of the growth in K."""
    if budget.full:
        return (2, 4, 8, 16, 32, 64), (0.2, 0.1, 0.05, 0.025), (100, 316, 1000, 3162, 10_000)
    return (2, 8, 32), (0.4, 0.2, 0.1, 0.05), (100, 316, 1000, 3162)


def _over_t(budget: Budget, kind: str, families: tuple[str, ...], capacities: tuple[int, ...]) -> tuple:
    gaps, marks = grid(budget)
    looks = len(capacities)
    table, series, exponents = [], [], {}
    for k in capacities:
        for family in families:
            for label, worst in worst_gap(
                family, World(kind, k, True), gaps, marks, keys_of(budget), budget.root_key
            ).items():
                row, exponent, means = row_of(label, k, worst, budget, looks)
                table.append(row)
                exponents[label, k] = exponent
                series.append(series_of(f"{label}, K={k}: {exponent.value:.2f}", worst.marks, means))
    sizes = {"world": kind, "K": capacities, "T": marks, "gaps": gaps}
    return table, series, exponents, sizes


def _order_sqrt_t(budget: Budget, kind: str, families: tuple[str, ...], name: str, title: str, notes: str) -> Finding:
    """Thompson's exponents in T over the capacities; `notes` may name `{looks}`."""
    capacities = capacities_of(budget)
    table, series, exponents, sizes = _over_t(budget, kind, families, capacities)
    worst = worst_of(exponents, "thompson")
    return Finding(
        verdict=predicates.both(*(predicates.sqrt_upper(e) for (n, _), e in exponents.items() if n == "thompson")),
        figure=worst.value, figure_name="largest exponent of worst-gap regret in T", unit="1",
        interval=(worst.low, worst.high), predicted=0.5, sizes=sizes, keys=keys_of(budget),
        notes=notes.format(looks=f"{len(capacities)} look(s)"),
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
    gaps, _ = grid(budget)
    marks = tuple(100 * 2**j for j in range(1, 11 if budget.full else 7))
    table, series, exponents = [], [], {}
    for family in ("thompson", "discounted"):
        runs = worst_gap(family, World("phases", 8, True), gaps, marks, keys_of(budget), budget.root_key)
        for label, worst in runs.items():
            row, exponent, means = row_of(label, 8, worst, budget, 1)
            table.append(row)
            exponents[label, 8] = exponent
            series.append(series_of(f"{label}: {exponent.value:.2f}", worst.marks, means))
    found = exponents["thompson", 8]
    return Finding(
        verdict=sublinear([found]), figure=found.value, figure_name="exponent of worst-gap regret in T", unit="1",
        interval=(found.low, found.high), predicted=0.5, sizes={"K": [8], "T": marks, "gaps": gaps}, keys=keys_of(budget),
        notes="The posterior never forgets, so after a change it needs about as many steps as came before. Discounting "
        "(0.99) is the remedy, at the price of linear regret at small gaps.",
        data={"table": table, "plots": [plot_of("regret_phases", "Phases of doubling length (M3)", series)]},
    )  # fmt: skip


@define("regret_lower", "Every rule has worst-gap regret at least sqrt(K T)/20 under bandit feedback", "T6, S20")
def regret_lower(budget: Budget) -> Finding:
    """The lower-bound instance of Theorem 6: one arm better by a gap, which is the worst for K and T."""
    gaps, marks = grid(budget)
    capacities = capacities_of(budget)
    table, figures, bounds = [], [], []
    looks = len(capacities) * len(BANDIT) * len(marks)
    for k in capacities:
        for family in BANDIT:
            for label, worst in worst_gap(
                family, World("pull", k, True), gaps, marks, keys_of(budget), budget.root_key
            ).items():
                scale = np.sqrt(k * worst.marks)
                means = worst.means(budget.root_key, looks)
                figures += [Interval(*(v / s for v in m)) for m, s in zip(means, scale, strict=True)]
                bounds += [LOWER_CONSTANT] * len(marks)
                table.append(
                    {"label": label, "K": k, "T": marks, "per sqrt(KT)": [m.value for m in figures[-len(marks) :]]}
                )
    least = min(figures, key=lambda f: f.low)
    verdict = predicates.at_least(figures, bounds)
    holds = verdict is Verdict.HOLDS
    return Finding(
        verdict=Verdict.HOLDS_UNDER if holds else verdict,
        condition=f"bandit feedback, and the {len(BANDIT)} rules tried" if holds else None,
        figure=least.value, figure_name="least worst-gap R/sqrt(KT) over rules, K and T", unit="1",
        interval=(least.low, least.high), predicted=LOWER_CONSTANT,
        sizes={"K": capacities, "T": marks, "gaps": gaps, "rules": BANDIT}, keys=keys_of(budget),
        notes=f"A statement about all rules cannot be proved by running some; here none breaks it. {looks} looks.",
        data={"table": table},
    )  # fmt: skip


@define("minimax_k", "Every rule has regret that grows as sqrt(K) under cache feedback", "T6, S20")
def minimax_k(budget: Budget) -> Finding:
    """Exponent of the worst-gap regret in K, where a cache sees all residents, beside the textbook bandit's."""
    capacities, gaps, marks = _wide(budget)
    table, series, found = [], [], {}
    for kind, name in (("leave", "cache feedback (M1)"), ("pull", "bandit feedback (B1)")):
        worst = [
            worst_gap("thompson", World(kind, k, True), gaps, marks, keys_of(budget), budget.root_key)["thompson"]
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
    t = marks[-1]
    own = found["leave"]
    plot = plot_of("minimax_k", f"Worst-gap regret of Thompson at T = {t}", series) | {"x": "capacity K"}
    return Finding(
        verdict=predicates.sqrt_lower(own), figure=own.value, figure_name="exponent of worst-gap regret in K", unit="1",
        interval=(own.low, own.high), predicted=0.5, sizes={"K": capacities, "T": t, "gaps": gaps}, keys=keys_of(budget),
        notes=f"One rule below sqrt(K) refutes a bound on all rules. Under bandit feedback the same rule has exponent "
        f"{found['pull'].value:.2f} [{found['pull'].low:.2f}, {found['pull'].high:.2f}]: the bound is one for "
        f"bandits, and "
        "a cache is not a bandit. 2 looks.",
        data={"table": table, "plots": [plot]},
    )  # fmt: skip


@define("regret_wide", "Thompson with fixed arms stays sublinear in wide caches (K = 64 in full runs)", "T5, S19")
def regret_wide(budget: Budget) -> Finding:
    """The largest capacity, both feedback models, one gap: it checks sizes, not the minimax rate."""
    capacities, gaps, marks = _wide(budget)
    k = capacities[-1]
    if budget.full:
        gaps, marks = (0.2,), FULL_MARKS
    table, series, exponents = [], [], []
    for kind in ("pull", "leave"):
        if budget.full:
            run = regrets("thompson", World(kind, k, True), gaps, marks, keys_of(budget), budget.root_key)["thompson"]
            found = Worst(run.regret[:, 0], np.full(len(marks), gaps[0]), run.marks)
        else:
            found = worst_gap("thompson", World(kind, k, True), gaps, marks, keys_of(budget), budget.root_key)[
                "thompson"
            ]
        # The first steps of a wide cache only fill the posterior: linear whatever the rule.
        late = slice(len(marks) // 2, None)
        worst = Worst(found.regret[:, late], found.gap[late], found.marks[late])
        row, exponent, means = row_of(kind, k, worst, budget, 2)
        row["growth"] = str(predicates.growth(exponent, False))
        table.append(row)
        exponents.append(exponent)
        series.append(series_of(f"{kind}: {exponent.value:.2f}", worst.marks, means))
    largest = max(exponents, key=lambda e: e.high)
    return Finding(
        verdict=sublinear(exponents), figure=largest.value, figure_name="largest exponent in T", unit="1",
        interval=(largest.low, largest.high), sizes={"K": k, "T": marks, "gaps": gaps}, keys=keys_of(budget),
        notes="Exponent over the later half of the checkpoints; full runs use one fixed gap, which verifies no minimax "
        "rate. 2 looks.",
        data={"table": table, "plots": [plot_of("regret_wide", f"K = {k}", series)]},
    )  # fmt: skip


CHECKS: list[Check] = [
    regret_bandit, regret_cache_feedback, regret_phases, regret_lower, minimax_k, regret_wide,
]  # fmt: skip
