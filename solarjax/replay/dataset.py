"""From the records of a replay to the labelled dataset of the engine: same axes, same names where the meaning is.

Axes: trace (session), policy, capacity, seed; `step` is the position in a run's own order, NaN or False past its end.
Quality is the answer's F1 (or the hit, without a model), so `miss_cost`, `total_cost`, `first_half` and so on mean what
they mean in `core.dataset`, with F1 in the place of the hit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from solarjax.core.dataset import VARIABLES as ENGINE
from solarjax.core.dataset import ratio
from solarjax.core.metrics import slope_weights
from solarjax.replay.errors import ReplayError
from solarjax.replay.lane import by_lane
from solarjax.replay.plan import SHADOW, Plan

_PER = "1"
RUN: dict[str, tuple[str, str]] = {
    "answer_f1": ("LoCoMo's category-aware F1, mean over scored questions", _PER),
    "answer_f1_answerable": ("the same without adversarial questions (NaN if there are only those)", _PER),
    "liked_rate": ("share of scored questions with F1 >= like_at", _PER),
    "first_half": ("mean quality over the first half of the scored questions", _PER),
    "second_half": ("mean quality over the second half of the scored questions", _PER),
    "learning_slope": ("least-squares slope of the rolling mean of the quality, as in the engine", "1/query"),
    "ttft_ms": ("time to the first token, mean", "ms"),
    "itl_ms": ("gap between tokens, mean", "ms"),
    "prompt_tokens": ("prompt tokens, mean per question", "tokens"),
    "cached_share": ("prompt tokens taken from the server's prefix cache / prompt tokens", _PER),
    "completion_tokens": ("answer tokens, mean per question", "tokens"),
    "decision_ms_p50": ("policy look-up and decision, median", "ms"),
    "decision_ms_p99": ("policy look-up and decision, 99th percentile", "ms"),
    "dropped_texts": ("texts left out of prompts to fit the context, mean per question", "texts"),
    "repeated_share": ("share of the questions whose very prompt was asked earlier in the order", _PER),
    "support": ("share of the full memory's experiences that were retrieved too (frozen mode)", _PER),
}
"""Measures of a run: name -> (long name, unit)."""
STEP: dict[str, tuple[str, str, str]] = {
    "step_quality": ("quality", "quality of each answer", _PER),
    "step_hit": ("hit", "1 if an experience that shares evidence was retrieved", _PER),
    "step_ttft_s": ("ttft_s", "time to the first token", "s"),
    "step_itl_s": ("itl_s", "mean gap between tokens", "s"),
    "step_prompt_tokens": ("prompt_tokens", "prompt tokens", "tokens"),
    "step_cached_tokens": ("cached_tokens", "prompt tokens from the server's prefix cache", "tokens"),
    "step_completion_tokens": ("completion_tokens", "answer tokens", "tokens"),
    "step_decision_s": ("decision_s", "policy look-up and decision", "s"),
    "step_size": ("size", "residents after the step", "items"),
    "step_admitted": ("admitted", "1 if the experience was written", _PER),
    "step_order": ("order", "place in the plan's order of all requests, kept within a session", _PER),
    "step_sent": ("sent", "number of the request, counted as it was made, over all sessions", _PER),
}
"""Per question: name -> (field of the record, long name, unit)."""
MEASURED = frozenset(
    """ttft_ms itl_ms cached_share decision_ms_p50 decision_ms_p99 step_ttft_s step_itl_s step_cached_tokens
    step_decision_s step_sent""".split()
)
"""What differs between two runs of the same replay even on the same server: times, how sessions interleave, and the
state of the server's cache."""


