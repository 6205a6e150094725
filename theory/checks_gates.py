"""The threshold: what the four rules converge to, and how often they open."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from theory import predicates
from theory.define import Finding, define
from theory.gates import GATES, MARKS, pass_gate
from theory.results import Budget, Check
from theory.statistics import Interval, mean_interval, power_law

LOSSES = (0.1, 0.3, 0.7)
LAMBDAS = (0.25, 1.0, 5.0, 20.0)
TOLERANCE = 0.05
"""Relative band within which a threshold counts as its limit."""


def _settings() -> tuple[list[float], list[float], list[float]]:
    """L, lam and sqrt(2 lam / L) of the twelve settings."""
    pairs = list(itertools.product(LOSSES, LAMBDAS))
    return [p[0] for p in pairs], [p[1] for p in pairs], [float(np.sqrt(2 * lam / loss)) for loss, lam in pairs]


def steps_of(budget: Budget) -> int:
    """T of a stream."""
    return 100_000 if budget.full else 10_000


def gate_keys(budget: Budget) -> int:
    """Keys of a stream; they cost little, and the limits are to be told to 5 % at twelve settings at once."""
    return budget.keys if budget.full else max(budget.keys, 24)


@functools.lru_cache(maxsize=16)
def _limits(gate: str, budget: Budget) -> tuple[list[Interval], list[float], list[float], list[dict]]:
    """Mean threshold over the second half at the twelve settings, with L, sqrt(2 lam / L), and table rows."""
    losses, lams, stars = _settings()
    steps = steps_of(budget)
    runs = pass_gate(gate, "bernoulli", losses, lams, steps, gate_keys(budget), budget.root_key)
    found = [mean_interval(run.tau_late, looks=len(runs)) for run in runs]
    rows = [
        {
            "gate": gate, "L": loss, "lam": lam, "tau": f.value, "low": f.low, "high": f.high, "sqrt(2 lam/L)": star,
            "rate": float(run.opened.mean() / steps),
        }
        for run, f, loss, lam, star in zip(runs, found, losses, lams, stars, strict=True)
    ]  # fmt: skip
    return found, losses, stars, rows


def _sizes(budget: Budget) -> dict:
    return {"L": LOSSES, "lam": LAMBDAS, "T": steps_of(budget), "stream": "bernoulli"}


def _worst(found: list[Interval], targets: list[float]) -> Interval:
    """The setting that is relatively farthest from its target, as |tau / target - 1|."""
    far = max(zip(found, targets, strict=True), key=lambda p: abs(p[0].value / p[1] - 1))
    ends = sorted((far[0].low / far[1] - 1, far[0].high / far[1] - 1), key=abs)
    return Interval(abs(far[0].value / far[1] - 1), abs(ends[0]), abs(ends[1]))


@define("ema_fixed_point", "The printed EMA threshold converges to sqrt(2 lam / L)", "E2, S10")
def ema_fixed_point(budget: Budget) -> Finding:
    """Twelve settings of L and lam; the trajectories of all four rules are stored for the figure."""
    found, losses, stars, rows = _limits("paper_ema", budget)
    worst = _worst(found, stars)
    marks = MARKS
    series, loss, lam = [], 0.3, 5.0
    for gate in GATES:
        run = pass_gate(gate, "bernoulli", [loss], [lam], steps_of(budget), gate_keys(budget), budget.root_key)[0]
        ends = [mean_interval(tau) for tau in run.tau]
        series.append(
            {
                "label": gate, "x": marks, "y": [e.value for e in ends], "low": [e.low for e in ends],
                "high": [e.high for e in ends],
            }
        )  # fmt: skip
    for label, level in (("L", loss), ("sqrt(2 lam/L)", float(np.sqrt(2 * lam / loss)))):
        series.append({"label": label, "x": [1, 3000], "y": [level, level], "style": "dashed"})
    plot = {
        "name": "tau_trajectories", "title": f"Threshold of the four gates, L = {loss}, lam = {lam:g}", "x": "steps",
        "y": "tau", "x_log": True, "y_log": True, "series": series,
    }  # fmt: skip
    return Finding(
        verdict=predicates.equals(found, stars, TOLERANCE), figure=worst.value,
        figure_name="largest |tau / sqrt(2 lam/L) - 1| over the settings", unit="1",
        interval=(worst.low, worst.high), predicted=0.0, sizes=_sizes(budget), keys=gate_keys(budget),
        notes="lam does not enter the printed rule at all, so it cannot tend to a function of lam; see ema_limit. "
        f"{len(found)} looks.",
        data={"table": rows, "plots": [plot]},
    )  # fmt: skip


@define("ema_limit", "Corrected: the printed EMA threshold converges to the mean loss L", "E2, S10 corrected")
def ema_limit(budget: Budget) -> Finding:
    """E[tau_{t+1}] = (1 - a) E[tau_t] + a E[delta_t], a contraction with fixed point E[delta]."""
    found, losses, _, rows = _limits("paper_ema", budget)
    worst = _worst(found, losses)
    return Finding(
        verdict=predicates.equals(found, losses, TOLERANCE), figure=worst.value,
        figure_name="largest |tau / L - 1| over the settings", unit="1", interval=None, predicted=0.0,
        sizes=_sizes(budget), keys=gate_keys(budget),
        notes=f"Every interval must lie within {TOLERANCE:.0%} of L. {len(found)} looks. With losses 0 and 1 the "
        f"gate then "
        "opens at every miss.",
        data={"table": rows},
    )  # fmt: skip


@define("tau_star", "The adaptive thresholds that do use lam converge to sqrt(2 lam / L)", "T3s, S10")
def tau_star(budget: Budget) -> Finding:
    """The rules `eoq` and `release` at the twelve settings."""
    table, worsts, verdicts = [], {}, {}
    for gate in ("eoq", "release"):
        found, _, stars, rows = _limits(gate, budget)
        table += rows
        worsts[gate] = _worst(found, stars)
        verdicts[gate] = predicates.equals(found, stars, TOLERANCE)
    worst = worsts["eoq"]
    return Finding(
        verdict=predicates.both(*verdicts.values()), figure=worst.value,
        figure_name="largest |tau / sqrt(2 lam/L) - 1| of the rule eoq", unit="1", interval=(worst.low, worst.high),
        predicted=0.0, sizes=_sizes(budget), keys=gate_keys(budget),
        notes="eoq keeps a moving average of constant step, so Lhat keeps fluctuating and E sqrt(1/Lhat) exceeds "
        "sqrt(1/L) (Jensen); release measures a standard deviation instead of a mean and clips tau at 5 (off by "
        f"{worsts['release'].value:.2f} at worst). {2 * len(LOSSES) * len(LAMBDAS)} looks. By rule: "
        + ", ".join(f"{g} {v}" for g, v in verdicts.items()),
        data={"table": table},
    )  # fmt: skip


@define("admission_rate", "The gate admits about 17 % of the steps (10 % on cycling)", "S09")
def admission_rate(budget: Budget) -> Finding:
    """Rate of the four rules on streams of losses; the printed rule is the one the claim is made for."""
    steps = steps_of(budget)
    losses = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.95]
    lam, target, band = 5.0, 0.17, 0.2
    table, series, printed = [], [], []
    for gate in GATES:
        runs = pass_gate(gate, "bernoulli", losses, [lam] * len(losses), steps, gate_keys(budget), budget.root_key)
        rates = [mean_interval(run.opened / steps, looks=len(losses)) for run in runs]
        table.append({"gate": gate, "L": losses, "rate": [r.value for r in rates]})
        series.append(
            {
                "label": gate, "x": losses, "y": [r.value for r in rates], "low": [r.low for r in rates],
                "high": [r.high for r in rates],
            }
        )  # fmt: skip
        if gate == "paper_ema":
            printed = rates
    series.append({"label": "17 %", "x": [losses[0], losses[-1]], "y": [target, target], "style": "dashed"})
    at = losses.index(0.3)
    plot = {
        "name": "admission_rate", "title": f"Admission rate against mean loss, lam = {lam:g}", "x": "mean loss L",
        "y": "admissions per step", "x_log": False, "y_log": False, "series": series,
    }  # fmt: skip
    return Finding(
        verdict=predicates.equals(printed, target, band), figure=printed[at].value,
        figure_name="admissions per step of the printed rule at L = 0.3", unit="1/step",
        interval=(printed[at].low, printed[at].high), predicted=target,
        sizes={"L": losses, "lam": lam, "T": steps, "stream": "bernoulli"}, keys=gate_keys(budget),
        notes=f"Band: within {band:.0%} of 0.17 at every L. With hits and misses the printed rule opens at every "
        f"miss, so "
        f"its rate is L. {len(losses)} looks.",
        data={"table": table, "plots": [plot]},
    )  # fmt: skip


@define(
    "renewal_rate",
    "Corrected: the admission rate is L / (tau + mean overshoot) when tau is constant",
    "T2, S09 corrected",
)
def renewal_rate(budget: Budget) -> Finding:
    """Each opening uses up tau plus what c exceeded it by; losses arrive at L per step (renewal theorem)."""
    steps = steps_of(budget)
    settings = list(itertools.product((0.1, 0.2, 0.45), (0.5, 2.0, 5.0)))
    losses, lams = [s[0] for s in settings], [s[1] for s in settings]
    runs = pass_gate("fixed", "graded", losses, lams, steps, gate_keys(budget), budget.root_key)
    ratios, table = [], []
    for run, loss, lam in zip(runs, losses, lams, strict=True):
        over = run.overshoot.sum() / run.opened.sum()
        predicted = loss / (2 * lam + over)
        ratios.append(mean_interval(run.opened / steps / predicted, looks=len(runs)))
        table.append(
            {
                "L": loss,
                "tau": 2 * lam,
                "overshoot": float(over),
                "rate": float(run.opened.mean() / steps),
                "law": predicted,
            }
        )
    levels = [0.05, 0.1, 0.2, 0.4]
    exponents = {}
    for gate in GATES:
        passed = pass_gate(gate, "graded", levels, [5.0] * len(levels), steps, gate_keys(budget), budget.root_key)
        counts = np.stack([p.opened for p in passed], axis=1)
        exponents[gate] = list(power_law(np.asarray(levels), counts, budget.root_key))
    worst = max(ratios, key=lambda r: abs(r.value - 1))
    return Finding(
        verdict=predicates.equals(ratios, 1.0, 0.02), figure=worst.value,
        figure_name="measured rate / law at the worst setting", unit="1", interval=(worst.low, worst.high),
        predicted=1.0, keys=gate_keys(budget),
        sizes={"L": sorted(set(losses)), "lam": sorted(set(lams)), "T": steps, "stream": "graded"},
        notes="Self-regulation, d log rate / d log L: "
        + ", ".join(f"{gate} {e[0]:.2f}" for gate, e in exponents.items())
        + f". Only the printed rule's rate does not depend on L, and it is high. {len(runs)} looks.",
        data={"table": table, "exponents": exponents},
    )  # fmt: skip


CHECKS: list[Check] = [ema_fixed_point, ema_limit, tau_star, admission_rate, renewal_rate]
