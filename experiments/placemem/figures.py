"""Stored figures, found by their names, and the form of a verdict on one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.placemem.table import Row
from theory.results import CheckResult, Verdict

TURNS = 48
"""Of the published pilot. On fewer, most prompts are met for the first time, and a change of TTFT is left undecided."""


class Lacking(Exception):
    """A figure that a verdict needs is not stored."""


class Figures:
    """Stored figures of all parts.

    Args:
      parts: id -> what `report.load` read.
    """

    def __init__(self, parts: Mapping[str, Mapping[str, Any]]):
        self.parts = parts
        self._rows = {row.key: row for part in parts.values() for row in (Row(**r) for r in part["rows"])}

    def one(self, table: str, condition: str, measure: str, versus: str = "") -> Row:
        """A figure over all families. Raises `Lacking`."""
        row = self._rows.get((table, "all", condition, measure, versus))
        if row is None or row.value is None:
            raise Lacking(f"{table}: {condition}: {measure}")
        return row

    def find(self, table: str, condition: str, measure: str) -> Row | None:
        """As `one`; None if it is not stored."""
        try:
            return self.one(table, condition, measure)
        except Lacking:
            return None

    def value(self, table: str, condition: str, measure: str, versus: str = "") -> float:
        """Its value."""
        value = self.one(table, condition, measure, versus).value
        assert value is not None
        return value

    def maybe(self, table: str, condition: str, measure: str, versus: str = "") -> str:
        """Its value in words, for a note."""
        row = self._rows.get((table, "all", condition, measure, versus))
        return "not measured" if row is None or row.value is None else f"{row.value:.3g}"


def at_least(row: Row, threshold: float) -> Verdict:
    """holds or refuted if the interval lies on one side of the threshold; undecided else, and with too few turns."""
    assert row.value is not None
    if row.n < TURNS:
        return Verdict.UNDECIDED
    low, high = (row.value if bound is None else bound for bound in (row.low, row.high))
    return Verdict.HOLDS if low >= threshold else Verdict.REFUTED if high < threshold else Verdict.UNDECIDED


def result(
    figures: Figures,
    table: str,
    name: str,
    claim: str,
    text: str,
    verdict: Verdict,
    row: Row,
    unit: str,
    *,
    predicted: float | None = None,
    condition: str | None = None,
    notes: str = "",
    sign: float = 1.0,
) -> CheckResult:
    """sign: -1 turns a fall into a cut."""
    part = figures.parts[table]
    assert row.value is not None
    interval = None
    if row.low is not None and row.high is not None and row.low < row.high:
        interval = tuple(sorted((sign * row.low, sign * row.high)))
    config = part["config"]
    return CheckResult(
        id=name, claim=text, source=claim, verdict=verdict, condition=condition, figure=sign * row.value,
        figure_name=f"{row.measure}, {row.condition}" + (f" against {row.versus}" if row.versus else ""), unit=unit,
        interval=interval, predicted=predicted,  # type: ignore[arg-type]
        sizes={"n": row.n, **{k: config[k] for k in ("turns", "repeats", "clients", "seconds") if k in config}},
        keys=max(int(config.get("repeats", 1)), 1), seconds=float(part["seconds"]), counterexample=None,
        command=str(part["command"]), notes=notes,
    )  # fmt: skip
