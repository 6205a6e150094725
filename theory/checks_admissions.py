"""Theorem 2: how many items a gate admits, by threshold rule, and what the bootstrap adds."""

from __future__ import annotations

from typing import Any

import numpy as np

from theory import bounds, predicates, replay
from theory.checks_cycles import policy
from theory.define import Finding, define
from theory.engine import play
from theory.families.base import GATED
from theory.families.randoms import draw
from theory.results import Budget, Check, Verdict
from theory.statistics import wilson

GATES = {
    "fixed": GATED,
    "paper_ema": "gated_fifo(threshold=paper_ema,signal=miss,fill=gated)",
    "eoq": "gated_fifo(threshold=eoq,signal=miss,fill=gated)",
    "release": "gated_fifo",
}


@define("mod_bound", "The gate admits at most T / tau_min items, whatever its threshold rule", "T2, S14")
def mod_bound(budget: Budget) -> Finding:
    """Four gates on random streams with arrivals that are mostly new; the integer inequality on every run."""
    size, T, K = (4000 if budget.full else 512), 10, 10
    batch = draw("graded", size, T=T, N=K, K=K, lam=5.0, seed=budget.root_key)
    rows: list[dict[str, Any]] = []
    witness = None
    for name, text in GATES.items():
        played = play(policy(text), batch, gauge=True)
        assert played.gauge is not None
        admitted = played.admitted.sum(axis=2)[:, 0]
        least, signal = played.gauge.least[:, 0], played.gauge.signal[:, 0]
        tau = least.astype(np.float64)
        stated = np.floor(T / tau * (1 + 1e-6))
        limit = np.array([bounds.admissions_by_loss(s, t) for s, t in zip(signal, tau, strict=True)])
        boot = np.array([bounds.admissions_bootstrap(s, t, K) for s, t in zip(signal, tau, strict=True)])
        corrected = boot if name == "release" else limit
        over = admitted - stated
        rows.append(
            {
                "gate": name,
                "verdict": str(predicates.counted(admitted.tolist(), stated.astype(int).tolist())),
                "N": float(admitted.mean()),
                "stated": float(np.minimum(stated, T).mean()),
                "by_loss": float(limit.mean()),
                "vacuous": float((stated >= T).mean()),
                "broken": float((over > 0).mean()),
                "corrected": str(predicates.counted(admitted.tolist(), corrected.tolist())),
                "corrected_margin": float((corrected - admitted).min()),
            }
        )
        if name == "release" and over.max() > 0:
            witness = int(over.argmax())
    by_gate = {r["gate"]: r for r in rows}
    broken = [r["gate"] for r in rows if r["verdict"] == Verdict.REFUTED]
    sound = all(r["corrected"] == Verdict.HOLDS for r in rows)
    path = None
    if witness is not None:
        path = replay.save(
            budget.workdir / "mod_bound.json",
            policy(GATES["release"]),
            batch.take(witness),
            keys=1,
            root_key=0,
            check="mod_bound",
            claim="N is at most T / tau_min (count the switches of the policy)",
            bound=None,
        )
    holding = [r["gate"] for r in rows if r["gate"] not in broken]
    return Finding(
        verdict=Verdict.REFUTED if not sound or not holding else Verdict.HOLDS_UNDER if broken else Verdict.HOLDS,
        condition=f"thresholds {', '.join(holding)}; not {', '.join(broken)}" if sound and holding and broken else None,
        figure=by_gate["release"]["broken"],
        figure_name="share of runs in which the release admits more than T / tau_min",
        unit="share of runs",
        interval=_share(by_gate["release"]["broken"], size),
        predicted=0.0,
        sizes={"instances": size, "T": T, "K": K, "N": K},
        keys=1,
        counterexample=None if path is None else str(path),
        notes="tau_min is the least threshold of the run. The bootstrap adds min(max(K//2, 5), 25, K) to the "
        "release's bound; with it, and with the accumulated loss in place of T, every run is within. "
        "`vacuous` is the share "
        "of runs in which T / tau_min >= T.",
        data={"table": rows},
    )


def _share(share: float, trials: int) -> tuple[float, float]:
    found = wilson(round(share * trials), trials)
    return found.low, found.high


CHECKS: list[Check] = [mod_bound]
