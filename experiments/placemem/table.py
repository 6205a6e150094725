"""From answered turns to figures: means and shares with intervals, and differences that are paired by turn.

Intervals are 95 %. Means, shares of tokens and changes: percentile bootstrap over turns (pairs of turns), so they say
what these workloads on this machine leave open, not how other workloads would do. Shares of answers: exact binomial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

from experiments.placemem.standin import modelled_ttft_ms

RESAMPLES = 2000
LONG = 1000
"""Prompt tokens from which on a prompt counts as long."""
COMPARISONS = {
    "text_no_cache": ("prompt_only", "full"),
    "text_cache": ("prompt_only", "full"),
    "text_hash": ("prompt_only", "full"),
    "no_invalidation": ("prompt_only",),
    "full": ("prompt_only", "no_invalidation"),
}
"""Condition -> those that it is compared with."""
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One figure.

    table: part of the benchmark.  family: `all` or one.  condition, measure: of what.
    value, low, high: the figure and its interval, None where it has none.  n: turns (corrections, requests) behind it.
    versus: the condition it is compared with, '' for none; then `value` is the figure minus, for `... change` divided
    by and less 1, that of the other condition, over the same turns.
    """

    table: str
    family: str
    condition: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    versus: str = ""

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Unique within a report."""
        return self.table, self.family, self.condition, self.measure, self.versus


def mean(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Mean and bootstrap interval; no interval for fewer than two values."""
    return ratio_of_sums(values, np.ones(len(values)))


