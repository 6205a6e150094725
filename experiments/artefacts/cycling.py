"""Cycling topics (Table 8, Figure 5): the workload on which FIFO hits nothing."""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import partial

from experiments import policies, published
from experiments.statistics import sweep_rows
from experiments.types import Artefact, Context, Plan, Results, Row, View
from solarjax.cli.job import Job
from solarjax.cli.sources import SourceSpec

TOPICS = (10, 15, 20, 30, 50)
CAPACITY = 10


def plan(context: Context) -> Plan:
    """One sweep per number of topics, at the paper's capacity."""
    return {
        f"m={m}": Job(
            SourceSpec("workload", "cycling", settings=(f"n_topics={m}",)), policies.synthetic(context),
            capacities=(CAPACITY,), seeds=context.synthetic_seeds,
        )
        for m in TOPICS
    }  # fmt: skip


def rows(results: Results) -> list[Row]:
    """x is m/K. `store rates`: the ends of the range over m/K that the paper prints for the gated policies."""
    out = [
        row
        for m in TOPICS
        for row in sweep_rows(
            results[f"m={m}"], table="cycling", entry=f"m={m}", x_name="m/K", x=partial(operator.truediv, m)
        )
    ]
    gated = [row for row in out if row.measure == "store_rate" and row.policy in ("solar", "solar_a")]
    for name, chosen in (("least", min), ("largest", max)):
        if gated:
            end = chosen(gated, key=lambda row: row.mean or 0.0)
            label = f"{name} of SOLAR and SOLAR-A over m/K"
            out.append(replace(end, table="store rates", policy=label, x=None, x_name="", baseline="", diff=None,
                               diff_low=None, diff_high=None, p_value=None, effect=None, better=None,
                               detectable=None))  # fmt: skip
    return out


ARTEFACT = Artefact(
    id="cycling",
    title="Cycling topics",
    source="Table 8, Figure 5",
    plan=plan,
    rows=rows,
    views=(
        View("cycling", "hit_rate", "Hit rate by topics per slot", drawn=policies.DRAWN),
        View("cycling", "store_rate", "Admissions per arrival", figure=False, compare=False),
    ),
    summary=(
        "m topics in strict round robin, K = 10, 5 items a topic, 10 cycles. FIFO evicts exactly what is asked "
        "next as soon as m > K. The controls matter here: a coin, a rule that never changes a full cache, and the "
        "gate with plain FIFO eviction."
    ),
    published=published.CYCLING,
    published_x="m/K",
    claims=("S01", "S02", "S03", "S04", "S29"),
)
