"""What a full replay leaves in the repository: tables, ledger rows, the datasets, and their report with correlations.

OUT/results.csv, sessions.csv, ledger.json, provenance.json    see `summary`
OUT/report/on-policy/, OUT/report/shadow/                      the two datasets, as `solarjax report` reads them
OUT/report/shadow/correlation.json                             see `solarjax.replay.correlation`
OUT/report/index.html, report.md, results.csv, figures/        `solarjax report OUT/report`
"""

from __future__ import annotations

import json
from pathlib import Path

from scripts.replay import complete, summary
from solarjax.replay.correlation import correlate
from solarjax.report import correlation, render, stored
from solarjax.report.stored import StoredRun

TITLE = "LoCoMo answered by a language model, and without one"
REMARK = (
    "{model} answers far worse than the paper's GPT-4o-mini: differences of its F1 are small against their intervals. "
    "{n} conversations, {q:g} scored questions each. The same runs stand beside it without a model, scored by hits."
)


def publish(live: StoredRun, shadow: StoredRun, out: Path) -> list[Path]:
    """Writes everything; returns the paths.

    Args:
      live, shadow: the same sessions, policies, capacities and seeds, see `complete.gather`.

    Raises:
      StoreError: `out` cannot be written to.   ReplayError: the two cover different runs.
    """
    rows = correlate(live.data, shadow.data)
    written = summary.write(live, out)
    report = out / "report"
    for name, run in (("on-policy", live), ("shadow", shadow)):
        stored.save(report / name, complete.compact(run.data), run.provenance)
        written += [report / name / stored.RESULT, report / name / stored.PROVENANCE]
    written.append(report / "shadow" / correlation.FILE)
    stored.write_text(written[-1], json.dumps(rows, indent=1, allow_nan=False) + "\n")
    model, questions = live.config["model"].get("name", ""), float(live.data["requests"].mean())
    remark = REMARK.format(model=model, n=live.data.sizes["trace"], q=questions)
    return written + render.report(report, TITLE, [remark])