def ratio_of_sums(
    upper: Sequence[float] | np.ndarray, lower: Sequence[float] | np.ndarray
) -> tuple[float | None, float | None, float | None]:
    """sum(upper) / sum(lower), resampled by pairs."""
    a, b = np.asarray(upper, float), np.asarray(lower, float)
    if not len(a) or not b.sum():
        return None, None, None
    value = float(a.sum() / b.sum())
    if len(a) < 2:
        return value, None, None
    if np.all(a == value * b):
        return value, value, value
    found = stats.bootstrap(
        (a, b), lambda x, y, axis: x.sum(axis=axis) / y.sum(axis=axis), paired=True, vectorized=True,
        n_resamples=RESAMPLES, method="percentile", rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return value, float(found.low), float(found.high)


def share(flags: Sequence[bool]) -> tuple[float | None, float | None, float | None]:
    """Share of True with its exact (Clopper-Pearson) interval."""
    if not flags:
        return None, None, None
    found = stats.binomtest(sum(flags), len(flags)).proportion_ci(method="exact")
    return sum(flags) / len(flags), float(found.low), float(found.high)


def rows(table: str, records: Iterable[Record], modelled: bool = False) -> list[Row]:
    """All figures of a part.

    Args:
      table: its name.  records: journal lines.  modelled: also what the first token would cost the real model, for
        figures of the stand-in.
    """
    records = list(records)
    turns = [r for r in records if r["type"] == "turn"]
    found = []
    names = sorted({r["family"] for r in turns})
    for family in ("all", *(names if len(names) > 1 else ())):
        of = {c: [r for r in turns if r["condition"] == c and family in ("all", r["family"])] for c in _names(turns)}
        for condition, mine in of.items():
            found += [
                Row(table, family, condition, *figure) for figure in _figures(mine, modelled) if figure[-1]
            ]  # fmt: skip
            if family == "all":
                found += _corrections(table, condition, records)
        for condition, mine in of.items():
            for versus in COMPARISONS.get(condition, ()):
                if versus in of:
                    found += _changes(table, family, condition, mine, versus, of[versus], modelled)
    return found


def _names(turns: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(r["condition"] for r in sorted(turns, key=lambda r: (r["repeat"], r["number"]))))


Figure = tuple[str, float | None, float | None, float | None, int]


def _figures(mine: Sequence[Record], modelled: bool) -> list[Figure]:
    def over(name: str, of: Callable[[Record], float | None], among: Sequence[Record] = mine) -> Figure:
        values = [value for value in map(of, among) if value is not None]
        return name, *mean(values), len(values)

    def portion(name: str, flag: str, among: Iterable[Record]) -> Figure:
        flags = [bool(r[flag]) for r in among if r[flag] is not None]
        return name, *share(flags), len(flags)

    def count(name: str, flag: str) -> Figure:
        flags = [bool(r[flag]) for r in mine if r[flag] is not None]
        return name, float(sum(flags)), None, None, len(flags)

    known = [{**r, "exact": r["predicted"] == r["cached"]} for r in mine if r["predicted"] is not None]
    facts = [r for r in mine if r["wants"] == "fact"]
    figures = [
        over("TTFT ms", lambda r: r["ttft_ms"]),
        over("engine CPU ms", lambda r: r["engine_ms"]),
        over("plane ms", lambda r: r["plane_ms"]),
        over("TTFT ms, long prompts", lambda r: r["ttft_ms"], [r for r in mine if r["prompt_tokens"] >= LONG]),
        over("prompt tokens", lambda r: r["prompt_tokens"]),
        ("reuse", *ratio_of_sums([r["cached"] for r in mine], [r["prompt_tokens"] for r in mine]), len(mine)),
        portion("right before", "right", (r for r in facts if not r["after"])),
        portion("follows correction", "follows", mine),
        portion("right after", "right", (r for r in facts if r["after"])),
        portion("right after, derived", "right", (r for r in mine if r["after"] and r["wants"] == "derived")),
        portion("old answers after", "old", (r for r in mine if r["after"])),
        count("stale selections", "stale"),
        portion("predictions exact", "exact", known),
    ]
    if modelled:
        figures = [f for f in figures if not f[0].startswith("TTFT")] + [over("modelled TTFT ms", _modelled)]
    return figures


def _modelled(record: Record) -> float:
    return modelled_ttft_ms(record["prompt_tokens"], record["cached"])


def _corrections(table: str, condition: str, records: Sequence[Record]) -> list[Row]:
    mine = [r for r in records if r["type"] == "correction" and r["condition"] == condition]
    found = []
    for name, field in (("correction ms", "wall_ms"), ("correction CPU ms", "cpu_ms"), ("versions ended", "ended")):
        if mine:
            found.append(Row(table, "all", condition, name, *mean([r[field] for r in mine]), len(mine)))
    return found


def _changes(
    table: str,
    family: str,
    condition: str,
    mine: Sequence[Record],
    versus: str,
    others: Sequence[Record],
    modelled: bool,
) -> list[Row]:
    other = {_turn(r): r for r in others}
    pairs = [(r, other[_turn(r)]) for r in mine if _turn(r) in other]
    long = [(a, b) for a, b in pairs if min(a["prompt_tokens"], b["prompt_tokens"]) >= LONG]
    measures: list[tuple[str, Callable[[Record], float | None], Any]] = [
        ("TTFT ms change", lambda r: r["ttft_ms"], pairs),
        ("TTFT ms change, long prompts", lambda r: r["ttft_ms"], long),
        ("engine CPU ms change", lambda r: r["engine_ms"], pairs),
    ]
    if modelled:  # what a scripted engine takes says nothing
        measures = [("modelled TTFT ms change", _modelled, pairs)]
    found = []
    for name, of, among in measures:
        kept = [(x, y) for x, y in ((of(a), of(b)) for a, b in among) if x is not None and y is not None]
        value, low, high = ratio_of_sums([x for x, _ in kept], [y for _, y in kept])
        if value is not None:
            low, high = (None if bound is None else bound - 1.0 for bound in (low, high))
            found.append(Row(table, family, condition, name, value - 1.0, low, high, len(kept), versus))
    return found


def _turn(record: Record) -> tuple[Any, ...]:
    return record["repeat"], record["family"], record["number"]


def to_json(found: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows as plain data."""
    return [asdict(row) for row in found]
