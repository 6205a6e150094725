"""DialSim (Table 7): what its corpora allow. Its questions are not in the public release as plain data."""

from __future__ import annotations

import os

from experiments import published
from experiments.code import ROOT
from experiments.measurements import corpora
from experiments.types import Artefact, Context, Measurement, Plan, Results, Row, View


def plan(context: Context) -> Plan:
    """Counts of the three corpora. Raises `Missing`."""
    from solarjax.traces.datasets import sha256

    # Relative, so that the address of the result does not depend on where the checkout lies.
    files = [{"path": os.path.relpath(p, ROOT), "sha256": sha256(p)} for p in context.files("dialsim")]
    return {"corpora": Measurement({"files": files}, corpora.measure)}


def rows(results: Results) -> list[Row]:
    """One row per corpus (as `policy`) and count."""
    data = results["corpora"]
    return [
        Row(table="corpora", policy=str(name), measure=count, mean=float(data[count].values[i]), n=1, entry="corpora")
        for i, name in enumerate(data["corpus"].values)
        for count in corpora.COUNTS
    ]


ARTEFACT = Artefact(
    id="dialsim",
    title="DialSim",
    source="Table 7",
    plan=plan,
    rows=rows,
    views=tuple(View("corpora", count, count.replace("_", " "), False, False) for count in corpora.COUNTS),
    summary=(
        "The three scripts are there, the questions and their evidence are not: the authors publish them as "
        "pickles, which are not loaded, and no plain copy could be had. Without evidence no retrieval can be "
        "scored, so Table 7 has no counterpart here; FriendsQA stands in. With a question file in the layout of "
        "solarjax/traces/dialsim.py, `solarjax run --dialsim CORPUS --qa FILE --protocol P2` makes the table."
    ),
    published=published.DIALSIM,
    absent="Answers of GPT-4o-mini to questions that are not public as plain data; FriendsQA stands in.",
    claims=("S24",),
    quick=False,
)
