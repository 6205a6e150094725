"""Sensitivity: what the winner depends on, from one vmapped grid, and the transition capacity K*."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from experiments import transition
from experiments.measurements import grid
from experiments.statistics import array_rows
from experiments.types import Artefact, Context, Measurement, Plan, Results, Row, View
from solarjax.report.variants import fold_grid

STEPS, ITEMS, TOPICS, WINDOW = 300, 10, 15, 100
CAPACITIES = (5, 8, 12, 16, 20, 30, 40, 60)
NOISES = (0.05, 0.2, 0.3)
SIZES = (5, 10, 15, 20, 30)
POLICIES = "fifo,lru,solar_a,solar_a(fill=free),gated_fifo,k_center"
LAMBDAS = "lam=1,5,20"
QUICK_CAPACITIES, QUICK_POLICIES, QUICK_LAMBDAS = (12, 20, 40), "fifo,solar_a", "lam=5"
QUICK_CELLS = ("topics=10", "topics=15", "topics=30", "noise=0.2")
RELEASED, RELEASED_CELL = "lam=5", "topics=15"
FOLLOWED = ("solar_a", "solar_a(fill=free)", "gated_fifo")


def cells() -> dict[str, dict[str, Any]]:
    """Label -> workload and settings. Labels are `axis=value`; the released setting is `RELEASED_CELL`, noise .1."""

    def drawn(**settings: Any) -> dict[str, Any]:
        base = {"n_topics": TOPICS, "items_per_topic": ITEMS, "n_steps": STEPS}
        return {"workload": "working_set", "settings": base | settings}

    found = {f"noise={s:g}": drawn(item_noise=s, query_noise=s / 2) for s in NOISES}
    found |= {f"topics={m}": drawn(n_topics=m) for m in SIZES}
    found["order=zipf"] = drawn(popularity="zipf")
    cycle = {"n_topics": TOPICS, "items_per_topic": ITEMS, "n_cycles": STEPS // TOPICS}
    found["order=cycle"] = {"workload": "cycling", "settings": cycle}
    return found


def plan(context: Context) -> Plan:
    """One measurement, one sweep: cells x capacities x lambda x seeds for each policy."""
    quick = context.quick
    config = {
        "cells": {n: c for n, c in cells().items() if not quick or n in QUICK_CELLS},
        "policies": QUICK_POLICIES if quick else POLICIES,
        "params": [QUICK_LAMBDAS if quick else LAMBDAS],
        "capacities": list(QUICK_CAPACITIES if quick else CAPACITIES),
        "seeds": list(context.synthetic_seeds),
        "root_seed": 0,
        "window": WINDOW,
    }
    return {"grid": Measurement(config, grid.measure)}


def rows(results: Results) -> list[Row]:
    """Group is the axis that a cell varies, x the capacity.

    `map`: hit rate of every policy in every cell. `gap`: difference to FIFO as a heat map, one group per policy, one
    line per cell. `winner`: the best policy of each cell and its lead over FIFO. `K*`: transition capacity by cell.
    `transition`: exponent of K* in the working-set size.
    """
    data = results["grid"]
    cells = {str(name): fold_grid(data.sel(cell=name)[["hit_rate"]])["hit_rate"] for name in data["cell"].values}
    own = {name: array_rows(hit, "hit_rate", "map", "grid", name) for name, hit in cells.items()}
    out = [row for part in own.values() for row in part]
    out += [row for name, part in own.items() for row in _gaps(part, name) + _winners(part, name)]
    sizes = {str(n): float(data["working_set"].sel(cell=n).mean()) for n in data["cell"].values}
    return out + _transitions(cells, sizes)


def _gaps(own: list[Row], cell: str) -> list[Row]:
    out = []
    for row in own:
        name, _, point = row.policy.partition(" · ")
        # Other lambdas than the release's make lines of their own, in the released cell only.
        if row.diff is None or (point not in ("", RELEASED) and cell != RELEASED_CELL):
            continue
        line = cell if point in ("", RELEASED) else point.replace("lam=", "lambda=")
        out.append(
            replace(
                row, table="gap", group=name, policy=line, measure="difference", mean=row.diff, low=row.diff_low,
                high=row.diff_high, sd=None, baseline="", diff=None, diff_low=None, diff_high=None, p_value=None,
                effect=None, better=None, detectable=None,
            )
        )  # fmt: skip
    return out


def _winners(own: list[Row], cell: str) -> list[Row]:
    out = []
    for x in dict.fromkeys(row.x for row in own):
        best = max((row for row in own if row.x == x), key=lambda row: row.mean or 0.0)
        out.append(
            Row(
                table="winner", policy=f"{cell}: {best.policy}", measure="lead", mean=best.diff or 0.0,
                group=cell.split("=")[0], x_name="K", x=x, capacity=best.capacity, low=best.diff_low,
                high=best.diff_high, n=best.n, unit=best.unit, entry="grid",
            )
        )  # fmt: skip
    return out


def _transitions(cells: Mapping[str, xr.DataArray], sizes: Mapping[str, float]) -> list[Row]:
    out = []
    labels = list(map(str, next(iter(cells.values()))["policy"].values))
    for policy in labels:
        followed, _, point = policy.partition(" · ")
        if followed not in FOLLOWED or point not in ("", RELEASED):
            continue
        points, samples, scaled = [], [], []
        for name, hit in cells.items():
            gap = (hit.sel(policy=policy) - hit.sel(policy="fifo")).transpose("capacity", "seed")
            found, drawn = transition.crossing(hit["capacity"].values, gap.values)
            out.append(
                Row(
                    table="K*", policy=policy, measure="K*", mean=found.at, group=name, x_name="working-set size",
                    x=round(sizes[name], 2), low=found.low, high=found.high, n=gap.sizes["seed"], unit="seed",
                    entry="grid",
                )
            )  # fmt: skip
            out.append(
                Row(
                    table="K*", policy=policy, measure="share of resamples that cross", mean=found.defined, group=name,
                    x_name="working-set size", x=round(sizes[name], 2), n=transition.RESAMPLES, entry="grid",
                )
            )  # fmt: skip
            if name.startswith("topics="):
                points.append(np.nan if found.at is None else found.at)
                samples.append(drawn)
                scaled.append(sizes[name])
        power = transition.scaling(np.asarray(scaled), np.asarray(points), np.asarray(samples))
        if power is not None:
            out.append(
                Row(
                    table="transition", policy=policy, measure="exponent of K* in the working-set size", mean=power.at,
                    low=power.low, high=power.high, diff=power.at, diff_low=power.low, diff_high=power.high,
                    n=int(np.sum(~np.isnan(points))), unit="working-set size", entry="grid",
                )
            )  # fmt: skip
    return out


ARTEFACT = Artefact(
    id="sensitivity",
    title="Sensitivity and the transition capacity",
    source="section 6.5.2 and beyond the paper",
    plan=plan,
    rows=rows,
    views=(
        View("winner", "lead", "The best policy of each cell, and its lead over FIFO", False, False),
        View("gap", "difference", "Difference to FIFO by setting (line) and capacity (column)", True, False, heat=True),
        View("K*", "K*", "Transition capacity by working-set size", False, False),
        View("transition", "exponent of K* in the working-set size", "How K* scales", False, False),
    ),
    summary=(
        "One grid: item noise (query noise is half of it), number of topics, order of the queries and the gate's "
        "lambda, each against the capacity, around the released setting (15 topics of 10 items, noise .1). K* is the "
        "capacity at which the mean difference to FIFO last falls to zero, with a bootstrap interval over seeds; the "
        "working-set size is the mean greedy cover of 100 queries (`solarjax/analysis/working_set_size.py`)."
    ),
    claims=("S05", "S24"),
)
