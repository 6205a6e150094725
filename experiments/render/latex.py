"""Tables as LaTeX (booktabs), and a document that holds them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.render.tables import Table

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "−": "$-$", "–": "--", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "|": r"\textbar{}",
    "λ": r"$\lambda$", "·": r"$\cdot$",
}  # fmt: skip


PACKAGES = "booktabs, longtable, graphicx, and \\fittoline from all.tex"
LONG, SENTENCE = 35, 40
"""Lines from which a table runs over pages; characters from which a column wraps."""


def escape(text: str) -> str:
    """Text for LaTeX."""
    return "".join(_SPECIAL.get(c, c) for c in text)


def latex(tables: Sequence[Table]) -> str:
    """One booktabs table after the other, see `PACKAGES` for what they need.

    Wide tables shrink to the line; those of many lines run over pages; columns of sentences wrap.
    """
    return "\n".join(
        [f"% Made by `python -m experiments render` from stored rows. Needs {PACKAGES}.\n", *map(_table, tables)]
    )


def _table(table: Table) -> str:
    wraps = [any(len(_text(row, i)) > SENTENCE for row in table.rows) for i in range(len(table.head))]
    width = f"p{{{0.66 / max(1, sum(wraps)):.2f}\\linewidth}}" if sum(wraps) > 2 else "p{0.3\\linewidth}"
    spec = "".join(width if wrap else "l" if i == 0 else "r" for i, wrap in enumerate(wraps))
    head = " & ".join(escape(name) for name in table.head) + r" \\"
    body = "\n".join(" & ".join(_cell(cell) for cell in line) + r" \\" for line in table.rows)
    notes = "".join(f"\n\\par\\footnotesize {escape(note)}" for note in table.notes)
    label = f"\\caption{{{escape(table.title)}}}\\label{{tab:{table.slug}}}"
    if len(table.rows) > LONG or any(wraps):
        return (
            f"{{\\footnotesize\n\\begin{{longtable}}{{{spec}}}\n{label} \\\\\n\\toprule\n{head}\n\\midrule\n\\endhead\n"
            f"{body}\n\\bottomrule\n\\end{{longtable}}{notes}\n}}\n"
        )
    return (
        f"\\begin{{table}}[htbp]\n\\centering\n{label}\n\\fittoline{{\\begin{{tabular}}{{{spec}}}\n\\toprule\n{head}\n\\midrule\n"
        f"{body}\n\\bottomrule\n\\end{{tabular}}}}{notes}\n\\end{{table}}\n"
    )


def document(names: Sequence[str], title: str) -> str:
    """A LaTeX document that reads the files `names` of the same folder."""
    inputs = "\n".join(f"\\input{{{name}}}\\clearpage" for name in names)
    return (
        "\\documentclass[a4paper]{article}\n\\usepackage[utf8]{inputenc}\n\\usepackage[margin=2cm]{geometry}\n"
        "\\usepackage{booktabs,longtable,graphicx}\n"
        "% A table wider than the line shrinks to it.\n"
        "\\newsavebox{\\fitted}\n\\newcommand{\\fittoline}[1]{\\sbox{\\fitted}{#1}%\n"
        "  \\ifdim\\wd\\fitted>\\linewidth\\resizebox{\\linewidth}{!}{\\usebox{\\fitted}}%\n"
        "  \\else\\usebox{\\fitted}\\fi}\n"
        "\\extrafloats{500} % hundreds of tables and no text between them\n"
        f"\\title{{{escape(title)}}}\n\\begin{{document}}\n\\maketitle\n{inputs}\n\\end{{document}}\n"
    )


def _text(line: Sequence[Any], i: int) -> str:
    return str(line[i].text) if i < len(line) else ""


def _cell(cell: Any) -> str:
    text = escape(cell.text)
    return rf"\textbf{{{text}}}" if cell.tone == "best" else text
