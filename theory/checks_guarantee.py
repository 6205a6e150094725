"""Theorem 3 and Definition 1 on runs of the gate: the constant, and the certificate per epoch."""

from __future__ import annotations

from typing import Any

from theory import bounds, opt, predicates, replay
from theory.checks_cycles import policy
from theory.competitive import ratio
from theory.define import Finding, define
from theory.engine import play
from theory.epochs import Epochs, epochs
from theory.families.base import GATED
from theory.families.gate import overshoot
from theory.families.randoms import draw
from theory.model import Batch
from theory.results import Budget, Check, Verdict
from theory.statistics import wilson

WORKLOADS = ("paging", "topics", "graded", "drift")
ENOUGH = 0.95
"""Share of epochs above which a stream is said to meet Def1."""


@define("cr3_stated", "Under Def1 SOLAR with tau = 2 lam has a ratio of at most 3", "T3, S15")
def cr3_stated(budget: Budget) -> Finding:
    """The overshoot family: Def1 holds in every epoch, the ratio is 1 + ceil(tau) / lam."""
    rows: list[dict[str, Any]] = []
    worst: tuple[float, Batch | None] = (0.0, None)
    for lam, count in ((0.125, 8), (0.5625, 8), (1.0625, 7), (2.0625, 4)):
        one = overshoot(lam, count)
        case = policy(GATED)
        played, plan = play(case, one), opt.exact_plan(one)
        regular = epochs(one, played, plan, 2 * one.lam).regular()
        found = float(ratio(played.cost[:, 0], plan.cost)[0])
        rows.append(
            {
                "lam": lam,
                "T": one.num_steps,
                "ratio": found,
                "corrected": bounds.cr_overshoot(lam),
                "limit": bounds.overshoot_ratio(lam, 2 * lam),
                "epochs_under_def1": float(regular.mean()),
            }
        )
        if lam == 0.5625:
            worst = (found, one)
    good = [r for r in rows if r["epochs_under_def1"] == 1.0]
    beyond = [r for r in good if r["ratio"] > 3 + 1e-9]
    within = all(r["ratio"] <= r["corrected"] + 1e-9 for r in rows)
    assert worst[1] is not None
    path = replay.save(
        budget.workdir / "cr3_stated.json",
        policy(GATED),
        worst[1],
        keys=1,
        root_key=0,
        check="cr3_stated",
        claim="under Def1 and tau = 2 lam the ratio is at most 3",
        bound=bounds.cr_stated(),
    )
    return Finding(
        verdict=Verdict.REFUTED if beyond and within else Verdict.UNDECIDED,
        figure=worst[0],
        figure_name="ratio to exact OPT at lam = 0.5625, Def1 met in every epoch",
        unit="ratio",
        predicted=bounds.cr_stated(),
        sizes={"lam": [r["lam"] for r in rows], "K": 2, "T": [r["T"] for r in rows]},
        keys=1,
        counterexample=str(path),
        notes="OPT changes its cache in every finished epoch (lam = 0.125: in all but the last), so Def1 "
        "asks nothing and T3's premise is met. c passes tau by up to one "
        "full miss, which the proof drops; the corrected bound 3 + 1/lam is respected in every row.",
        data={
            "table": rows,
            "plots": [
                {
                    "name": "overshoot",
                    "title": "Overshoot: ratio under Def1 against 1/lam",
                    "x": "1/lam",
                    "y": "ratio",
                    "x_log": False,
                    "y_log": False,
                    "series": [
                        {"label": "measured", "x": [1 / r["lam"] for r in rows], "y": [r["ratio"] for r in rows]},
                        {
                            "label": "3 + 1/lam",
                            "x": [1 / r["lam"] for r in rows],
                            "y": [r["corrected"] for r in rows],
                            "style": "dashed",
                        },
                        {
                            "label": "3 (T3)",
                            "x": [1 / r["lam"] for r in rows],
                            "y": [3.0] * len(rows),
                            "style": "dashed",
                        },
                    ],
                }
            ],
        },
    )


def _epochs(name: str, lam: float, seeds: int, root_key: int, k: int = 1) -> tuple[Batch, Epochs]:
    batch = draw(name, seeds, T=160, N=8, K=3, lam=lam, seed=root_key, k=k)
    return batch, epochs(batch, play(policy(GATED), batch), opt.exact_plan(batch), 2 * batch.lam)


