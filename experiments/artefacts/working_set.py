"""Working-set sweep (Table 9, Figure 6): where selective admission stops to pay."""

from __future__ import annotations

from experiments import policies, published
from experiments.statistics import sweep_rows
from experiments.types import Artefact, Context, Plan, Results, Row, View
from solarjax.cli.job import Job
from solarjax.cli.sources import SourceSpec

CAPACITIES = (5, 10, 15, 20, 30, 50, 75, 100, 150, 200)
QUICK = (5, 10, 15, 20, 30, 50, 100)
GROUPS = ("uniform", "zipf")


def plan(context: Context) -> Plan:
    """Topics drawn uniformly and by Zipf's law (the quick run: uniformly only)."""
    return {
        group: Job(
            SourceSpec("workload", "working_set", settings=(f"popularity={group}",)), policies.synthetic(context),
            capacities=QUICK if context.quick else CAPACITIES, seeds=context.synthetic_seeds,
        )
        for group in (GROUPS[:1] if context.quick else GROUPS)
    }  # fmt: skip


def rows(results: Results) -> list[Row]:
    """x is K, one group per law of the topics."""
    return [
        row for name, data in results.items() for row in sweep_rows(data, table="working set", entry=name, group=name)
    ]


ARTEFACT = Artefact(
    id="working_set",
    title="Working-set sweep",
    source="Table 9, Figure 6",
    plan=plan,
    rows=rows,
    views=(
        View("working set", "hit_rate", "Hit rate by capacity", drawn=policies.DRAWN),
        View("working set", "final_size", "Items in the cache at the end", compare=False, drawn=policies.DRAWN),
        View("working set", "store_rate", "Admissions per arrival", figure=False, compare=False),
    ),
    summary=(
        "15 topics of 10 items, 500 steps. The release's gate has a bootstrap that ends at 25 items, so its cache "
        "stays partly empty when K is large; `fill=free` admits until the cache is full and changes nothing "
        "else."
    ),
    published=published.WORKING_SET,
    claims=("S04", "S05", "S06", "S24", "S29"),
)
