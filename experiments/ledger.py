"""The ledger: a verdict for every claim, computed from what is stored. Nothing is remembered between calls."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments import external, store
from experiments.claims.figures import Figures, NotStored
from experiments.claims.registry import CLAIMS
from experiments.claims.synthetic import AS_GOOD
from experiments.claims.types import Claim, Label, Verdict
from experiments.registry import IDS

FILE = "claims.json"
MAX_ROWS = 60
"""Row names listed with a verdict; the count of all of them is given beside."""


def judge(claim: Claim, stored: Mapping[str, store.StoredArtefact], results: list[dict[str, Any]]) -> dict[str, Any]:
    """One ledger row, JSON-able."""
    figures = Figures(stored, results)
    try:
        verdict = claim.judge(figures)
    except NotStored as problem:
        verdict = Verdict(Label.NOT_RUN, note=str(problem), command=_command(str(problem)))
    record = asdict(verdict)
    record["label"] = str(verdict.label)
    record["controls_too"] = verdict.controls_too or AS_GOOD in verdict.controls
    record["interval"] = None if verdict.interval is None else [_finite(x) for x in verdict.interval]
    record["figure"] = None if verdict.figure is None else _finite(verdict.figure)
    used = list(dict.fromkeys(figures.used)) if verdict.label is not Label.NOT_RUN else []
    commands = figures.commands if verdict.label is not Label.NOT_RUN else []
    return {
        "id": claim.id,
        "claim": claim.text,
        "where": claim.where,
        "needs": claim.needs,
        **record,
        "rows": used[:MAX_ROWS],
        "rows_used": len(used),
        "command": verdict.command or (commands[0] if commands else ""),
        "commands": commands,
        "quick": any(stored[r.split(":")[0]].record["quick"] for r in used if r.split(":")[0] in stored),
    }


def compute(out: Path) -> list[dict[str, Any]]:
    """All rows of the ledger from what is stored under `out`. Raises `ExperimentError` if something is damaged."""
    stored = store.load_all(out, IDS)
    results = external.load(out)
    return [judge(claim, stored, results) for claim in CLAIMS]


def write(out: Path) -> list[dict[str, Any]]:
    """Computes the ledger and writes OUT/claims.json. Raises `ExperimentError`, `StoreError`."""
    from solarjax.report.stored import write_text

    rows = compute(out)
    write_text(out / FILE, json.dumps(rows, indent=1, allow_nan=False) + "\n")
    return rows


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _command(text: str) -> str:
    """What stands between back quotes."""
    return text.split("`")[1] if text.count("`") >= 2 else ""
