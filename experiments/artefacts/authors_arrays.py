"""The authors' own arrays: the very instances behind two of the three published seeds."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import xarray as xr
from scipy import stats

from experiments import published
from experiments.artefacts import cycling, drift, working_set
from experiments.statistics import CONFIDENCE, PRINTED_SEEDS, sample_row
from experiments.types import Artefact, Context, Plan, PublishedKey, Results, Row, View
from solarjax.cli.job import Job
from solarjax.cli.sources import SourceSpec

POLICIES = "fifo,lru,lfu,arc,solar_e,solar_a,solar"
SEEDS = ("42", "1337")
THIRD = "third seed as printed"
PLACE = "share of our seeds at least as far from our mean"
OURS = "our seeds "
CAPACITIES = {"cycling": (10,), "working_set": (5, 10, 15, 20, 30, 50, 100), "topic_drift": drift.CAPACITIES[1:2]}
PRINTED: dict[str, dict[PublishedKey, published.Published]] = {
    "cycling": published.CYCLING,
    "working_set": published.WORKING_SET,
    "topic_drift": published.DRIFT,
}


def plan(context: Context) -> Plan:
    """One sweep per workload over both seeds' files, and the sweeps of our own seeds (which other artefacts make).

    Raises:
      Missing: the authors' arrays are not there.
    """
    files = [path for path in context.files("solar-synthetic") if path.suffix == ".npz"]
    ours = {f"{OURS}cycling {name}": job for name, job in cycling.plan(context).items()}
    ours[f"{OURS}working_set"] = working_set.plan(context)["uniform"]
    ours[f"{OURS}topic_drift"] = drift.plan(context)["drift"]
    return {
        name: Job(
            SourceSpec("trace", files=tuple(p for p in files if p.name.startswith(name))), POLICIES,
            capacities=capacities, seeds=context.recorded_seeds,
        )
        for name, capacities in CAPACITIES.items()
    } | ours  # fmt: skip


def rows(results: Results) -> list[Row]:
    """`instances`: our mean over policy seeds on each, and what the printed mean of three leaves for the third.
    `place`: how far out each lies among our own seeds."""
    out = []
    for name, data in results.items():
        if name.startswith(OURS):
            continue
        hit = data["hit_rate"]
        places: dict[float, dict[str, str]] = {}
        for trace in map(str, hit["trace"].values):
            places.setdefault(_topics(trace), {})[_seed(trace)] = trace
        for topics, traces in sorted(places.items()):
            for capacity in map(int, hit["capacity"].values):
                x = topics / capacity if name == "cycling" else float(capacity)
                for policy in map(str, hit["policy"].values):
                    cell = _cell(hit.sel(policy=policy, capacity=capacity), traces, name, x, policy, capacity)
                    out += [*cell, *_places(cell, _own(results, name, topics, policy, capacity))]
    return out


def _own(results: Results, name: str, topics: float, policy: str, capacity: int) -> np.ndarray:
    """`[R]` hit rates of our seeds in the same cell; empty if a reduced run lacks it."""
    data = results[f"{OURS}cycling m={topics:g}" if name == "cycling" else f"{OURS}{name}"]
    if policy not in data["policy"].values or capacity not in data["capacity"].values:
        return np.zeros(0)
    return np.asarray(data["hit_rate"].sel(policy=policy, capacity=capacity).values, np.float64).ravel()


def _places(cell: list[Row], own: np.ndarray) -> list[Row]:
    if len(cell) <= len(SEEDS) or not len(own):
        return []  # not printed, or nothing to place it among
    out = []
    for row in cell:
        centre = float(own.mean())
        half = row.mean - row.low if row.n == 1 and row.low is not None and row.mean is not None else 0.0
        apart = abs((row.mean or 0.0) - centre) - half - 1e-9
        share = float(np.mean(np.abs(own - centre) >= apart))
        out.append(replace(row, table="place", measure=PLACE, mean=share, sd=None, low=None, high=None, n=len(own)))
    return out


def _cell(hit: xr.DataArray, traces: dict[str, str], name: str, x: float, policy: str, capacity: int) -> list[Row]:
    known = [
        sample_row(
            hit.sel(trace=traces[seed]).values, table="instances", group=name, policy=f"{policy}, seed {seed}",
            measure="hit_rate", x_name="m/K" if name == "cycling" else "K", x=x, capacity=capacity, entry=name,
        )
        for seed in SEEDS
    ]  # fmt: skip
    key = ("uniform" if name == "working_set" else "", x, policy, "hit_rate")
    if key not in PRINTED[name]:
        return known
    printed = PRINTED[name][key]
    third = PRINTED_SEEDS * printed.value - sum(row.mean or 0.0 for row in known)
    # The digits that were cut, and that the authors drew the policy's randomness once per instance.
    drawn = float(np.sqrt(sum((row.sd or 0.0) ** 2 for row in known)))
    half = PRINTED_SEEDS * 0.5 * 10.0**-printed.decimals + stats.norm.ppf(0.5 + CONFIDENCE / 2) * drawn
    rest = replace(known[0], policy=f"{policy}, {THIRD}", mean=third, sd=None, low=third - half, high=third + half, n=1)
    return [*known, rest]


def _topics(trace: str) -> float:
    found = re.search(r"-m(\d+)-", trace)
    return float(found.group(1)) if found else 0.0


def _seed(trace: str) -> str:
    found = re.search(r"seed(\d+)", trace)
    return found.group(1) if found else ""


ARTEFACT = Artefact(
    id="authors_arrays",
    title="The authors' own instances",
    source="Tables 8 and 9, two of their three seeds",
    plan=plan,
    rows=rows,
    views=(
        View("instances", "hit_rate", "Hit rate on each instance", figure=False, compare=False),
        View(
            "place",
            PLACE,
            "Where an instance lies among our seeds",
            figure=False,
            compare=False,
            note="Share of our seeds that lie at least as far from our mean, on either side; small is unusual.",
        ),
    ),
    summary=(
        "Our engine on the authors' arrays of seeds 42 and 1337; the tests hold it against the release's recorded "
        "runs step by step. The third line of a policy is what the printed mean of three seeds leaves for the "
        "seed that is not public; its interval holds the digits that were cut and the policy's own randomness. Where "
        "it lies among what our seeds give, a cell that is not reproduced is the luck of three instances and no "
        "difference between programs."
    ),
    quick=False,
)
