"""Decision latency (section 6.7): a live replay's step, warm, at K = 100 and d = 384."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from experiments.measurements import latency
from experiments.types import Artefact, Context, Measurement, Plan, Results, Row, View

POLICIES = (
    "fifo,lru,lfu,arc,solar_e,solar_a(fill=free),solar(fill=free),two_q,s3_fifo,sieve,w_tinylfu,lru_k,gdsf,k_center,"
    "posterior_mean,redundancy"
)
"""The gate fills freely, because the release's bootstrap would leave the cache too empty to evict anything."""
QUICK = "fifo,solar(fill=free)"
CAPACITY, DIM = 100, 384
QUANTILES = {"p50": 0.5, "p99": 0.99}


def plan(context: Context) -> Plan:
    """One measurement of one process: times are those of this machine."""
    config = {
        "policies": QUICK if context.quick else POLICIES, "capacity": CAPACITY, "dim": DIM, "k": 3,
        "decisions": 500 if context.quick else 2000, "topics": 50, "root_seed": 0,
    }  # fmt: skip
    return {"latency": Measurement(config, latency.measure)}


def rows(results: Results) -> list[Row]:
    """Quantiles with distribution-free 95 % intervals (order statistics), and the share of decisions below 1 ms."""
    data = results["latency"]
    out = []
    for i, policy in enumerate(map(str, data["policy"].values)):
        times = np.sort(data["latency_ms"].values[i])
        fields: dict[str, Any] = {
            "table": "latency", "policy": policy, "n": len(times), "unit": "decision", "entry": "latency",
            "x_name": "K", "x": float(CAPACITY), "capacity": CAPACITY,
        }  # fmt: skip
        for name, q in QUANTILES.items():
            low, high = quantile_interval(times, q)
            value = float(np.quantile(times, q))
            out.append(Row(measure=f"{name} (ms)", mean=value, low=low, high=high, **fields))
        below = stats.binomtest(int((times < 1).sum()), len(times)).proportion_ci(method="wilson")
        share = float((times < 1).mean())
        out.append(Row(measure="share below 1 ms", mean=share, low=below.low, high=below.high, **fields))
        rate = float(data["written"].values[i].mean())
        out.append(Row(measure="cache changes per decision", mean=rate, **fields))
    return out


def quantile_interval(ordered: np.ndarray, q: float) -> tuple[float, float]:
    """95 % interval of a quantile from the order statistics of `ordered [n]`, ends clipped to what was seen."""
    n = len(ordered)
    low, high = stats.binom.ppf([0.025, 0.975], n, q).astype(int)
    return float(ordered[max(low - 1, 0)]), float(ordered[min(high, n - 1)])


ARTEFACT = Artefact(
    id="latency",
    title="Decision latency",
    source="section 6.7",
    plan=plan,
    rows=rows,
    views=(
        View("latency", "p50 (ms)", "Median time of a decision", False, False),
        View("latency", "p99 (ms)", "99th percentile", False, False),
        View("latency", "share below 1 ms", "Share of the decisions below 1 ms", False, False),
        View("latency", "cache changes per decision", "Cache changes per decision", False, False),
    ),
    summary=(
        "One request at a time on a full cache, by the step that a replay runs: lookup over the stored embeddings, "
        "policy, write, and the copy of query and item to the device; encoding a text is not part of it. Times are "
        "those of the machine that made this page, whatever else ran on it."
    ),
    claims=("S27",),
    alone=True,
)
