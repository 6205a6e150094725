"""Regret: Theorems 4 to 6, the algorithm as it runs, and the table of who has which guarantee."""

from __future__ import annotations

import numpy as np

from theory import predicates
from theory.bandit import World
from theory.define import Finding, define
from theory.predicates import Growth
from theory.regret import AS_RUN, BANDIT, Worst, regrets, worst_gap
from theory.results import Budget, Check, Verdict
from theory.statistics import Interval, bootstrap, independent_power_law

QUICK_GAPS, FULL_GAPS = (0.4, 0.2, 0.1, 0.05), (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125)
QUICK_MARKS, FULL_MARKS = (100, 316, 1000, 3162, 10_000), (100, 316, 1000, 3162, 10_000, 31_623, 100_000)
AS_RUN_GAP = 0.2
CLASSIC = ("fifo", "lru", "lfu", "arc", "random")
NEAR = 0.5
LOWER_CONSTANT = 1 / 20
"""Constant of the lower bound sqrt(K T) / 20 (Auer, Cesa-Bianchi, Freund, Schapire, SIAM J. Comput. 32, 2002)."""


def _grid(budget: Budget) -> tuple[tuple[float, ...], tuple[int, ...]]:
    return (FULL_GAPS, FULL_MARKS) if budget.full else (QUICK_GAPS, QUICK_MARKS)


def _capacities(budget: Budget) -> tuple[int, ...]:
    return (2, 8) if budget.full else (8,)


def _wide(budget: Budget) -> tuple[tuple[int, ...], tuple[float, ...], tuple[int, ...]]:
    """Capacities, gaps and checkpoints of the growth in K."""
    if budget.full:
        return (2, 4, 8, 16, 32, 64), (0.2, 0.1, 0.05, 0.025), (100, 316, 1000, 3162, 10_000)
    return (2, 8, 32), (0.4, 0.2, 0.1), (100, 316, 1000)


def _series(label: str, marks: np.ndarray, means: list[Interval]) -> dict:
    return {
        "label": label,
        "x": marks,
        "y": [m.value for m in means],
        "low": [m.low for m in means],
        "high": [m.high for m in means],
    }


def _plot(name: str, title: str, series: list[dict]) -> dict:
    return {
        "name": name, "title": title, "x": "steps T", "y": "regret, requests", "x_log": True, "y_log": True,
        "series": series,
    }  # fmt: skip


def _row(label: str, k: int, worst: Worst, budget: Budget, looks: int) -> tuple[dict, Interval, list[Interval]]:
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


def _over_t(budget: Budget, kind: str, families: tuple[str, ...], capacities: tuple[int, ...]) -> tuple:
    gaps, marks = _grid(budget)
    looks = len(capacities)
    table, series, exponents = [], [], {}
    for k in capacities:
        for family in families:
            for label, worst in worst_gap(
                family, World(kind, k, True), gaps, marks, budget.keys, budget.root_key
            ).items():
                row, exponent, means = _row(label, k, worst, budget, looks)
                table.append(row)
                exponents[label, k] = exponent
                series.append(_series(f"{label}, K={k}: {exponent.value:.2f}", worst.marks, means))
    sizes = {"world": kind, "K": capacities, "T": marks, "gaps": gaps}
    return table, series, exponents, sizes


def _worst_of(exponents: dict, label: str) -> Interval:
    return max((e for (name, _), e in exponents.items() if name == label), key=lambda e: e.high)


@define("regret_bandit", "Thompson sampling on the textbook bandit has worst-gap regret of order sqrt(T)", "T5, S19")
def regret_bandit(budget: Budget) -> Finding:
    """The stylised statement: fixed arms, one observed per step, the worst gap at every T."""
    capacities = _capacities(budget)
    table, series, exponents, sizes = _over_t(budget, "pull", BANDIT, capacities)
    thompson = [e for (label, _), e in exponents.items() if label == "thompson"]
    worst = _worst_of(exponents, "thompson")
    return Finding(
        verdict=predicates.both(*(predicates.sqrt_upper(e) for e in thompson)),
        figure=worst.value, figure_name="largest exponent of worst-gap regret in T", unit="1",
        interval=(worst.low, worst.high), predicted=0.5, sizes=sizes, keys=budget.keys,
        notes="Holds means: exponent at most 0.6 as a whole interval at every K; the gap is the worst for each T, "
        f"chosen "
        f"on other keys. {len(capacities)} look(s). The other rules are yardsticks; discounting forgets, so its "
        f"regret is "
        "linear on a stationary bandit.",
        data={"table": table, "plots": [_plot("regret_bandit", "Textbook bandit (B1), worst gap", series)]},
    )  # fmt: skip


