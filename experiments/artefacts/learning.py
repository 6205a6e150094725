"""Learning dynamics (Table 12, Figure 4) on LoCoMo by retrieval: slope, halves, and the trajectory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import xarray as xr

from experiments import dialogues, policies
from experiments.statistics import array_rows, sweep_rows
from experiments.types import Artefact, Context, Plan, Results, Row, View

GROUPS = ("P2 mean=100", "P3 online")
BINS = 10
TRAJECTORY, CAPACITY, SEEDS = "trajectory", 50, 10
SOLAR = "solar(signal=miss)"


def plan(context: Context) -> Plan:
    """The online protocols, and one run that keeps every hit. Raises `Missing`."""
    groups = GROUPS[:1] if context.quick else GROUPS
    found = dict(dialogues.plan(context, "locomo", groups))
    job = found[GROUPS[0]]
    found[TRAJECTORY] = replace(
        job,
        policies="unlimited,fifo,lru,lfu,arc,solar_e,solar_a(signal=miss),solar(signal=miss),bernoulli",
        capacities=(CAPACITY,),
        seeds=job.seeds[:SEEDS],
        per_step=True,
    )
    return found


def rows(results: Results) -> list[Row]:
    """`slope` by K; `trajectory`: hit rate in ten equal parts of the scored questions, at K = 50."""
    out = []
    for group, data in results.items():
        if group == TRAJECTORY:
            binned = trajectory(data, BINS)
            for part in range(BINS):
                values = binned.isel(part=part, drop=True)
                out += array_rows(
                    values, "hit_rate", "trajectory", TRAJECTORY, GROUPS[0], "tenth", partial(_tenth, part)
                )
        else:
            chosen = ("learning_slope", "first_half", "second_half")
            out += sweep_rows(data, table="slope", entry=group, group=group, measures=chosen)
            out += sweep_rows(
                data, table="slope against SOLAR", entry=group, group=group, measures=chosen[:1], baseline=SOLAR
            )
    return out


def _tenth(part: int, capacity: int) -> float:
    del capacity  # one only
    return part + 1.0


def trajectory(data: xr.Dataset, parts: int) -> xr.DataArray:
    """`[trace, policy, capacity, seed, part]`: hit rate in equal parts of each stream's scored questions.

    Args:
      data: a sweep with `hits` and `scored` (`per_step`).
      parts: how many.
    """
    scored = data["scored"].transpose("trace", "seed", "step").values.astype(bool)
    hits = data["hits"].transpose("trace", "seed", "policy", "capacity", "step").values
    shape = hits.shape[:-1]
    out = np.full((*shape, parts), np.nan)
    for trace in range(shape[0]):
        for seed in range(shape[1]):
            own = hits[trace, seed][..., scored[trace, seed]]
            for part, chunk in enumerate(np.array_split(np.arange(own.shape[-1]), parts)):
                if len(chunk):
                    out[trace, seed, ..., part] = own[..., chunk].mean(axis=-1)
    names = ("trace", "seed", "policy", "capacity")
    coords = {name: data[name].values for name in names}
    return xr.DataArray(out, coords, (*names, "part"), "hit_rate").transpose(
        "trace", "policy", "capacity", "seed", "part"
    )


ARTEFACT = Artefact(
    id="learning",
    title="Learning dynamics",
    source="Table 12, Figure 4 (retrieval; their F1 needs a live language model)",
    plan=plan,
    rows=rows,
    views=(
        View("slope", "learning_slope", "Learning slope, hits per question", drawn=policies.DRAWN_ON_DIALOGUES),
        View("slope against SOLAR", "learning_slope", "Learning slope less that of SOLAR", figure=False),
        View("slope", "second_half", "Hit rate over the second half", figure=False),
        View("trajectory", "hit_rate", f"Trajectory at K = {CAPACITY}"),
    ),
    summary=(
        "Slope of the rolling mean of hits over the scored questions (the release's definition). An unlimited "
        "cache has a slope of its own, because the stream changes: compare with it before calling a slope "
        "learning."
    ),
    claims=("S25",),
)
