"""The report from stored data: HTML, Markdown, LaTeX, CSV, Parquet and SVG. Reads OUT/data and OUT/external only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments import ledger, registry, store
from experiments.claims.types import Label
from experiments.render import export
from experiments.render.figures import Figure, figure
from experiments.render.tables import Table, differences, groups, pivot, printed
from experiments.types import ROW_FIELDS, Artefact, ExperimentError, Row
from solarjax.report.render import template
from solarjax.report.stored import write_text

TITLE = "What should an agent remember? The papers' claims, checked"
HTML, MARKDOWN, FIGURES, TEX = "index.html", "report.md", "figures", "tables"
TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Block:
    """One artefact on the page. blocks: (figure or None, tables) per view and group; reason: why it did not run."""

    artefact: Artefact
    stored: store.StoredArtefact
    figures: list[Figure]
    tables: list[Table]

    @property
    def reason(self) -> str:
        """Why there are no figures, '' if there are."""
        return "" if self.stored.done else str(self.stored.record.get("reason", ""))


def render(out: Path) -> list[Path]:
    """Writes the report; returns the files written, the page first.

    Raises:
      ExperimentError: nothing is stored under `out`, or something there is damaged.
      StoreError: it cannot be written to.
    """
    stored = store.load_all(out, registry.IDS)
    if not stored:
        raise ExperimentError(f"{out} holds no results; run `python -m experiments run --out {out}` first")
    claims = ledger.write(out)
    blocks = [build(registry.get(name), held) for name, held in stored.items()]
    context = _context(claims, blocks)
    written = [out / HTML, out / MARKDOWN]
    write_text(out / HTML, template("page.html", TEMPLATES).render(context))
    write_text(out / MARKDOWN, template("report.md", TEMPLATES).render(context))
    for block in blocks:
        for picture in block.figures:
            write_text(out / FIGURES / f"{picture.slug}.svg", picture.file())
            written.append(out / FIGURES / f"{picture.slug}.svg")
        if block.tables:
            write_text(out / TEX / f"{block.artefact.id}.tex", export.latex(block.tables))
            written.append(out / TEX / f"{block.artefact.id}.tex")
    write_text(out / TEX / "ledger.tex", export.latex([ledger_table(claims)]))
    written.append(out / TEX / "ledger.tex")
    return written + export.rows_files(out, stored)


def build(artefact: Artefact, stored: store.StoredArtefact) -> Block:
    """Figures and tables of an artefact."""
    figures: list[Figure] = []
    found: list[Table] = []
    rows = stored.rows
    beside = printed(artefact, rows)
    if beside is not None:
        found.append(beside)
    for view in artefact.views:
        for group in groups(rows, view):
            if view.figure:
                picture = figure(artefact, view, group, rows)
                figures += [] if picture is None else [picture]
            found.append(pivot(artefact, view, group, rows))
            if view.compare:
                gaps = differences(artefact, view, group, rows)
                found += [] if gaps is None else [gaps]
    return Block(artefact, stored, figures, found)


def ledger_table(claims: Sequence[dict[str, Any]]) -> Table:
    """The ledger in short, for LaTeX."""
    from experiments.render.tables import Cell

    body = [
        [
            Cell(c["id"]), Cell(c["claim"]), Cell(verdict_text(c)), Cell(c["figure_name"]),
            Cell("" if c["figure"] is None else f"{c['figure']:.4g}"), Cell(interval_text(c)),
        ]
        for c in claims
    ]  # fmt: skip
    return Table("ledger", "Claims", ["id", "claim", "verdict", "figure", "value", "95 % interval"], body)


def verdict_text(claim: dict[str, Any]) -> str:
    """`holds under m/K = 1`; long conditions are cut, the page shows the parts."""
    text = claim["condition"]
    also = "; controls do too" if claim["controls_too"] and claim["label"] in ("holds", "holds under") else ""
    return claim["label"] + (f" {text[:140]}{'...' if len(text) > 140 else ''}" if text else "") + also


def interval_text(claim: dict[str, Any]) -> str:
    """`[0.1, 0.2]` or nothing."""
    bounds = claim["interval"]
    return "" if not bounds or None in bounds else f"[{bounds[0]:.4g}, {bounds[1]:.4g}]"


def _context(claims: Sequence[dict[str, Any]], blocks: Sequence[Block]) -> dict[str, Any]:
    shown = {cell.row for block in blocks for table in block.tables for line in table.rows for cell in line if cell.row}
    columns = list(ROW_FIELDS)
    data = {
        block.artefact.id: {
            "rows": {r.key: _compact(r) for r in block.stored.rows if r.key in shown},
            "commands": {
                name: e.get("command", "") for name, e in block.stored.record["entries"].items()
            } | {"": block.stored.record["command"]},
        }
        for block in blocks
    }  # fmt: skip
    counts = {str(label): sum(c["label"] == label for c in claims) for label in Label}
    entries = {e["key"]: e for block in blocks for e in block.stored.record["entries"].values()}
    return {
        "title": TITLE,
        "claims": claims,
        "counts": counts,
        "blocks": blocks,
        "quick": any(b.stored.record["quick"] or b.stored.record.get("seeds") for b in blocks),
        "lanes": sum(int(e.get("lanes") or 0) for e in entries.values()),
        "seconds": sum(float(e["seconds"]) for e in entries.values()),
        "entries": entries,
        "verdict_text": verdict_text,
        "interval_text": interval_text,
        "folder": FIGURES,
        # '<' must not end the script element that holds the data.
        "data": json.dumps({"columns": columns, "artefacts": data}, separators=(",", ":")).replace("<", "\\u003c"),
        "json": json,
    }


def _compact(row: Row) -> list[Any]:
    return [float(f"{v:.9g}") if isinstance(v, float) else v for v in asdict(row).values()]