def assemble(plan: Plan, records: Sequence[Mapping[str, Any]], attrs: Mapping[str, Any]) -> xr.Dataset:
    """The dataset of a complete replay.

    Raises:
      ReplayError: questions are missing.
    """
    lanes = by_lane([dict(r) for r in records])
    repeated = _repeated(records)
    categories = list(dict.fromkeys(q.category for s in plan.sessions for q in s.questions))
    steps = max(len(session.questions) for session in plan.sessions)
    shape = (len(plan.sessions), len(plan.cases), len(plan.capacities), len(plan.seeds))
    values: dict[str, np.ndarray] = {}

    def put(name: str, at: tuple[int, ...], value: Any, *tail: int) -> None:
        if name not in values:
            values[name] = np.full((*shape, *tail), np.nan)
        values[name][at] = value

    for t, session in enumerate(plan.sessions):
        for p, case in enumerate(plan.cases):
            for c, capacity in enumerate(plan.capacities):
                own = plan.capacities[0] if case.spec.unbounded else capacity
                for s, seed in enumerate(plan.seeds):
                    rows = lanes.get((session.name, case.label, own, seed), [])
                    if [r["position"] for r in rows] != list(range(len(session.questions))):
                        raise ReplayError(
                            f"{session.name}, {case.label}, K = {own}, seed {seed}: {len(rows)} of "
                            f"{len(session.questions)} questions are recorded"
                        )
                    at = (t, p, c, s)
                    for name, value in _run(rows, repeated, plan.settings.like_at).items():
                        put(name, at, value)
                    for name, row in _steps(rows, steps).items():
                        put(name, at, row, steps)
                    for name, row in _categories(rows, categories).items():
                        put(name, at, row, len(categories))
    return _label(plan, values, categories, attrs)


def _run(rows: Sequence[Mapping[str, Any]], repeated: set[tuple], like_at: float) -> dict[str, float]:
    scored = np.array([r["scored"] for r in rows])
    quality = _column(rows, "quality")
    own, hit = quality[scored], _column(rows, "hit")[scored]
    admissions = sum(r["admitted"] for r in rows)
    evictions = sum(r["evicted"] >= 0 for r in rows)
    offers = sum(not r.get("frozen", False) for r in rows)
    half = (len(own) + 1) // 2
    miss = float((1 - own).sum())
    out = {
        "requests": float(scored.sum()), "hit_rate": float(hit.mean()), "miss_cost": miss / len(own),
        "miss_cost_total": miss, "switches": admissions, "admissions": admissions, "evictions": evictions,
        "offers": offers, "rejections": offers - admissions, "duplicates": 0.0,
        "store_rate": admissions / max(offers, 1), "admissions_per_query": admissions / len(rows),
        "final_size": rows[-1]["size"], "first_half": float(own[:half].mean()),
        "second_half": float(own[half:].mean()) if half < len(own) else np.nan,
        "learning_slope": float((slope_weights(scored) * quality).sum()),
        "decision_ms_p50": 1e3 * float(np.quantile(_column(rows, "decision_s"), 0.5)),
        "decision_ms_p99": 1e3 * float(np.quantile(_column(rows, "decision_s"), 0.99)),
    }  # fmt: skip
    if rows[0]["f1"] is not None:
        f1 = _column(rows, "f1")[scored]
        answerable = np.array([r["rule"] != "unanswerable" for r in rows])[scored]
        out["answer_f1"] = float(f1.mean())
        out["answer_f1_answerable"] = float(f1[answerable].mean()) if answerable.any() else np.nan
        out["liked_rate"] = float((f1 >= like_at).mean())
    if "support" in rows[0]:
        out["support"] = _mean(_column(rows, "support")[scored])
    if "prompt" in rows[0]:
        prompt, cached = _column(rows, "prompt_tokens"), _column(rows, "cached_tokens")
        out |= {
            "ttft_ms": 1e3 * float(_column(rows, "ttft_s").mean()), "itl_ms": 1e3 * _mean(_column(rows, "itl_s")),
            "prompt_tokens": _mean(prompt), "completion_tokens": _mean(_column(rows, "completion_tokens")),
            "cached_share": float(ratio(cached.sum(), prompt.sum())),
            "dropped_texts": float(np.mean([len(r["dropped"]) for r in rows])),
            "repeated_share": float(np.mean([_place(r) in repeated for r in rows])),
        }  # fmt: skip
    return out


