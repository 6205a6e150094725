"""What the page carries compressed: the rows behind its numbers, its drawings, and the tables that start folded.

Plain they would be four fifths of the page. A browser unpacks them without a network (`DecompressionStream`), see
`page.js`; the ledger and the first tables are there without.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.types import ROW_FIELDS, Row

LAST = ("baseline", "diff", "diff_low", "diff_high", "p_value", "p_adjusted", "effect", "better", "detectable",
        "published", "published_decimals", "gap", "gap_low", "gap_high", "gap_p", "agrees")  # fmt: skip
COLUMNS = [*(name for name in ROW_FIELDS if name not in LAST), *LAST]
"""Order of a row's fields on the page."""
DIGITS = 6
"""Significant digits on the page; the stored rows have more."""


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Rows field by field, None for nothing; a field that no row has is left out. Text packs better this way round."""
    found = {name: [short(getattr(row, name)) for row in rows] for name in COLUMNS}
    return {
        name: [None if value == "" else value for value in values]
        for name, values in found.items()
        if any(value not in (None, "") for value in values)
    }


def pack(rows: Mapping[str, Sequence[Row]], commands: Mapping[str, Mapping[str, str]], parts: Mapping[str, str]) -> str:
    """Base64 of gzip of JSON; the same input gives the same text.

    Args:
      rows: artefact -> its rows on the page; a cell names its row by its place here.
      commands: artefact -> entry -> the command that made it, '' for what made the rows.
      parts: place on the page -> HTML or SVG that belongs there.
    """
    artefacts = {
        name: {"keys": [row.key for row in held], "fields": columns(held), "commands": commands[name]}
        for name, held in rows.items()
    }
    whole = {"columns": COLUMNS, "artefacts": artefacts, "parts": parts}
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 9, mtime=0)).decode("ascii")


def unpack(text: str) -> dict[str, Any]:
    """What `pack` packed: `columns`, `artefacts`, `parts`."""
    return dict(json.loads(gzip.decompress(base64.b64decode(text))))


def short(value: Any) -> Any:
    """A float with `DIGITS` significant digits, anything else as it is."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
