"""Tables and ledger rows from the complete sessions of a full replay. Computes from stored datasets only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from experiments.claims.dialogue import REPLAY
from solarjax.analysis.summary import t_interval
from solarjax.report import stored
from solarjax.report.render import csv_text

MEASURES = (
    "answer_f1 answer_f1_answerable hit_rate first_half second_half learning_slope admissions evictions ttft_ms itl_ms "
    "prompt_tokens cached_share completion_tokens decision_ms_p50 decision_ms_p99 repeated_share requests"
).split()
BASELINE = "fifo"
SOLAR, SOLAR_A, SOLAR_E = "solar(signal=miss)", "solar_a(signal=miss)", "solar_e"
NOTE = (
    "Answers by {model}, a model far smaller than the paper's GPT-4o-mini: its F1 is low and short of power, so an "
    "interval around 0 says little. {n} sessions x {q} scored questions; the interval is over sessions (clusters)."
)


def write(work: Path, out: Path, command: str) -> list[Path]:
    """Writes OUT/results.csv, OUT/sessions.csv, OUT/ledger.json and OUT/provenance.json; nothing without a session.

    Raises:
      StoreError: a stored run is damaged, or `out` cannot be written to.
    """
    runs = [stored.load(path.parent) for path in sorted(work.rglob(stored.PROVENANCE))]
    if not runs:
        return []
    capacities = sorted({int(k) for run in runs for k in run.data["capacity"].values})
    data = {k: _joined([run.data for run in runs if k in run.data["capacity"].values]) for k in capacities}
    results, sessions, ledger = [], [], []
    for k, one in data.items():
        results += _means(k, one)
        sessions += _per_session(k, one)
    ledger = _ledger(data, runs[0].provenance, command)
    provenance = [{key: run.provenance[key] for key in ("created", "code", "git", "versions", "device", "seconds",
                   "timing", "server_version", "config")} for run in runs]  # fmt: skip
    for record in provenance:
        record["config"] = {
            key: record["config"][key] for key in ("model", "prompt", "settings", "seeds", "capacities")
        }
    texts = {
        "results.csv": csv_text(results), "sessions.csv": csv_text(sessions),
        "ledger.json": json.dumps(ledger, indent=1, allow_nan=False) + "\n",
        "provenance.json": json.dumps({"command": command, "runs": provenance}, indent=1) + "\n",
    }  # fmt: skip
    for name, text in texts.items():
        stored.write_text(out / name, text)
    return [out / name for name in texts]


def _joined(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    keep = [name for name in MEASURES if name in parts[0]]
    return xr.concat([part[keep].mean("seed") for part in parts], "trace").isel(capacity=0)


def _means(k: int, data: xr.Dataset) -> list[dict[str, Any]]:
    rows = []
    for policy in map(str, data["policy"].values):
        for name in data.data_vars:
            values = data[name].sel(policy=policy).values
            base = data[name].sel(policy=BASELINE).values
            mean, gap = t_interval(values), t_interval(values - base)
            rows.append({
                "capacity": k, "policy": policy, "measure": name, "sessions": int(mean.n),
                "mean": _number(mean.mean), "low": _number(mean.low), "high": _number(mean.high),
                "diff_to_fifo": _number(gap.mean), "diff_low": _number(gap.low), "diff_high": _number(gap.high),
            })  # fmt: skip
    return rows


def _per_session(k: int, data: xr.Dataset) -> list[dict[str, Any]]:
    return [
        {"capacity": k, "session": str(trace), "policy": str(policy)}
        | {str(name): _number(data[name].sel(trace=trace, policy=policy).values) for name in data.data_vars}
        for trace in data["trace"].values
        for policy in data["policy"].values
    ]


def _ledger(data: dict[int, xr.Dataset], provenance: Any, command: str) -> list[dict[str, Any]]:
    """Rows in the shape that `python -m experiments ledger --rows` takes."""
    rows: list[dict[str, Any]] = []
    model = provenance["config"]["model"].get("name", "")

    def add(claim: str, of: str, name: str, values: np.ndarray, sign: int, k: int) -> None:
        found = t_interval(values)
        low, high = sign * found.low, sign * found.high
        verdict = "holds" if min(low, high) > 0 else "refuted" if max(low, high) < 0 else "undecided"
        ends = [_number(found.low), _number(found.high)]
        questions = int(data[k]["requests"].values.flat[0])
        rows.append({
            "id": f"{REPLAY}{claim}-{of}", "source": claim, "verdict": verdict if ends[0] is not None else "undecided",
            "figure": float(found.mean), "figure_name": name, "interval": ends if ends[0] is not None else None,
            "keys": int(found.n), "command": command, "notes": NOTE.format(model=model, n=int(found.n), q=questions),
        })  # fmt: skip

    gaps: dict[int, np.ndarray] = {}
    for k, one in data.items():

        def f1(policy: str, one: xr.Dataset = one, measure: str = "answer_f1") -> np.ndarray:
            return one[measure].sel(policy=policy).values

        have = set(map(str, one["policy"].values))
        base = f1(BASELINE)
        if {SOLAR, SOLAR_A, SOLAR_E} <= have:
            excess = (f1(SOLAR) - base) - (f1(SOLAR_A) - base) - (f1(SOLAR_E) - base)
            add("S21", f"K{k}", f"excess of SOLAR's F1 gain over both parts, K = {k}", excess, 1, k)
        if SOLAR in have:
            gaps[k] = f1(SOLAR) - base
            add("S22", f"K{k}", f"answer F1, SOLAR - FIFO, K = {k}", gaps[k], 1, k)
            slope = f1(SOLAR, measure="learning_slope")
            for other in sorted(have - {SOLAR, "unlimited"}):
                steeper = slope - f1(other, measure="learning_slope")
                add("S25", f"{other}-K{k}", f"slope of F1, SOLAR - {other}, K = {k}", steeper, 1, k)
        for policy in ("lru", "lfu", "arc"):
            if policy in have:
                add("S23", f"{policy}-K{k}", f"answer F1, {policy} - FIFO, K = {k}", f1(policy) - base, -1, k)
    if len(gaps) > 1:
        first, last = min(gaps), max(gaps)
        both = min(len(gaps[first]), len(gaps[last]))
        # A transition needs the lead to shrink as the cache grows; sessions are in the same order at each capacity.
        add("S24", f"K{first}-K{last}", f"fall of SOLAR's lead in F1 from K = {first} to {last}",
            gaps[first][:both] - gaps[last][:both], 1, last)  # fmt: skip
    return rows


def _number(value: Any) -> float | None:
    value = float(value)
    return round(value, 6) if np.isfinite(value) else None
