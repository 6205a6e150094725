"""Policy tables of recorded dialogues under the protocols without a language model: LoCoMo and FriendsQA."""

from __future__ import annotations

from collections.abc import Mapping

from experiments import policies
from experiments.statistics import MEASURES, sweep_rows
from experiments.types import Context, Plan, Results, Row, View
from solarjax.cli.job import Job
from solarjax.cli.sources import SourceSpec

GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "P1 turns": ("P1", ()),
    "P1 chunks": ("P1", ("granularity=chunks",)),
    "P2 mean=30": ("P2", ("mean=30",)),
    "P2 mean=100": ("P2", ("mean=100",)),
    "P2 mean=300": ("P2", ("mean=300",)),
    "P3": ("P3", ()),
    "P3 online": ("P3", ("scoring=online",)),
    "P1mb": ("P1mb", ()),
}
"""Group -> protocol and settings (spec/locomo.md)."""

CAPACITIES = (10, 20, 50, 100)
QUICK_GROUPS = ("P1 turns", "P2 mean=100")
CHOICE = (*MEASURES, "answer_recall", "availability", "hit_given_available")


def plan(context: Context, dataset: str, groups: tuple[str, ...] | None = None) -> Plan:
    """One sweep per group.

    Raises:
      Missing: no data, or no encoder.
    """
    files = context.files(dataset)
    context.encoder()
    chosen = groups or (QUICK_GROUPS if context.quick else tuple(GROUPS))
    return {
        group: Job(
            SourceSpec(dataset, files=files, protocol=GROUPS[group][0], settings=GROUPS[group][1]),
            policies.ON_DIALOGUES_QUICK if context.quick else policies.ON_DIALOGUES,
            capacities=CAPACITIES[::2] if context.quick else CAPACITIES, seeds=context.recorded_seeds,
        )
        for group in chosen
    }  # fmt: skip


def rows(results: Results, table: str) -> list[Row]:
    """x is K, one group per protocol; and for LoCoMo the hit rate without and in the adversarial category."""
    out = []
    for group, data in results.items():
        out += sweep_rows(data, table=table, entry=group, group=group, measures=CHOICE)
        if "category_hit_rate" in data and "adversarial" in data["category"].values:
            for name, chosen in (("adversarial", data["category"] == "adversarial"),
                                 ("answerable", data["category"] != "adversarial")):  # fmt: skip
                part = data.isel(category=chosen.values.nonzero()[0])
                hits = (part["category_hit_rate"].fillna(0) * part["category_requests"]).sum("category")
                rate = (hits / part["category_requests"].sum("category")).rename(f"hit_rate_{name}")
                out += sweep_rows(
                    rate.to_dataset().assign(hit_rate=data["hit_rate"]), table=table, entry=group, group=group,
                    measures=(f"hit_rate_{name}",),
                )  # fmt: skip
    return out


def views(table: str, drawn: tuple[str, ...] = policies.DRAWN_ON_DIALOGUES) -> tuple[View, ...]:
    """What is shown of such a table; `drawn`: what its figures hold."""
    return (
        View(table, "hit_rate", "Hit rate at 3", drawn=drawn),
        View(table, "recall_at_k", "Evidence recall at 3", figure=False),
        View(table, "hit_rate_answerable", "Hit rate without the adversarial questions", figure=False, compare=False),
        View(table, "hit_rate_adversarial", "Hit rate of the adversarial questions", figure=False, compare=False),
        View(table, "admission_rate_full", "Admissions per new arrival once full", figure=False, compare=False),
    )
