"""Stale versions: a case where keeping more retrieves worse, and the control in which it must not."""

from __future__ import annotations

import numpy as np

from experiments.measurements import stale_pools
from experiments.statistics import sample_row
from experiments.types import Artefact, Context, Measurement, Plan, Results, Row, View
from solarjax.cli.job import Job
from solarjax.cli.sources import SourceSpec

CAPACITIES = (50, 100, 200, 500, 1000, 2000, 5000)
QUICK = (100, 1000, 5000)
NOISES = (0.15, 0.29)
"""The specification's query noise, and the one at which its published figures come out."""
SETTINGS = {
    "n_topics": 50, "n_eras": 5, "items_per_era": 1000, "n_queries": 1000, "dim": 128, "min_sep": 0.3,
    "item_noise": 0.05,
}  # fmt: skip
PEAK, LARGE = 1000, 5000
SMALL = ("n_topics=50", "n_eras=5", "items_per_era=200", "query_noise=0.29", "protocol=online")
SMALL_CAPACITIES, POLICIES = (20, 50, 100, 200, 1000), "fifo,lru,solar_e,solar(fill=free),k_center,reservoir,keep_first"
LARGE_SEEDS = 100


def plan(context: Context) -> Plan:
    """The pools in one measurement; policies on a stream of a fifth of the size (not in a quick run)."""
    seeds = list(context.synthetic_seeds)[: 4 if context.quick else LARGE_SEEDS]
    config = {
        "settings": SETTINGS, "capacities": list(QUICK if context.quick else CAPACITIES), "seeds": seeds,
        "noises": list(NOISES[1:] if context.quick else NOISES), "root_seed": 0,
    }  # fmt: skip
    found: dict = {"pools": Measurement(config, stale_pools.measure)}
    if not context.quick:
        found["policies"] = Job(
            SourceSpec("workload", "stale_versions", settings=SMALL), POLICIES, capacities=SMALL_CAPACITIES,
            seeds=context.synthetic_seeds,
        )  # fmt: skip
    return found


def rows(results: Results) -> list[Row]:
    """`pools`: hit rate by capacity, one group per query noise. `fall`: change from K = 1,000 to 5,000, and how often
    the hit rate falls anywhere. `policies`: the smaller stream."""
    from experiments.statistics import sweep_rows

    hit = results["pools"]["hit_rate"]
    out = []
    for noise in hit["query_noise"].values:
        group = f"query noise {noise:g}"
        for rule in map(str, hit["rule"].values):
            cell = hit.sel(query_noise=noise, rule=rule)
            for k in map(int, hit["capacity"].values):
                out.append(
                    sample_row(
                        cell.sel(capacity=k).values, table="pools", group=group, policy=rule, measure="hit_rate",
                        x_name="K", x=float(k), capacity=k, entry="pools",
                    )
                )  # fmt: skip
            change = (cell.sel(capacity=LARGE) - cell.sel(capacity=PEAK)).values
            steps = np.diff(cell.transpose("capacity", "seed").values.mean(axis=1))
            out.append(
                sample_row(
                    change, contrast=True, table="fall", group=group, policy=rule, measure="K = 1,000 to 5,000",
                    entry="pools",
                )
            )  # fmt: skip
            out.append(
                Row(
                    table="fall", group=group, policy=rule, measure="largest fall of the mean between capacities",
                    mean=float(max(0.0, -steps.min())), n=hit.sizes["seed"], unit="seed", entry="pools",
                )
            )  # fmt: skip
    if "policies" in results:
        out += sweep_rows(results["policies"], table="policies", entry="policies")
    return out


ARTEFACT = Artefact(
    id="stale_versions",
    title="Stale versions",
    source="beyond the paper",
    plan=plan,
    rows=rows,
    views=(
        View("pools", "hit_rate", "Hit rate by capacity", compare=False),
        View("fall", "K = 1,000 to 5,000", "Change from K = 1,000 to K = 5,000", figure=False),
        View("fall", "largest fall of the mean between capacities", "Largest fall", False, False),
        View("policies", "hit_rate", "Policies on a stream of 1,000 items"),
    ),
    summary=(
        "50 topics whose 1,000 items are replaced in each of 5 eras; only the current era answers. `latest` is a "
        "frozen pool of the newest K items, `uniform` one of any K: the negative control, whose share of current items "
        "is the same at every K, so its hit rate must not fall. `fifo` is the stream. 100 seeds of 1,000 or 5,000 "
        "queries. With the specification's query noise of .15 the pool of 1,000 hits always."
    ),
)
