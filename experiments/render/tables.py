"""Tables of the report as plain values, from stored rows only. Each cell names the row it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from experiments import explain
from experiments.explain import Stored
from experiments.statistics import BORDERLINE, NOT_REPRODUCED, PRINTED_SEEDS, REPRODUCED
from experiments.types import Artefact, Row, View
from solarjax.report import tables as report
from solarjax.report.tables import interval, number

COUNTS = (
    "switches",
    "final_size",
    "total_cost",
    "sessions",
    "utterances",
    "speakers",
    "empty_utterances",
    "repeated_texts",
)

TONES = {REPRODUCED: "up", NOT_REPRODUCED: "down", BORDERLINE: ""}


@dataclass(frozen=True)
class Cell(report.Cell):
    """A cell of a report that knows what it shows. row: key of the stored row."""

    row: str = ""


@dataclass(frozen=True)
class Table:
    """A table and how to find it again. slug: unique on the page.  rows: the first cell names the row.
    first: shown at once, the others on request.  shows: the field of a row that its cells show, and are sorted by."""

    slug: str
    title: str
    head: list[str]
    rows: list[list[Cell]]
    notes: tuple[str, ...] = field(default=())
    first: bool = False
    shows: str = "mean"


def slug(*words: str) -> str:
    """A file name and anchor."""
    kept = "-".join(w for w in words if w)
    return "".join(c if c.isalnum() else "-" for c in kept.lower()).strip("-")


def groups(rows: Sequence[Row], view: View) -> list[str]:
    """The groups that a view has rows for, in stored order."""
    return list(dict.fromkeys(r.group for r in rows if r.table == view.table and view.measure in ("*", r.measure)))


def select(rows: Sequence[Row], view: View, group: str) -> list[Row]:
    """The rows of one view and group."""
    return [r for r in rows if r.table == view.table and r.group == group and view.measure in ("*", r.measure)]


def _grid(view: View, chosen: Sequence[Row], show: Callable[[Row], Cell]) -> tuple[list[str], list[list[Cell]]]:
    """Column names, and one line per policy; empty where there is no row."""
    columns = list(dict.fromkeys(_column(view, r) for r in chosen))
    cells = {(r.policy, _column(view, r)): r for r in chosen}
    body = []
    for policy in dict.fromkeys(r.policy for r in chosen):
        line = [cells.get((policy, column)) for column in columns]
        body.append([Cell(policy, policy), *(Cell("") if row is None else show(row) for row in line)])
    return columns, body


def pivot(artefact: Artefact, view: View, group: str, rows: Sequence[Row]) -> Table:
    """Policies x columns: mean ± half the t interval; the best of a column is marked where a hit rate is shown."""
    chosen = select(rows, view, group)
    columns, body = _grid(view, chosen, lambda row: _mean(view, row, chosen))
    title = view.title + (f", {group}" if group else "")
    return Table(slug(artefact.id, view.table, view.measure, group), title, ["", *columns], body, _notes(view),
                 first=view == artefact.views[0])  # fmt: skip


def differences(artefact: Artefact, view: View, group: str, rows: Sequence[Row]) -> Table | None:
    """Paired differences with their bootstrap interval, tinted where certain after correction; None without any."""
    chosen = [r for r in select(rows, view, group) if r.diff is not None]
    if not chosen:
        return None
    columns, body = _grid(view, chosen, _difference)
    base = next((r.baseline for r in chosen if r.baseline), "")
    what = f"paired difference to {base}" if base else "difference"
    first = chosen[0]
    family = sum(r.table == view.table and r.measure == view.measure and r.p_value is not None for r in rows)
    notes = [
        f"95 % bootstrap interval over {first.n} {first.unit}s; tinted where p < .05 after Benjamini-Hochberg over "
        f"this table ({family} tests)."
    ]
    reach = [r.detectable for r in chosen if r.detectable is not None]
    if reach and first.unit == "trace":
        notes.append(
            f"Power: a difference of {min(reach):.3f} to {max(reach):.3f}, by cell, is found with probability .8."
        )
    title = f"{view.title}: {what}" + (f", {group}" if group else "")
    return Table(
        slug(artefact.id, view.table, view.measure, group, "difference"), title, ["", *columns], body, tuple(notes),
        shows="diff",
    )  # fmt: skip


def printed(artefact: Artefact, stored: Stored) -> Table | None:
    """Ours beside the paper's, one line per published figure, also where we have none; None if nothing is published."""
    if not artefact.published:
        return None
    chosen = [r for r in stored[artefact.id].rows if r.published is not None]
    held = {(r.group, r.x, r.policy, r.measure) for r in chosen}
    grouped = any(group for group, *_ in artefact.published)
    reasons: dict[str, list[str]] = {}
    body = []
    for row in chosen:
        mark = _mark(reasons, explain.why(artefact, row, stored), _cell_name(row))
        body.append(_beside(row, grouped, mark))
    absent = [(key, figure) for key, figure in artefact.published.items() if key not in held]
    for (group, x, policy, measure), figure in absent:
        mark = _mark(reasons, artefact.absent or "Not in the stored run, which is reduced.", "")
        line = [Cell(policy, policy), Cell(_at(artefact.published_x, x).removeprefix(", "), x)]
        line += [*([Cell(group, group)] if grouped else []), Cell(words(measure)), Cell("–")]
        line += [Cell(f"{figure.value:.{figure.decimals}f}", figure.value), Cell("–"), Cell(f"not measured {mark}")]
        body.append(line)
    notes = []
    if chosen:
        count = {name: sum(r.agrees == name for r in chosen) for name in TONES}
        notes += [
            f"Of {len(chosen)} published figures {count[REPRODUCED]} are reproduced, {count[BORDERLINE]} are "
            f"borderline, {count[NOT_REPRODUCED]} are not reproduced.",
            f"A published figure is a mean of {PRINTED_SEEDS} seeds; its sampling error is taken from our sd over "
            "seeds. Reproduced: 0 lies in the 95 % interval of the difference, rounding included. Not reproduced: "
            f"p < .05 after Holm over these {len(chosen)} figures. Borderline: between the two.",
        ]
    notes += [f"{len(absent)} published figures are not measured here."] if absent else []
    for number_, (reason, cells) in enumerate(reasons.items(), 1):
        where = f"{'; '.join(dict.fromkeys(cells))}: " if any(cells) else ""
        notes.append(f"({number_}) {where}{reason}")
    head = ["policy", "at", *(["setting"] if grouped else []), "measure", "ours", "published", "ours - published"]
    title = "Ours beside the paper's"
    return Table(slug(artefact.id, "published"), title, [*head, "verdict"], body, tuple(notes), first=True)