@define(
    "regret_cache_feedback",
    "Thompson sampling with fixed arms and cache feedback has regret of order sqrt(T)",
    "T5, S19",
)
def regret_cache_feedback(budget: Budget) -> Finding:
    """Fixed arms, all residents observed: the reading of Theorem 5 that is closest to a cache."""
    families = ("thompson", "discounted", "ucb", "epsilon") if budget.full else ("thompson", "ucb")
    capacities = _capacities(budget)
    table, series, exponents, sizes = _over_t(budget, "leave", families, capacities)
    thompson = [e for (label, _), e in exponents.items() if label == "thompson"]
    worst = _worst_of(exponents, "thompson")
    return Finding(
        verdict=predicates.both(*(predicates.sqrt_upper(e) for e in thompson)),
        figure=worst.value, figure_name="largest exponent of worst-gap regret in T", unit="1",
        interval=(worst.low, worst.high), predicted=0.5, sizes=sizes, keys=budget.keys,
        notes="The posterior is told of uses and of non-uses and survives an eviction, as the theorem assumes; the "
        f"cache "
        "does neither (regret_as_run). Holds means: exponent at most 0.6 as a whole interval. "
        f"{len(capacities)} look(s).",
        data={"table": table, "plots": [_plot("regret_cache_feedback", "Fixed arms, cache feedback (M1)", series)]},
    )  # fmt: skip


def _as_run(budget: Budget, kind: str, families: tuple[str, ...]) -> tuple[list[dict], list[dict], dict]:
    _, marks = _grid(budget)
    capacities = _capacities(budget)
    table, series, exponents = [], [], {}
    for k in capacities:
        for family in families:
            runs = regrets(family, World(kind, k, False, NEAR), (AS_RUN_GAP,), marks, budget.keys, budget.root_key)
            for label, run in runs.items():
                worst = Worst(run.regret[:, 0], np.full(len(marks), AS_RUN_GAP), run.marks)
                row, exponent, means = _row(label, k, worst, budget, len(capacities))
                row["growth"] = str(predicates.growth(exponent, False))
                table.append(row)
                exponents[label, k] = exponent
                series.append(_series(f"{label}, K={k}: {exponent.value:.2f}", run.marks, means))
    return table, series, exponents


def _sublinear(exponents: list[Interval]) -> Verdict:
    """The verdict on 'regret is sublinear': one linear size refutes it."""
    classes = [predicates.growth(e, False) for e in exponents]
    if Growth.LINEAR in classes:
        return Verdict.REFUTED
    return Verdict.HOLDS if all(c is Growth.SUBLINEAR for c in classes) else Verdict.UNDECIDED


