"""Beyond the paper, generated workloads: classic, diversity, bandit and control policies in the paper's own tables."""

from __future__ import annotations

from dataclasses import replace

from experiments import beyond
from experiments.artefacts import cycling, drift, working_set
from experiments.statistics import sweep_rows
from experiments.types import Artefact, Context, Plan, Results, Row, View

OURS = " with ours"
TOPICS = ("m=10", "m=20", "m=50")
CAPACITIES = (10, 15, 20, 30, 50)
QUICK_TOPICS, QUICK = ("m=20",), (20, 30)


def plan(context: Context) -> Plan:
    """The sweeps of the paper's tables, and for each the same sweep of the other policies."""
    topics = QUICK_TOPICS if context.quick else TOPICS
    base = {f"cycling {name}": job for name, job in cycling.plan(context).items() if name in topics}
    base |= {f"working set {name}": job for name, job in working_set.plan(context).items() if name == "uniform"}
    if not context.quick:
        base |= drift.plan(context)
    found = dict(base)
    for name, job in base.items():
        capacities = job.capacities
        if name.startswith("working set"):
            capacities = QUICK if context.quick else CAPACITIES
        found[name + OURS] = replace(job, policies=beyond.policies(context), capacities=capacities)
    return found


def rows(results: Results) -> list[Row]:
    """x is K; a group is a workload, and for `cycling` the number of topics as well."""
    out = []
    for name, data in results.items():
        if not name.endswith(OURS):
            joined = beyond.join(data, results[name + OURS])
            out += sweep_rows(joined, table="synthetic", entry=name + OURS, group=name)
    return out


ARTEFACT = Artefact(
    id="beyond_synthetic",
    title="Beyond the paper: generated workloads",
    source="beyond the paper",
    plan=plan,
    rows=rows,
    views=(
        View("synthetic", "hit_rate", "Hit rate", drawn=beyond.DRAWN),
        View("synthetic", "admission_rate_full", "Admissions per new arrival once full", False, False),
    ),
    summary=(
        "2Q, S3-FIFO, SIEVE, W-TinyLFU, LRU-2 and GDSF are rules for exact keys: here a resident that is retrieved, or "
        "arrives again, is accessed, and ghosts are item ids. Redundancy and k-center eviction look at embeddings "
        "only. Posterior-mean eviction is Thompson eviction without the draw. `oracle` and `oracle_cover` see the "
        "future and are heuristics."
    ),
    claims=("S04",),
)
