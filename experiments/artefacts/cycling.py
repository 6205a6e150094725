"""Cycling topics (Table 8, Figure 5): the workload on which FIFO hits nothing."""

from __future__ import annotations

import operator
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
    """x is m/K."""
    return [
        row
        for m in TOPICS
        for row in sweep_rows(
            results[f"m={m}"], table="cycling", entry=f"m={m}", x_name="m/K", x=partial(operator.truediv, m)
        )
    ]


ARTEFACT = Artefact(
    id="cycling",
    title="Cycling topics",
    source="Table 8, Figure 5",
    plan=plan,
    rows=rows,
    views=(
        View("cycling", "hit_rate", "Hit rate by topics per slot"),
        View("cycling", "store_rate", "Admissions per arrival", figure=False, compare=False),
    ),
    summary=(
        "m topics in strict round robin, K = 10, 5 items a topic, 10 cycles. FIFO evicts exactly what is asked "
        "next as soon as m > K. The controls matter here: a coin, a rule that never changes a full cache, and the "
        "gate with plain FIFO eviction."
    ),
    published=published.CYCLING,
    explain={
        (
            "",
            1.0,
            policy,
        ): "Three instances. On the authors' own arrays of two of them our engine gives the release's figures "
        "exactly (see The authors' own instances), so the program is the same and the draw differs."
        for policy in ("lfu", "arc")
    },
    claims=("S01", "S02", "S03", "S04", "S29"),
)
