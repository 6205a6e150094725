"""Tables of a report as plain values: what HTML, Markdown and CSV are rendered from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from solarjax.analysis.curves import Row, headroom, plain
from solarjax.report.sections import PolicyInfo, Section

# Has everything, so it is a ceiling and no competitor.
CEILING = "unlimited"
MINUS = "−"
RATES = ("1", "", "items/query")
COUNTS = ("items", "steps", "queries", "miss cost", "%")


@dataclass(frozen=True)
class Cell:
    """text: what is shown.  value: what a column sorts by.  tone: '', best, up or down.  hint: details."""

    text: str
    value: float | str | None = None
    tone: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """title, column headings, rows of cells (the first names the row), and remarks printed below."""

    title: str
    head: list[str]
    rows: list[list[Cell]]
    notes: tuple[str, ...] = ()


def number(value: float | None, units: str = "1", signed: bool = False) -> str:
    """A mean for reading, a dash for a missing value: decimals by unit, three for rates, one for counts."""
    if value is None:
        return "–"
    style = ".1f" if units in COUNTS else ".3f" if units in RATES else ".3g"
    text = format(abs(value), style)
    zero = float(text) == 0
    sign = MINUS if value < 0 and not zero else ("+" if signed and not zero else "")
    return sign + text


def interval(middle: float | None, low: float | None, units: str = "1", signed: bool = False) -> str:
    """`'0.306 ± 0.004'`, or the mean alone where no interval is defined."""
    text = number(middle, units, signed)
    return text if middle is None or low is None else f"{text} ± {number(middle - low, units)}"


def row_name(policy: PolicyInfo) -> Cell:
    """The first cell of a row."""
    return Cell(policy.title, policy.title, hint=policy.summary)


def _by_cell(rows: Sequence[Row]) -> dict[tuple[str, int], Row]:
    return {(row["policy"], row["point"]): row for row in rows}


def matrix(section: Section, variable: str, title: str | None = None) -> Table:
    """Policies x points: mean ± half width of the interval; the best online policy of a column is marked."""
    units = section.data[0][variable].attrs.get("units", "")
    cells = _by_cell(section.rows(variable))
    contest = [p.label for p in section.policies if p.online and p.label != CEILING]
    best = {}
    for i in range(len(section.points)):
        means = [(cells[label, i]["mean"], label) for label in contest if cells[label, i]["mean"] is not None]
        best[i] = max(means, default=(None, None))[0]
    body = []
    for policy in section.policies:
        line = [row_name(policy)]
        for i in range(len(section.points)):
            row = cells[policy.label, i]
            top = variable == section.primary and policy.label in contest and row["mean"] == best[i] is not None
            hint = f"sd {number(row['sd'], units)}, n = {row['n']}"
            text = interval(row["mean"], row["low"], units)
            line.append(Cell(text, row["mean"], "best" if top else "", hint))
        body.append(line)
    return Table(title or section.describe(variable), ["policy", *(p.label for p in section.points)], body)


def differences(section: Section) -> Table | None:
    """Paired difference to the baseline (None without it), tinted where the interval leaves out 0."""
    variable = section.primary
    if section.baseline is None:
        return None
    units = section.data[0][variable].attrs.get("units", "")
    cells = _by_cell(section.rows(variable))
    body = []
    for policy in section.policies:
        if policy.label == section.baseline:
            continue
        line = [row_name(policy)]
        for i in range(len(section.points)):
            row = cells[policy.label, i]
            tone = ""
            if row["diff_low"] is not None and row["diff_low"] > 0:
                tone = "up"
            elif row["diff_high"] is not None and row["diff_high"] < 0:
                tone = "down"
            p = "" if row["p_value"] is None else f"p = {row['p_value']:.2g}, "
            hint = f"{p}d = {number(row['effect'])}, above in {100 * row['better']:.0f} % of {row['n']}"
            line.append(Cell(interval(row["diff"], row["diff_low"], units, signed=True), row["diff"], tone, hint))
        body.append(line)
    title = f"{section.describe(variable)}: paired difference to {section.baseline}"
    notes = ("Tinted where the 95 % interval leaves out 0; not corrected for the number of comparisons.",)
    return Table(title, ["policy", *(p.label for p in section.points)], body, notes)


def measures(section: Section) -> Table:
    """Every stored measure: one row per policy and point, means only (intervals are in the CSV)."""
    columns: list[tuple[str, dict[tuple[str, int], Row], str]] = []
    for name in section.variables:
        cells = _by_cell(section.rows(name))
        if any(row["mean"] is not None for row in cells.values()):
            columns.append((section.describe(name), cells, section.data[0][name].attrs.get("units", "")))
    for lam in section.data[0].get("lambda", []):
        cells = _by_cell(_at(section, "total_cost", "lambda", lam.item()))
        columns.append((f"total cost at λ = {lam.item():g}", cells, "miss cost"))
    body = [
        [
            row_name(policy),
            Cell(point.label, point.x),
            *(Cell(number(c[policy.label, i]["mean"], u), c[policy.label, i]["mean"]) for _, c, u in columns),
        ]
        for policy in section.policies
        for i, point in enumerate(section.points)
    ]
    return Table("All measures (means)", ["policy", "at", *(title for title, _, _ in columns)], body)


def _at(section: Section, variable: str, axis: str, value: Any) -> list[Row]:
    return [row for row in section.rows(variable) if row[axis] == value]


def categories(section: Section) -> Table | None:
    """Hit rate, or answer F1, by question category, one row per policy and point; None if there are no categories."""
    measure = "category_f1" if "category_f1" in section.data[0] else "category_hit_rate"
    if measure not in section.data[0]:
        return None
    names = [str(name) for name in section.data[0]["category"].values]
    rows = {(r["policy"], r["point"], r["category"]): r for r in section.rows(measure)}
    body = []
    for policy in section.policies:
        for i, point in enumerate(section.points):
            line = [row_name(policy), Cell(point.label, point.x)]
            for name in names:
                row = rows[policy.label, i, name]
                line.append(Cell(interval(row["mean"], row["low"]), row["mean"], hint=f"n = {row['n']}"))
            body.append(line)
    title = "Answer F1" if measure == "category_f1" else "Hit rate"
    return Table(f"{title} by question category", ["policy", "at", *names], body)


def overview(sections: Sequence[Section]) -> Table:
    """One row per workload and point: best online policy, baseline, offline heuristic, no limit at all."""
    body = []
    for section in sections:
        cells = _by_cell(section.rows(section.primary))
        online = [p.label for p in section.policies if p.online and p.label != CEILING]
        offline = [p.label for p in section.policies if not p.online]
        for i, point in enumerate(section.points):
            best = max(online, key=lambda label: _mean(cells[label, i]))
            row = cells[best, i]
            beyond = max((_mean(cells[label, i]) for label in offline), default=None)
            ceiling = cells.get((CEILING, i))
            base = cells.get((section.baseline or "", i))
            gap = Cell("–")
            if base is not None and best != section.baseline:
                tone = "up" if row["diff_low"] is not None and row["diff_low"] > 0 else ""
                gap = Cell(interval(row["diff"], row["diff_low"], signed=True), row["diff"], tone)
            body.append(
                [
                    Cell(section.title, section.title),
                    Cell(point.label, point.x),
                    Cell(best, best, "best"),
                    Cell(interval(row["mean"], row["low"]), row["mean"]),
                    Cell(number(base["mean"]), base["mean"]) if base else Cell("–"),
                    gap,
                    Cell(number(beyond), beyond),
                    Cell(number(ceiling["mean"]), ceiling["mean"]) if ceiling else Cell("–"),
                ]
            )
    measured = list(dict.fromkeys(section.describe(section.primary) for section in sections))
    head = ["workload", "at", "best online policy", f"its {' or '.join(measured)}", "fifo", "paired difference"]
    head += ["offline heuristic", "no limit"]
    notes = (
        "The best is picked by its mean on these very runs, so its lead is slightly flattered; "
        "the tables below show every policy.",
    )
    return Table("The best online policy of each workload", head, body, notes)


def _mean(row: Row) -> float:
    return float("-inf") if row["mean"] is None else float(row["mean"])


def headrooms(section: Section) -> Table | None:
    """Share of the way from the baseline to the best offline heuristic; None where there is none above it."""
    offline = [p.label for p in section.policies if not p.online]
    if section.baseline is None or not offline:
        return None
    shares = [headroom(d, section.primary, offline, section.baseline) for d in section.data]
    body = []
    for policy in section.policies:
        if policy.label in (section.baseline, CEILING) or not policy.online:
            continue
        line = [row_name(policy)]
        for point in section.points:
            share = shares[point.run]
            assert share is not None  # an offline policy ran
            value = plain(share.sel(policy=policy.label, capacity=point.capacity).values[()])
            text = "–" if value is None else f"{number(100 * value, '%')} %"
            line.append(Cell(text, value))
        body.append(line)
    if all(cell.value is None for line in body for cell in line[1:]):
        return None  # the heuristic is nowhere above the baseline
    notes = ("The offline policy sees the future but is a heuristic, no optimum: more than 100 % is possible.",)
    title = f"Headroom used: share of the gap from {section.baseline} to the offline heuristic"
    return Table(title, ["policy", *(p.label for p in section.points)], body, notes)


def policy_list(sections: Sequence[Section]) -> Table:
    """What each policy label stands for, parameters included."""
    seen: dict[tuple[str, str], list[Cell]] = {}
    for section in sections:
        for policy in section.policies:
            params = ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in policy.params.items())
            kind = "online" if policy.online else "heuristic, offline (sees the future)"
            cells = [Cell(t, t) for t in (policy.label, kind, policy.summary, params or "none", policy.paper)]
            seen.setdefault((policy.label, params), cells)
    head = ["policy", "kind", "what it does", "parameters", "source"]
    return Table("Policies as they ran", head, list(seen.values()))


def long_rows(section: Section) -> list[Row]:
    """Everything in the section for a CSV: one row per policy, point and measure, full precision."""
    params = {p.label: p for p in section.policies}
    out: list[Row] = []
    for name in [*section.variables, "total_cost", "category_hit_rate", "category_f1"]:
        if name not in section.data[0]:
            continue
        for row in section.rows(name):
            point = section.points[row["point"]]
            out.append(
                {
                    "workload": section.title,
                    "at": point.label,
                    "x": point.x,
                    "policy": row["policy"],
                    "online": params[row["policy"]].online,
                    "capacity": row["capacity"],
                    "measure": name,
                    "units": section.data[0][name].attrs.get("units", ""),
                    "lambda": row.get("lambda"),
                    "category": row.get("category"),
                    **{k: row.get(k) for k in ("mean", "sd", "low", "high", "n")},
                    "interval_over": section.unit,
                    **{k: row.get(k) for k in ("diff", "diff_low", "diff_high", "p_value", "effect", "better")},
                }
            )
    return out
