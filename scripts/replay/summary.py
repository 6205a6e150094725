"""Tables of a full replay, from its stored datasets only: per session, and means with intervals over sessions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import xarray as xr

from scripts.replay import ledger
from scripts.replay.ledger import number
from solarjax.analysis.summary import t_interval
from solarjax.report import stored
from solarjax.report.render import csv_text
from solarjax.report.stored import StoredRun

MEASURES = (
    "answer_f1 answer_f1_answerable hit_rate first_half second_half learning_slope admissions evictions final_size "
    "requests ttft_ms itl_ms prompt_tokens cached_share completion_tokens decision_ms_p50 decision_ms_p99 "
    "repeated_share"
).split()
"""Stored measures that are taken as they are; `measures` adds those along an axis of their own."""
CONFIG = "model prompt settings seeds capacities policies source".split()
"""What of the configuration tells where the numbers come from; `source` names the data files with their sha256."""


def write(run: StoredRun, out: Path, baseline: str = ledger.BASELINE) -> list[Path]:
    """Writes OUT/results.csv, OUT/sessions.csv, OUT/ledger.json and OUT/provenance.json.

    Args:
      run: the complete sessions, see `complete.gather`.   baseline: label of the policy that others are compared with.

    Raises:
      StoreError: the baseline did not run, or `out` cannot be written to.
    """
    have = [str(name) for name in run.data["policy"].values]
    if baseline not in have:
        raise stored.StoreError(f"{run.path} holds no runs of {baseline!r} to compare with, only {', '.join(have)}")
    data = {int(k): measures(run.data, int(k)) for k in run.data["capacity"].values}
    record = run.provenance
    rows = ledger.rows(data, str(run.config["model"].get("name", "")), record["command"])
    where = {
        "command": record["command"],
        "config": {name: run.config[name] for name in CONFIG},
        "runs": record["parts"],
    }
    texts = {
        "results.csv": csv_text([row for k, one in data.items() for row in means(k, one, baseline)]),
        "sessions.csv": csv_text([row for k, one in data.items() for row in per_session(k, one)]),
        "ledger.json": json.dumps(rows, indent=1, allow_nan=False) + "\n",
        "provenance.json": json.dumps(where, indent=1, allow_nan=False) + "\n",
    }
    for name, text in texts.items():
        stored.write_text(out / name, text)
    return [out / name for name in texts]


def measures(data: xr.Dataset, capacity: int) -> xr.Dataset:
    """Everything that a replay is reported with at one capacity: `[trace, policy]`, the mean over seeds.

    Beyond `MEASURES`: `mean_size`, the residents after a step, mean over all steps; `total_cost_lambda_X`, the sum of
    1 - F1 over the scored questions plus X per cache change; and per question category `f1_NAME` (NaN in a session that
    asks none) and `requests_NAME`. LoCoMo's categories are 1 multi_hop, 2 temporal, 3 open_domain, 4 single_hop and,
    apart from them because nothing in the dialogue answers its questions, 5 adversarial; `answer_f1_answerable` is over
    1 to 4.
    """
    one = data.sel(capacity=capacity, drop=True)
    out = {name: one[name] for name in MEASURES if name in one}
    if "step_size" in one:
        out["mean_size"] = one["step_size"].mean("step")
    for lam in one["lambda"].values:
        out[f"total_cost_lambda_{lam:g}"] = one["total_cost"].sel({"lambda": lam}, drop=True)
    for name in map(str, one["category"].values):
        label = re.sub(r"\W+", "_", name)
        for measure, of in (("f1", "category_f1"), ("requests", "category_requests")):
            if of in one:
                out[f"{measure}_{label}"] = one[of].sel(category=name, drop=True)
    return xr.Dataset({name: array.mean("seed") for name, array in out.items()})


def means(k: int, data: xr.Dataset, baseline: str) -> list[dict[str, Any]]:
    """A row per policy and measure: mean over sessions with its interval, and the paired difference to the baseline."""
    rows = []
    for policy in map(str, data["policy"].values):
        for name in data.data_vars:
            values = data[name].sel(policy=policy).values
            mean, gap = t_interval(values), t_interval(values - data[name].sel(policy=baseline).values)
            rows.append({
                "capacity": k, "policy": policy, "measure": name, "sessions": int(mean.n),
                "mean": number(mean.mean), "low": number(mean.low), "high": number(mean.high),
                f"diff_to_{baseline}": number(gap.mean), "diff_low": number(gap.low), "diff_high": number(gap.high),
            })  # fmt: skip
    return rows


def per_session(k: int, data: xr.Dataset) -> list[dict[str, Any]]:
    """A row per session and policy, a column per measure."""
    return [
        {"capacity": k, "session": str(trace), "policy": str(policy)}
        | {str(name): number(data[name].sel(trace=trace, policy=policy).values) for name in data.data_vars}
        for trace in data["trace"].values
        for policy in data["policy"].values
    ]