def _as_run_finding(budget: Budget, kind: str, title: str, notes: str) -> Finding:
    quick = ("solar_e", "solar_e_paper", *CLASSIC) if kind == "cycle" else ("solar_e", "fifo", "random")
    table, series, exponents = _as_run(budget, kind, AS_RUN if budget.full else quick)
    own = [e for (label, _), e in exponents.items() if label == "solar_e"]
    worst = _worst_of(exponents, "solar_e")
    per_t = max(row["per T"] for row in table if row["label"] == "solar_e")
    return Finding(
        verdict=_sublinear(own), figure=worst.value, figure_name="exponent of solar_e's regret in T", unit="1",
        interval=(worst.low, worst.high), predicted=0.5,
        sizes={"world": kind, "K": sorted({k for _, k in exponents}), "T": table[0]["T"], "gap": AS_RUN_GAP},
        keys=budget.keys,
        notes=f"R/T = {per_t:.3g} at the largest T. {notes} Same cosine ({NEAR}) between good items, bad ones apart: "
        "the similarity bonus then favours the bad.",
        data={"table": table, "plots": [_plot(f"regret_{kind}", title, series)]},
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


@define("regret_phases", "Thompson eviction stays sublinear when utilities change O(log T) times", "T5, S19, S26")
def regret_phases(budget: Budget) -> Finding:
    """Fixed arms with the full posterior; the bad item changes at T = 100, 200, 400, ..."""
    gaps, _ = _grid(budget)
    marks = tuple(100 * 2**j for j in range(1, 11 if budget.full else 7))
    table, series, exponents = [], [], {}
    for family in ("thompson", "discounted"):
        runs = worst_gap(family, World("phases", 8, True), gaps, marks, budget.keys, budget.root_key)
        for label, worst in runs.items():
            row, exponent, means = _row(label, 8, worst, budget, 1)
            table.append(row)
            exponents[label, 8] = exponent
            series.append(_series(f"{label}: {exponent.value:.2f}", worst.marks, means))
    found = exponents["thompson", 8]
    return Finding(
        verdict=_sublinear([found]), figure=found.value, figure_name="exponent of worst-gap regret in T", unit="1",
        interval=(found.low, found.high), predicted=0.5, sizes={"K": [8], "T": marks, "gaps": gaps}, keys=budget.keys,
        notes="The posterior never forgets, so after a change it needs about as many steps as came before. Discounting "
        "(0.99) is the remedy, at the price of linear regret at small gaps.",
        data={"table": table, "plots": [_plot("regret_phases", "Phases of doubling length (M3)", series)]},
    )  # fmt: skip


@define("regret_lower", "Every rule has worst-gap regret at least sqrt(K T)/20 under bandit feedback", "T6, S20")
def regret_lower(budget: Budget) -> Finding:
    """The lower-bound instance of Theorem 6: one arm better by a gap, which is the worst for K and T."""
    gaps, marks = _grid(budget)
    capacities = _capacities(budget)
    table, figures, bounds = [], [], []
    looks = len(capacities) * len(BANDIT) * len(marks)
    for k in capacities:
        for family in BANDIT:
            for label, worst in worst_gap(
                family, World("pull", k, True), gaps, marks, budget.keys, budget.root_key
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
        sizes={"K": capacities, "T": marks, "gaps": gaps, "rules": BANDIT}, keys=budget.keys,
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
            worst_gap("thompson", World(kind, k, True), gaps, marks, budget.keys, budget.root_key)["thompson"]
            for k in capacities
        ]
        runs = np.stack([w.regret[:, -1] for w in worst], axis=1)
        found[kind] = independent_power_law(np.asarray(capacities), runs, budget.root_key, looks=2)
        means = [bootstrap(column, np.mean, budget.root_key) for column in runs.T]
        series.append(_series(f"{name}: {found[kind].value:.2f}", np.asarray(capacities), means))
        table.append(
            {
                "label": name, "K": capacities, "regret": runs.mean(axis=0), "gap": [w.gap[-1] for w in worst],
                "exponent": list(found[kind]),
            }
        )  # fmt: skip
    t = marks[-1]
    own = found["leave"]
    plot = _plot("minimax_k", f"Worst-gap regret of Thompson at T = {t}", series) | {"x": "capacity K"}
    return Finding(
        verdict=predicates.sqrt_lower(own), figure=own.value, figure_name="exponent of worst-gap regret in K", unit="1",
        interval=(own.low, own.high), predicted=0.5, sizes={"K": capacities, "T": t, "gaps": gaps}, keys=budget.keys,
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
            run = regrets("thompson", World(kind, k, True), gaps, marks, budget.keys, budget.root_key)["thompson"]
            found = Worst(run.regret[:, 0], np.full(len(marks), gaps[0]), run.marks)
        else:
            found = worst_gap("thompson", World(kind, k, True), gaps, marks, budget.keys, budget.root_key)["thompson"]
        # The first steps of a wide cache only fill the posterior: linear whatever the rule.
        late = slice(len(marks) // 2, None)
        worst = Worst(found.regret[:, late], found.gap[late], found.marks[late])
        row, exponent, means = _row(kind, k, worst, budget, 2)
        row["growth"] = str(predicates.growth(exponent, False))
        table.append(row)
        exponents.append(exponent)
        series.append(_series(f"{kind}: {exponent.value:.2f}", worst.marks, means))
    largest = max(exponents, key=lambda e: e.high)
    return Finding(
        verdict=_sublinear(exponents), figure=largest.value, figure_name="largest exponent in T", unit="1",
        interval=(largest.low, largest.high), sizes={"K": k, "T": marks, "gaps": gaps}, keys=budget.keys,
        notes="Exponent over the later half of the checkpoints; full runs use one fixed gap, which verifies no minimax "
        "rate. 2 looks.",
        data={"table": table, "plots": [_plot("regret_wide", f"K = {k}", series)]},
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
        sizes={"K": sorted({k for _, k in exponents}), "T": table[0]["T"], "gap": AS_RUN_GAP}, keys=budget.keys,
        notes="One instance with linear regret shows the claim for a rule. The instance: K + 1 items, one of them used "
        "less often. Cost ratios of the same rules: lb_zoo.",
        data={"table": table, "plots": [_plot("classic_linear", "Classic rules, K of K + 1 items", series)]},
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
        verdict=_sublinear(own), figure=worst.value, figure_name="exponent of SOLAR's eviction regret", unit="1",
        interval=(worst.low, worst.high), predicted=0.5,
        sizes={"K": sorted({k for _, k in exponents}), "T": table[0]["T"], "gap": AS_RUN_GAP}, keys=budget.keys,
        notes="The claim needs SOLAR itself to be sublinear; where its release is linear, no policy has both "
        f"guarantees. "
        f"Compared as run: {', '.join(families)}.",
        data={"growth": growths, "table": table},
    )  # fmt: skip


CHECKS: list[Check] = [
    regret_bandit, regret_cache_feedback, regret_as_run, regret_fresh, regret_phases, regret_lower, minimax_k,
    regret_wide, classic_linear, both_guarantees,
]  # fmt: skip
