"""Admission and eviction, alone and together (Table 6), as a factorial with a contrast for synergy."""

from __future__ import annotations

from collections.abc import Mapping

import xarray as xr

from experiments import dialogues
from experiments.artefacts import cycling, working_set
from experiments.statistics import array_rows, sample_row
from experiments.types import Artefact, Context, Missing, Plan, Results, Row, View
from solarjax.analysis import replicates, unit_of_replication

ARMS = ("fifo", "solar_e", "solar_a", "gated_fifo", "solar")
PAPERS, FACTORIAL = "as the paper: A with its own eviction", "factorial: the gate with FIFO eviction"
DIALOGUES = ("P1 turns", "P2 mean=100", "P3")


def plan(context: Context) -> Plan:
    """The sweeps of the other artefacts; LoCoMo only if it is there."""
    found = {f"cycling {name}": job for name, job in cycling.plan(context).items()}
    found |= {f"working set {name}": job for name, job in working_set.plan(context).items()}
    groups = tuple(g for g in DIALOGUES if not context.quick or g in dialogues.QUICK_GROUPS)
    try:
        found |= {f"LoCoMo {group}": job for group, job in dialogues.plan(context, "locomo", groups).items()}
    except Missing:
        pass
    return found


def rows(results: Results) -> list[Row]:
    """`arms`: hit rate of the five arms. `synergy`: gain of both less the sum of the gains, per replicate."""
    out = []
    for group, data in results.items():
        hit = data["hit_rate"]
        labels = {name.split("(")[0]: name for name in map(str, hit["policy"].values) if _plain(name)}
        chosen = hit.sel(policy=[labels[arm] for arm in ARMS]).assign_coords(policy=list(ARMS))
        out += array_rows(chosen, "hit_rate", "arms", group, group)
        out += _synergy(chosen, group)
    return out


def _plain(label: str) -> bool:
    """The release's variant: no parameters, or the signal that the release uses on dialogues."""
    return "(" not in label or label.endswith("(signal=miss)")


def _synergy(hit: xr.DataArray, group: str) -> list[Row]:
    values: Mapping[str, xr.DataArray] = {
        arm: replicates(hit.sel(policy=arm, drop=True)).transpose("capacity", "replicate") for arm in ARMS
    }
    gain = {arm: values[arm] - values["fifo"] for arm in ARMS}
    out = []
    for name, admission in ((PAPERS, "solar_a"), (FACTORIAL, "gated_fifo")):
        excess = gain["solar"] - gain[admission] - gain["solar_e"]
        for i, capacity in enumerate(map(int, hit["capacity"].values)):
            out.append(
                sample_row(
                    excess.values[i], contrast=True, unit=unit_of_replication(hit), table="synergy", group=group,
                    policy=name, measure="excess", x_name="K", x=float(capacity), capacity=capacity, entry=group,
                )
            )  # fmt: skip
    return out


ARTEFACT = Artefact(
    id="ablation",
    title="Ablation and synergy",
    source="Table 6",
    plan=plan,
    rows=rows,
    views=(
        View("synergy", "excess", "Gain of SOLAR less the sum of the gains of its parts", figure=False),
        View("arms", "hit_rate", "Hit rate of the arms", figure=False),
    ),
    summary=(
        "Super-additive means that the excess is positive. The paper's admission arm also evicts by another rule "
        "than FIFO, so its sum counts an eviction rule twice; the factorial (admit all or gate) x (FIFO or "
        "Thompson) does not."
    ),
    claims=("S21",),
)