def _steps(rows: Sequence[Mapping[str, Any]], steps: int) -> dict[str, np.ndarray]:
    out = {}
    for name, (key, _, _) in STEP.items():
        if any(key in r for r in rows):
            out[name] = np.full(steps, np.nan)
            out[name][: len(rows)] = _column(rows, key)
    scored = np.zeros(steps)
    scored[: len(rows)] = [r["scored"] for r in rows]
    return out | {"step_scored": scored}


def _categories(rows: Sequence[Mapping[str, Any]], categories: Sequence[str]) -> dict[str, np.ndarray]:
    count, quality, hits = (np.zeros(len(categories)) for _ in range(3))
    for row in rows:
        if row["scored"]:
            at = categories.index(row["category"])
            count[at] += 1
            quality[at] += row["quality"]
            hits[at] += row["hit"]
    out = {"category_requests": count, "category_hit_rate": ratio(hits, count)}
    return out | ({"category_f1": ratio(quality, count)} if rows[0]["f1"] is not None else {})


def _label(plan: Plan, values: dict[str, np.ndarray], categories: list[str], attrs: Mapping[str, Any]) -> xr.Dataset:
    dims = ("trace", "policy", "capacity", "seed")
    data: dict[str, tuple] = {}
    for name, array in values.items():
        last = ("step",) if name.startswith("step_") else ("category",) if name.startswith("category_") else ()
        data[name] = ((*dims, *last), array)
    lam = np.asarray(plan.settings.lambdas, float)
    cost = values["miss_cost_total"][..., None] + lam * values["switches"][..., None]
    data["total_cost"] = ((*dims, "lambda"), cost)
    coords = {
        "trace": [s.name for s in plan.sessions], "policy": [c.label for c in plan.cases],
        "capacity": list(plan.capacities), "seed": list(plan.seeds), "category": categories, "lambda": list(lam),
    }  # fmt: skip
    from solarjax import __version__

    settings = plan.settings
    own = {
        "title": "solarjax replay", "solarjax_version": __version__, "mode": settings.mode,
        "quality": "hit" if settings.mode == SHADOW else "answer_f1", "feedback": settings.feedback,
        "k": settings.k, "root_seed": settings.root_seed,
        "left_out": json.dumps({s.name: dict(s.dropped) for s in plan.sessions}),
        "online": json.dumps({c.label: bool(c.spec.online) for c in plan.cases}),
    }  # fmt: skip
    dataset = xr.Dataset(data, coords, {**own, **attrs})
    about = (
        {name: ENGINE[name] for name in ENGINE} | RUN | {name: (long, unit) for name, (_, long, unit) in STEP.items()}
    )
    about["category_f1"] = ("mean quality over the questions of the category (NaN if none)", _PER)
    about["step_scored"] = ("1 where the question is scored", _PER)
    for key, variable in dataset.data_vars.items():
        if str(key) in about:
            long_name, units = about[str(key)]
            variable.attrs.update(long_name=long_name, units=units)
    return dataset


def _repeated(records: Sequence[Mapping[str, Any]]) -> set[tuple]:
    """Places of the questions whose prompt came earlier in the order; independent of who was answered first."""
    seen: set[str] = set()
    found = set()
    for record in sorted((r for r in records if "prompt" in r), key=lambda r: r["order"]):
        if record["prompt"] in seen:
            found.add(_place(record))
        seen.add(record["prompt"])
    return found


def _place(record: Mapping[str, Any]) -> tuple:
    return record["session"], record["policy"], record["capacity"], record["seed"], record["position"]


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    # A replay continued from an older journal has records without what is recorded since.
    return np.array([np.nan if r.get(name) is None else float(r[name]) for r in rows])


def _mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
