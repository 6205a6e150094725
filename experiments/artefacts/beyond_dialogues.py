"""Beyond the paper, LoCoMo: classic, diversity, bandit and control policies under the protocols without an LLM."""

from __future__ import annotations

from dataclasses import replace

from experiments import beyond, dialogues
from experiments.types import Artefact, Context, Plan, Results, Row

OURS = " with ours"
GROUPS = ("P1 turns", "P1 chunks", "P2 mean=30", "P2 mean=100", "P3")
QUICK = (50,)


def plan(context: Context) -> Plan:
    """The sweeps of the LoCoMo table, and for each the same sweep of the other policies. Raises `Missing`."""
    base = dialogues.plan(context, "locomo", GROUPS[:1] if context.quick else GROUPS)
    ours = {
        name + OURS: replace(
            job, policies=beyond.policies(context), capacities=QUICK if context.quick else job.capacities
        )
        for name, job in base.items()
    }
    return {**base, **ours}


def rows(results: Results) -> list[Row]:
    """As the LoCoMo table: x is K, one group per protocol."""
    joined = {
        name: beyond.join(data, results[name + OURS]) for name, data in results.items() if not name.endswith(OURS)
    }
    return [replace(row, entry=row.entry + OURS) for row in dialogues.rows(joined, "dialogues")]


ARTEFACT = Artefact(
    id="beyond_dialogues",
    title="Beyond the paper: LoCoMo",
    source="beyond the paper",
    plan=plan,
    rows=rows,
    views=dialogues.views("dialogues", drawn=beyond.DRAWN),
    summary=(
        "The same streams, seeds and conversations as the LoCoMo table. Under P1 and P2 every turn arrives once, so "
        "ghost lists are never hit: 2Q is FIFO there, and S3-FIFO, SIEVE, W-TinyLFU, LRU-2 and GDSF live off "
        "retrievals alone."
    ),
    claims=("S22", "S23"),
)
