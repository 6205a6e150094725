"""FriendsQA under the same protocols: stands in for DialSim, whose questions cannot be had."""

from __future__ import annotations

from experiments import dialogues
from experiments.types import Artefact, Context, Plan, Results, Row


def plan(context: Context) -> Plan:
    """Every protocol. Raises `Missing`."""
    return dialogues.plan(context, "friendsqa")


def rows(results: Results) -> list[Row]:
    """See `dialogues.rows`."""
    return dialogues.rows(results, "friendsqa")


ARTEFACT = Artefact(
    id="friendsqa",
    title="FriendsQA",
    source="in place of Table 7",
    plan=plan,
    rows=rows,
    views=dialogues.views("friendsqa")[:2],
    summary=(
        "Two streams of television scenes. Intervals are over the two streams, so almost nothing can be told from "
        "them alone; read the means as a check of direction."
    ),
    claims=("S24",),
    quick=False,
)
