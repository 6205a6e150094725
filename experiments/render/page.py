"""The report from stored data: HTML, Markdown, LaTeX, CSV, Parquet and SVG. Reads OUT/data and OUT/external only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from experiments import external, ledger, registry, store
from experiments.claims.types import Label
from experiments.render import embed, export, latex
from experiments.render.figures import Figure, draw_all, wanted
from experiments.render.tables import Table, differences, groups, pivot, printed
from experiments.statistics import REPRODUCED
from experiments.types import Artefact, ExperimentError, Row
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
    tasks = [task for name, held in stored.items() for task in wanted(registry.get(name), held.rows)]
    drawn = [(task[0], picture) for task, picture in zip(tasks, draw_all(tasks), strict=True) if picture is not None]
    blocks = [build(registry.get(name), stored, [p for of, p in drawn if of == name]) for name in stored]
    context = _context(claims, blocks, external.load(out))
    written = [out / HTML, out / MARKDOWN]
    write_text(out / HTML, template("page.html", TEMPLATES).render(context))
    write_text(out / MARKDOWN, template("report.md", TEMPLATES).render(context))
    for block in blocks:
        for picture in block.figures:
            write_text(out / FIGURES / f"{picture.slug}.svg", picture.file())
            written.append(out / FIGURES / f"{picture.slug}.svg")
        if block.tables:
            write_text(out / TEX / f"{block.artefact.id}.tex", latex.latex(block.tables))
            written.append(out / TEX / f"{block.artefact.id}.tex")
    write_text(out / TEX / "ledger.tex", latex.latex([ledger_table(claims)]))
    names = ["ledger", *(block.artefact.id for block in blocks if block.tables)]
    write_text(out / TEX / "all.tex", latex.document(names, TITLE))
    written += [out / TEX / "ledger.tex", out / TEX / "all.tex"]
    return written + export.rows_files(out, stored) + export.claims_files(out, claims)


def build(artefact: Artefact, stored: Mapping[str, store.StoredArtefact], figures: list[Figure]) -> Block:
    """Figures and tables of an artefact; the others may explain its figures."""
    found: list[Table] = []
    rows = stored[artefact.id].rows
    beside = printed(artefact, stored)
    if beside is not None and stored[artefact.id].done:
        found.append(beside)
    for view in artefact.views:
        for group in groups(rows, view):
            found.append(pivot(artefact, view, group, rows))
            if view.compare:
                gaps = differences(artefact, view, group, rows)
                found += [] if gaps is None else [gaps]
    return Block(artefact, stored[artefact.id], figures, found)


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


def verdict_text(claim: dict[str, Any], markup: bool = False) -> str:
    """`holds under m/K = 1`; long conditions are cut, the page shows the parts. markup: the label in bold, as HTML."""
    text = claim["condition"]
    also = "controls do too" if claim["controls_too"] and claim["label"] in ("holds", "holds under") else ""
    label = Markup("<strong>{}</strong>").format(claim["label"]) if markup else claim["label"]
    condition = f" {text[:140]}{'...' if len(text) > 140 else ''}" if text else ""
    # The bold label stands on a line of its own.
    mark = "" if not also else " " if markup and not text else "; "
    return label + condition + mark + also


def interval_text(claim: dict[str, Any]) -> str:
    """`[0.1, 0.2]` or nothing."""
    bounds = claim["interval"]
    return "" if not bounds or None in bounds else f"[{bounds[0]:.4g}, {bounds[1]:.4g}]"


def _context(
    claims: Sequence[dict[str, Any]], blocks: Sequence[Block], results: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    rows = _rows_shown(claims, blocks)
    places = {name: {row.key: at for at, row in enumerate(held)} for name, held in rows.items()}
    counts = {str(label): sum(c["label"] == label for c in claims) for label in Label}
    entries = {e["key"]: e for block in blocks for e in block.stored.record["entries"].values()}
    return {
        "title": TITLE,
        "claims": claims,
        "counts": counts,
        "blocks": blocks,
        "quick": [
            b.artefact.title
            for b in blocks
            if b.stored.done and (b.stored.record["quick"] or b.stored.record.get("seeds"))
        ],
        "figures": _printed_figures(blocks),
        "external": results,
        "lanes": sum(int(e.get("lanes") or 0) for e in entries.values()),
        "seconds": sum(float(e["seconds"]) for e in entries.values()),
        "entries": entries,
        "verdict_text": verdict_text,
        "interval_text": interval_text,
        "folder": FIGURES,
        "packed": embed.pack(rows, {block.artefact.id: _commands(block) for block in blocks}, _parts(blocks, places)),
        "places": places,
        "digits": {"page": embed.DIGITS, "stored": store.DIGITS},
        "short": embed.short,
    }


def _rows_shown(claims: Sequence[dict[str, Any]], blocks: Sequence[Block]) -> dict[str, list[Row]]:
    """The rows that a table or a claim names, per artefact in stored order."""
    named = {
        (block.artefact.id, cell.row)
        for block in blocks
        for table in block.tables
        for line in table.rows
        for cell in line
        if cell.row
    } | {tuple(name.split(":", 1)) for claim in claims for name in claim["rows"]}
    return {b.artefact.id: [r for r in b.stored.rows if (b.artefact.id, r.key) in named] for b in blocks}


def _commands(block: Block) -> dict[str, str]:
    """Entry -> the command that made it, '' for the one that made the rows."""
    record = block.stored.record
    return {name: entry.get("command", "") for name, entry in record["entries"].items()} | {"": record["command"]}


def _parts(blocks: Sequence[Block], places: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    """Place on the page -> what is packed for it: the drawings, and the tables that start folded."""
    show = template("table.html", TEMPLATES).module.show
    found = {}
    for block in blocks:
        name = block.artefact.id
        found |= {f"drawing-{picture.slug}": picture.inline() for picture in block.figures}
        folded = [show(table, name, places[name], embed.short) for table in block.tables if not table.first]
        found |= {f"more-{name}": "".join(folded)} if folded else {}
    return found


def _printed_figures(blocks: Sequence[Block]) -> dict[str, int]:
    """How many figures are published and how many of them come out here; one held against two settings counts once."""
    every = {(b.artefact.id, *key[1:]) for b in blocks for key in b.artefact.published}
    good = {(b.artefact.id, r.x, r.policy, r.measure) for b in blocks for r in b.stored.rows if r.agrees == REPRODUCED}
    return {"all": len(every), "reproduced": len(every & good)}
