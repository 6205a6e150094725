"""Topic drift (in the authors' release, not in the paper): can a policy follow when topics move on?"""

from __future__ import annotations

from experiments import policies, published
from experiments.statistics import MEASURES, sweep_rows
from experiments.types import Artefact, Context, Plan, Results, Row, View
from solarjax.cli.job import Job
from solarjax.cli.sources import SourceSpec

CAPACITIES = (10, 20, 40)
AGEING = ",solar_e(ageing=none),solar(ageing=none),solar_e_paper,solar_e_discounted"
"""Thompson eviction without ageing, with the printed ageing, and with a posterior that forgets: what ageing does."""


def plan(context: Context) -> Plan:
    """One sweep; the released setting is K = 20."""
    return {
        "drift": Job(
            SourceSpec("workload", "topic_drift"), policies.synthetic(context) + AGEING,
            capacities=CAPACITIES[1:2] if context.quick else CAPACITIES, seeds=context.synthetic_seeds,
        )
    }  # fmt: skip


def rows(results: Results) -> list[Row]:
    """x is K; both halves are stored, the slope tells whether a policy gets better."""
    data = results["drift"]
    out = sweep_rows(data, table="drift", entry="drift", measures=(*MEASURES, "first_half", "second_half"))
    ran = set(map(str, data["policy"].values))
    for aged in ("solar_e", "solar"):
        if f"{aged}(ageing=none)" not in ran:
            continue  # a reduced run
        pair = data.sel(policy=[aged, f"{aged}(ageing=none)"])
        out += sweep_rows(pair, table="ageing", entry="drift", measures=("hit_rate",), baseline=f"{aged}(ageing=none)")
    return out


ARTEFACT = Artefact(
    id="drift",
    title="Topic drift",
    source="the authors' release; left out of the paper",
    plan=plan,
    rows=rows,
    views=(
        View("drift", "hit_rate", "Hit rate", drawn=policies.DRAWN),
        View("ageing", "hit_rate", "What ageing of the posterior adds", figure=False),
        View("drift", "store_rate", "Admissions per arrival", False, False),
    ),
    summary=(
        "30 topics, 5 active at a time, 6 phases of 100 steps that share one topic. Old topics never come back, "
        "so what was useful must be let go."
    ),
    published=published.DRIFT,
    claims=("S04", "S26", "S29"),
)
