"""LaTeX (booktabs), CSV and Parquet."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.store import StoredArtefact
from experiments.types import ROW_FIELDS
from solarjax.report.stored import write_bytes, write_text

if TYPE_CHECKING:
    from experiments.render.tables import Table

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "−": "--", "–": "--", "λ": r"$\lambda$", "·": r"$\cdot$",
}  # fmt: skip


def escape(text: str) -> str:
    """Text for LaTeX."""
    return "".join(_SPECIAL.get(c, c) for c in text)


def latex(tables: Sequence[Table]) -> str:
    """One booktabs table after the other; needs `\\usepackage{booktabs}`."""
    parts = [
        "% Made by `python -m experiments render` from stored rows. Needs \\usepackage{booktabs}.\n",
    ]
    for table in tables:
        lines = [" & ".join(escape(name) for name in table.head) + r" \\"]
        body = [" & ".join(_cell(cell) for cell in line) + r" \\" for line in table.rows]
        notes = "".join(f"\n\\par\\footnotesize {escape(note)}" for note in table.notes)
        parts.append(
            "\\begin{table}\n\\centering\n"
            f"\\caption{{{escape(table.title)}}}\n\\label{{tab:{table.slug}}}\n"
            f"\\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}\n\\toprule\n"
            + "\n".join(lines) + "\n\\midrule\n" + "\n".join(body)
            + f"\n\\bottomrule\n\\end{{tabular}}{notes}\n\\end{{table}}\n"
        )  # fmt: skip
    return "\n".join(parts)


def _cell(cell: Any) -> str:
    text = escape(cell.text)
    return rf"\textbf{{{text}}}" if cell.tone == "best" else text


def rows_files(out: Path, stored: Mapping[str, StoredArtefact]) -> list[Path]:
    """All stored rows as results.csv and results.parquet; returns the paths. Raises `StoreError`."""
    import pandas as pd

    records = [{"artefact": name, **asdict(row)} for name, held in stored.items() for row in held.rows]
    frame = pd.DataFrame(records, columns=["artefact", *ROW_FIELDS])
    kinds = {"str": "string", "int": "Int64", "float": "float64"}
    frame = frame.astype(
        {name: kinds[kind.split(" ")[0]] for name, kind in ROW_FIELDS.items()} | {"artefact": "string"}
    )
    write_text(out / "results.csv", frame.to_csv(index=False, lineterminator="\n"))
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    write_bytes(out / "results.parquet", buffer.getvalue())
    return [out / "results.csv", out / "results.parquet"]
