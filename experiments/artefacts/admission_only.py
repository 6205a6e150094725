"""Admission alone: the gate with FIFO eviction beside the gate with SOLAR-A's multi-score eviction, as a factorial."""

from __future__ import annotations

import xarray as xr

from experiments import dialogues
from experiments.statistics import array_rows, sample_row
from experiments.types import Artefact, Context, Missing, Plan, Results, Row, View
from solarjax.analysis import replicates, unit_of_replication
from solarjax.cli.job import Job
from solarjax.cli.sources import SourceSpec

ARMS = {
    "all, FIFO": "fifo",
    "gate, FIFO": "gated_fifo",
    "all, multi-score": "weighted_value",
    "gate, multi-score": "solar_a",
}
COIN = "bernoulli(p=0.1)"
ON_DIALOGUES = {"gate, FIFO": "gated_fifo(signal=miss)", "gate, multi-score": "solar_a(signal=miss)"}
GROUPS = ("P1 turns", "P2 mean=100")
WORKLOADS = {
    "cycling m=20": ("cycling", ("n_topics=20",), (10,)),
    "working set": ("working_set", (), (10, 15, 20, 30, 50)),
    "drift": ("topic_drift", (), (20,)),
}
QUICK = {"working set": ("working_set", (), (20, 30))}
EFFECTS = {
    "gate (FIFO eviction)": ("gate, FIFO", "all, FIFO"),
    "gate (multi-score eviction)": ("gate, multi-score", "all, multi-score"),
    "multi-score (all admitted)": ("all, multi-score", "all, FIFO"),
    "multi-score (gated)": ("gate, multi-score", "gate, FIFO"),
}


def _arms(group: str) -> dict[str, str]:
    return ARMS | ON_DIALOGUES if group.startswith("LoCoMo") else ARMS


def plan(context: Context) -> Plan:
    """Four arms and a coin of the gate's rate; LoCoMo only if it is there, and not in a quick run."""
    found = {
        name: Job(
            SourceSpec("workload", workload, settings=settings), ",".join([*ARMS.values(), COIN]),
            capacities=capacities, seeds=context.synthetic_seeds,
        )
        for name, (workload, settings, capacities) in (QUICK if context.quick else WORKLOADS).items()
    }  # fmt: skip
    if context.quick:
        return found
    try:
        for group, job in dialogues.plan(context, "locomo", GROUPS).items():
            name = f"LoCoMo {group}"
            found[name] = Job(
                job.source, ",".join([*_arms(name).values(), "bernoulli"]), capacities=job.capacities, seeds=job.seeds
            )
    except Missing:
        pass
    return found


def rows(results: Results) -> list[Row]:
    """`arms`: hit rate and admission rate of each. `effects`: what the gate and the eviction rule add, each with the
    other one off and on, and `interaction`, paired by replicate."""
    out: list[Row] = []
    for group, data in results.items():
        names = {label: arm for arm, label in _arms(group).items()}
        shown = [names.get(str(p), str(p)) for p in data["policy"].values]
        data = data.assign_coords(policy=shown)
        for measure in ("hit_rate", "admission_rate_full"):
            out += array_rows(data[measure], measure, "arms", group, group, baseline="all, FIFO")
        out += _effects(data["hit_rate"], group)
    return out


def _effects(hit: xr.DataArray, group: str) -> list[Row]:
    values = replicates(hit).transpose("policy", "capacity", "replicate")
    contrasts = {name: values.sel(policy=a) - values.sel(policy=b) for name, (a, b) in EFFECTS.items()}
    contrasts["interaction"] = contrasts["gate (multi-score eviction)"] - contrasts["gate (FIFO eviction)"]
    return [
        sample_row(
            gain.sel(capacity=capacity).values, contrast=True, unit=unit_of_replication(hit), table="effects",
            group=group, policy=name, measure="hit_rate", x_name="K", x=float(capacity), capacity=int(capacity),
            entry=group,
        )
        for name, gain in contrasts.items()
        for capacity in hit["capacity"].values
    ]  # fmt: skip


ARTEFACT = Artefact(
    id="admission_only",
    title="Admission alone",
    source="Table 6, beyond the paper",
    plan=plan,
    rows=rows,
    views=(
        View("effects", "hit_rate", "What the gate and the eviction rule add", figure=False),
        View("arms", "hit_rate", "Hit rate", figure=False),
        View("arms", "admission_rate_full", "Admissions per new arrival once full", False, False),
    ),
    summary=(
        "The paper's admission-only arm, SOLAR-A, evicts by a multi-score rule of its own. Here the gate runs with "
        "plain FIFO eviction as well, and the multi-score rule without a gate: a 2 x 2 factorial, so each effect can "
        "be read with the other part off and on. A coin of about the gate's rate stands beside them."
    ),
    claims=("S21",),
)