@define("cr3_certificate", "Corrected T3: under Def1 no epoch costs more than 3 + 1/lam times OPT's share", "T3, S15")
def cr3_certificate(budget: Budget) -> Finding:
    """(c_j + lam) / OPT's cost, per finished epoch, with the loss really accumulated."""
    rows: list[dict[str, Any]] = []
    figures, limits = [], []
    seeds = budget.keys * (2 if budget.full else 1)
    for name in WORKLOADS:
        for lam in (0.25, 1.0, 2.0):
            _, found = _epochs(name, lam, seeds, budget.root_key)
            regular, value = found.regular(), found.certificate()
            top = float(value[regular].max()) if regular.any() else 0.0
            rows.append(
                {
                    "workload": name,
                    "lam": lam,
                    "epochs": len(value),
                    "regular": float(regular.mean()),
                    "largest": top,
                    "limit": bounds.cr_overshoot(lam),
                    "above_3": float((value[regular] > 3 + 1e-9).mean()),
                    "irregular_above_limit": float((value[~regular] > bounds.cr_overshoot(lam)).mean())
                    if (~regular).any()
                    else 0.0,
                }
            )
            figures.append(predicates.exact(top))
            limits.append(bounds.cr_overshoot(lam) + 1e-9)
    tightest = max(rows, key=lambda r: r["largest"] / r["limit"])
    holds = predicates.at_most(figures, limits) is Verdict.HOLDS
    return Finding(
        verdict=Verdict.HOLDS_UNDER if holds else Verdict.REFUTED,
        condition="Def1, an arrival at every step, and the last, unfinished epoch (less than tau + 1) left aside"
        if holds
        else None,
        figure=tightest["largest"] / tightest["limit"],
        figure_name="largest certificate of an epoch under Def1 over 3 + 1/lam",
        unit="1",
        predicted=1.0,
        sizes={"workloads": WORKLOADS, "lam": (0.25, 1.0, 2.0), "N": 8, "K": 3, "T": 160},
        keys=seeds,
        notes=f"{sum(r['epochs'] for r in rows)} epochs. Above 3 (the stated constant) lie up to "
        f"{max(r['above_3'] for r in rows):.1%} of the epochs under Def1 of a setting.",
        data={"table": rows},
    )


@define("regularity_rate", "Real streams meet Def1, so the guarantee needs only mild regularity", "Def1, S16")
def regularity_rate(budget: Budget) -> Finding:
    """Share of epochs that meet Def1, and its sufficient form, per workload and lam; Wilson intervals."""
    seeds = budget.keys * (2 if budget.full else 1)
    rows: list[dict[str, Any]] = []
    shares = []
    looks = len(WORKLOADS) * 3
    for name in WORKLOADS:
        for lam in (0.25, 1.0, 2.0):
            batch, found = _epochs(name, lam, seeds, budget.root_key, k=3 if name == "topics" else 1)
            regular, enough = found.regular(), found.sufficient(2 * lam, batch.k)
            share = wilson(int(regular.sum()), len(regular), looks=looks)
            other = wilson(int(enough.sum()), len(enough), looks=looks)
            implied = not (enough & ~regular).any()
            rows.append(
                {
                    "workload": name,
                    "lam": lam,
                    "epochs": len(regular),
                    "def1": list(share),
                    "sufficient": list(other),
                    "sufficient_implies_def1": bool(implied),
                }
            )
            shares.append(share)
    least = min(shares, key=lambda s: s.value)
    holds, broken = all(s.low > ENOUGH for s in shares), any(s.high < ENOUGH for s in shares)
    return Finding(
        verdict=Verdict.HOLDS if holds else Verdict.REFUTED if broken else Verdict.UNDECIDED,
        figure=least.value,
        figure_name="least share of epochs that meet Def1",
        unit="share of epochs",
        interval=(least.low, least.high),
        predicted=1.0,
        sizes={"workloads": WORKLOADS, "lam": (0.25, 1.0, 2.0), "N": 8, "K": 3, "T": 160},
        keys=seeds,
        notes=f"Refuted if some setting's interval lies below {ENOUGH}: T3 needs EVERY epoch. Epochs of a "
        f"run are not "
        "independent, so the intervals are too narrow. The sufficient form needs k >= 2 D: with k = 1 it "
        "holds only where "
        f"the caches agree throughout. {looks} looks.",
        data={"table": rows},
    )


CHECKS: list[Check] = [cr3_stated, cr3_certificate, regularity_rate]