def _cell_name(row: Row) -> str:
    return row.policy + (f", {row.group}" if row.group else "") + _at(row.x_name, row.x)


def _at(name: str, x: float | None) -> str:
    return "" if x is None else f", {name} = {x:g}"


def _mark(reasons: dict[str, list[str]], reason: str, cell: str) -> str:
    """`(2)`, the number of a reason among those given so far; '' for none. Remembers the cell."""
    if not reason:
        return ""
    reasons.setdefault(reason, []).append(cell)
    return f"({list(reasons).index(reason) + 1})"


def _beside(row: Row, grouped: bool, mark: str) -> list[Cell]:
    return [
        Cell(row.policy, row.policy),
        Cell(_at(row.x_name, row.x).removeprefix(", "), row.x),
        *([Cell(row.group, row.group)] if grouped else []),
        Cell(words(row.measure), row.measure),
        Cell(interval(row.mean, row.low), row.mean, hint=f"n = {row.n}, sd {number(row.sd)}", row=row.key),
        Cell(f"{row.published:.{row.published_decimals}f}", row.published),
        Cell(f"{number(row.gap, signed=True)} [{number(row.gap_low)}, {number(row.gap_high)}]", row.gap),
        Cell(f"{row.agrees} {mark}".strip(), row.agrees, TONES[row.agrees], hint=f"p = {row.gap_p:.2g} after Holm"),
    ]


def words(measure: str) -> str:
    """A measure for reading."""
    return measure.replace("_", " ")


def _column(view: View, row: Row) -> str:
    if view.measure == "*":
        return row.measure.replace("_", " ")
    if row.x is None:
        return view.measure.replace("_", " ")
    return f"{row.x_name} = {row.x:g}" if len(row.x_name) < 8 else f"{row.x:g}"


def _mean(view: View, row: Row, chosen: Sequence[Row]) -> Cell:
    if view.table == "properties":
        return Cell("yes" if row.mean else "no", row.mean, row=row.key)
    units = "items" if row.measure in COUNTS else "1"
    decimals = "" if row.measure != "learning_slope" else "slope"
    rivals = [
        r.mean
        for r in chosen
        if r.x == row.x and r.mean is not None and not r.policy.startswith(("unlimited", "oracle"))
    ]
    best = row.measure == "hit_rate" and len(rivals) > 1 and row.mean is not None and row.mean == max(rivals)
    best = best and not row.policy.startswith(("unlimited", "oracle"))
    hint = f"sd {number(row.sd, decimals or units)}, n = {row.n} {row.unit}s" if row.sd is not None else ""
    return Cell(interval(row.mean, row.low, decimals or units), row.mean, "best" if best else "", hint, row.key)


def _difference(row: Row) -> Cell:
    units = "items" if row.measure in COUNTS else "1" if row.measure != "learning_slope" else "slope"
    tone = ""
    if row.p_adjusted is not None and row.p_adjusted < 0.05:
        tone = "up" if (row.diff or 0) > 0 else "down"
    text = f"{number(row.diff, units, signed=True)} [{number(row.diff_low, units)}, {number(row.diff_high, units)}]"
    p = "" if row.p_adjusted is None else f"adjusted p = {row.p_adjusted:.2g}, "
    better = "" if row.better is None else f", above in {100 * row.better:.0f} % of {row.n}"
    return Cell(text, row.diff, tone, f"{p}d = {number(row.effect)}{better}", row.key)


def _notes(view: View) -> tuple[str, ...]:
    return (view.note,) if view.note else ()
