"""Retrieval noise, frozen pool (Table 10, Figure 7): both pool rules, and what the fall is caused by."""

from __future__ import annotations

from collections.abc import Sequence

from experiments import published
from experiments.measurements import noise_pools
from experiments.statistics import REPRODUCED, sample_row
from experiments.types import Artefact, Context, Measurement, Plan, Published, PublishedKey, Results, Row, View

CAPACITIES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
PEAK, LARGE = 1000, 5000
SETTINGS = {
    "n_topics": 50, "items_per_topic": 100, "n_queries": 1000, "n_relevant": 3, "dim": 128, "min_sep": 0.3,
    "item_noise": 0.15, "query_noise": 0.05,
}  # fmt: skip
POOL = "frozen pool"
MEASURES = ("hit_rate", "precision_at_k", "topic_precision")


def plan(context: Context) -> Plan:
    """One measurement over all pools and mixtures of pools."""
    config = {
        "settings": SETTINGS,
        "capacities": [0, *CAPACITIES],
        "seeds": list(context.synthetic_seeds),
        "root_seed": 0,
    }
    return {"pools": Measurement(config, noise_pools.measure)}


def rows(results: Results) -> list[Row]:
    """`probe`: the paper's table. `mixtures`: on-topic part of one pool, off-topic of another. `causes`: effects."""
    data = results["pools"]
    out = []
    for pool in noise_pools.POOLS:
        for measure in MEASURES:
            cell = data[measure].sel(pool=pool)

            def at(on: int, off: int, cell=cell):
                return cell.sel(on_topic=on, off_topic=off).values

            for k in CAPACITIES:
                out.append(
                    sample_row(
                        at(k, k), table="probe", group=pool, policy=POOL, measure=measure, x_name="K", x=float(k),
                        capacity=k, entry="pools",
                    )
                )  # fmt: skip
            for on in (PEAK, LARGE):
                for off in (0, PEAK, LARGE):
                    out.append(
                        sample_row(
                            at(on, off), table="mixtures", group=pool, policy=f"on-topic items of K = {on:,}",
                            measure=measure, x_name="off-topic items of K", x=float(off), entry="pools",
                        )
                    )  # fmt: skip
            base = at(PEAK, PEAK)
            for policy, samples in (
                ("all items from 1,000 to 5,000", at(LARGE, LARGE) - base),
                ("off-topic items from 1,000 to 5,000", at(PEAK, LARGE) - base),
                ("on-topic items from 1,000 to 5,000", at(LARGE, PEAK) - base),
                ("no off-topic items at 5,000", at(LARGE, 0) - at(LARGE, LARGE)),
            ):
                out.append(
                    sample_row(
                        samples, contrast=True, table="causes", group=pool, policy=policy, measure=measure, x_name="K",
                        x=float(LARGE), entry="pools",
                    )
                )  # fmt: skip
    return out


def explain(row: Row, own: Sequence[Row]) -> str:
    """For the uniform pool: how well the other pool rule does."""
    if row.group != "uniform":
        return ""
    other = [r for r in own if r.published is not None and r.group == "preferred"]
    same = next((r for r in other if r.x == row.x), None)
    if same is None or same.mean is None:
        return ""
    matched = sum(r.agrees == REPRODUCED for r in other)
    return (
        f"Another pool: the release takes relevant items first (preferred). With it this cell is {same.mean:.3f}, "
        f"{same.agrees}, and {matched} of {len(other)} printed figures are reproduced; the uniform pool that the text "
        "describes is not what was run."
    )


# The text of section 6.5.3 describes uniform pools, so the printed figures are held against those as well.
_UNIFORM: dict[PublishedKey, Published] = {
    ("uniform", x, policy, measure): figure for (_, x, policy, measure), figure in published.NOISE_PROBE.items()
}

ARTEFACT = Artefact(
    id="noise_probe",
    title="Retrieval noise, frozen pool",
    source="Table 10, Figure 7",
    plan=plan,
    rows=rows,
    views=(
        View("probe", "hit_rate", "Hit rate by pool size", compare=False),
        View("probe", "topic_precision", "Share of the retrieved items that are of the query's topic", compare=False),
        View("probe", "precision_at_k", "Precision at 3", figure=False, compare=False),
        View("mixtures", "hit_rate", "Hit rate by off-topic items, on-topic items fixed", compare=False),
        View("causes", "hit_rate", "What changes the hit rate", figure=False),
    ),
    summary=(
        "50 topics of 100 items, 1,000 queries with 3 relevant items each, nothing arrives. `preferred` fills the "
        "pool with items that some query finds relevant first (what the authors' release does), `uniform` with "
        "any (what the paper says). The mixtures vary off-topic items while the on-topic items stay the same, and "
        "the other way round."
    ),
    published={**published.NOISE_PROBE, **_UNIFORM},
    explain=explain,
    claims=("S07",),
)
