"""LoCoMo policy tables (Tables 4 and 5, Figure 3) by retrieval, without a language model."""

from __future__ import annotations

from experiments import dialogues, published
from experiments.types import Artefact, Context, Plan, Results, Row


def plan(context: Context) -> Plan:
    """Every protocol. Raises `Missing`."""
    return dialogues.plan(context, "locomo")


def rows(results: Results) -> list[Row]:
    """See `dialogues.rows`."""
    return dialogues.rows(results, "locomo")


ARTEFACT = Artefact(
    id="locomo",
    title="LoCoMo",
    source="Tables 4 and 5, Figure 3 (retrieval; their answer F1 needs a live language model)",
    plan=plan,
    rows=rows,
    views=dialogues.views("locomo"),
    summary=(
        "10 conversations. Intervals and tests are over conversations (clusters), seeds averaged first: with ten "
        "of them only differences of about one standard deviation of the paired differences are found with "
        "probability .8 (`detectable` of each row). P1 asks after the end, P2 an exponential delay after the "
        "evidence, P3 and P1mb store the questions' own experiences."
    ),
    published=published.LOCOMO,
    absent=(
        "Answers of GPT-4o-mini: needs that model. Retrieval of the evidence stands in the tables here, answer F1 of a "
        "small model in S21 to S25."
    ),
    claims=("S04", "S09", "S22", "S23", "S24"),
)
