"""Rows of the claims' ledger from a full replay: what answers of a language model say about claims S21 to S25."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from experiments.claims.dialogue import REPLAY
from solarjax.analysis.summary import t_interval

BASELINE = "fifo"
SOLAR, SOLAR_A, SOLAR_E = "solar(signal=miss)", "solar_a(signal=miss)", "solar_e"
CLASSIC = ("lru", "lfu", "arc")
NOTE = (
    "Answers by {model}, a model far smaller than the paper's GPT-4o-mini: its F1 is low and short of power, so an "
    "interval around 0 says little. {n} sessions x {q:g} scored questions; the interval is over sessions (clusters)."
)


def rows(data: Mapping[int, xr.Dataset], model: str, command: str) -> list[dict[str, Any]]:
    """Rows in the shape that `python -m experiments ledger --rows` takes.

    S21 excess of the joint gain over both parts; S22 SOLAR - FIFO; S23 each classic policy - FIFO (the claim is that it
    is below); S24 the fall of SOLAR's lead from the smallest to the largest cache; S25 SOLAR's slope - each other's.

    Args:
      data: capacity -> `summary.measures`, the same sessions in the same order at each.   model: its name.
    """
    out: list[dict[str, Any]] = []

    def add(claim: str, of: str, name: str, values: np.ndarray, sign: int, k: int) -> None:
        found = t_interval(values)
        low, high = sign * found.low, sign * found.high
        verdict = "holds" if min(low, high) > 0 else "refuted" if max(low, high) < 0 else "undecided"
        ends = [number(found.low), number(found.high)]
        known = None not in ends
        questions = float(data[k]["requests"].mean())
        out.append({
            "id": f"{REPLAY}{claim}-{of}", "source": claim, "verdict": verdict if known else "undecided",
            "figure": float(found.mean), "figure_name": name,
            "interval": ends if known else None,
            "keys": int(found.n), "command": command, "notes": NOTE.format(model=model, n=int(found.n), q=questions),
        })  # fmt: skip

    gaps: dict[int, np.ndarray] = {}
    for k, one in data.items():
        have = [str(name) for name in one["policy"].values]
        f1 = {name: one["answer_f1"].sel(policy=name).values for name in have}
        slope = {name: one["learning_slope"].sel(policy=name).values for name in have}
        base = f1[BASELINE]
        if {SOLAR, SOLAR_A, SOLAR_E} <= set(have):
            excess = (f1[SOLAR] - base) - (f1[SOLAR_A] - base) - (f1[SOLAR_E] - base)
            add("S21", f"K{k}", f"excess of SOLAR's F1 gain over both parts, K = {k}", excess, 1, k)
        if SOLAR in have:
            gaps[k] = f1[SOLAR] - base
            add("S22", f"K{k}", f"answer F1, SOLAR - FIFO, K = {k}", gaps[k], 1, k)
            for other in sorted(set(have) - {SOLAR, "unlimited"}):
                name = f"slope of F1, SOLAR - {other}, K = {k}"
                add("S25", f"{other}-K{k}", name, slope[SOLAR] - slope[other], 1, k)
        for policy in CLASSIC:
            if policy in have:
                add("S23", f"{policy}-K{k}", f"answer F1, {policy} - FIFO, K = {k}", f1[policy] - base, -1, k)
    if len(gaps) > 1:
        # A transition needs the lead to shrink as the cache grows.
        first, last = min(gaps), max(gaps)
        name = f"fall of SOLAR's lead in F1 from K = {first} to {last}"
        add("S24", f"K{first}-K{last}", name, gaps[first] - gaps[last], 1, last)
    return out


def number(value: Any) -> float | None:
    """Six decimals, None for what is not finite."""
    value = float(value)
    return round(value, 6) if np.isfinite(value) else None
