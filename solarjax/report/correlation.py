"""The table of how far a replay without a model ranks as one with a model, where a run has one beside it."""

from __future__ import annotations

import json
from typing import Any

from solarjax.report.sections import Section
from solarjax.report.stored import StoreError
from solarjax.report.tables import Cell, Table, number

FILE = "correlation.json"
"""Rows of `replay.correlation.correlate`, beside the result of the shadow."""
NOTE = (
    "Each in brackets its 95 % bootstrap interval over other {unit}s. A dash: a side is constant, or there are too few "
    "points. `policies` is what a study without a model rests on; of the rows above it only `policies within sessions` "
    "is free of how sessions differ."
)


def correlations(section: Section) -> Table | None:
    """Rows as `replay.correlation.correlate` makes them; None where no run of the section has any.

    Raises:
      StoreError: the file is damaged.
    """
    body: list[list[Cell]] = []
    unit = ""
    for run in section.runs:
        path = run.path / FILE
        if not path.exists():
            continue
        try:
            rows = json.loads(path.read_text(encoding="utf-8"))
            body += [_line(row) for row in rows]
            unit = unit or str(rows[0]["unit"])
        except (OSError, ValueError, LookupError, TypeError) as problem:
            raise StoreError(f"{path} holds no readable correlations: {problem}") from None
    if not body:
        return None
    head = ["over", "policy", "K", "n", "answer F1", "hit rate", "Pearson's r", "Spearman's rho"]
    title = "How far retrieval without a model ranks as the model does"
    return Table(title, head, body, (NOTE.format(unit=unit),))


def _line(row: dict[str, Any]) -> list[Cell]:
    k, n, units = int(row["capacity"]), int(row["n"]), f"{row['units']} {row['unit']}s"
    cells = [Cell(row["over"], row["over"]), Cell(row["policy"] or "all"), Cell(str(k), k), Cell(str(n), n, hint=units)]
    cells += [Cell(number(row[name]), row[name]) for name in ("f1", "proxy")]
    for name in ("pearson", "spearman"):
        middle, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
        ends = "" if low is None else f" [{number(low, signed=True)}, {number(high, signed=True)}]"
        cells.append(Cell(number(middle, signed=True) + ends, middle))
    return cells
