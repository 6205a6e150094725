"""Rows and ledger as CSV and Parquet."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.store import StoredArtefact
from experiments.types import ROW_FIELDS
from solarjax.report.stored import write_bytes, write_text

if TYPE_CHECKING:
    import pandas as pd


def claims_files(out: Path, claims: Sequence[Mapping[str, Any]]) -> list[Path]:
    """The ledger as claims.csv and claims.parquet, one line per claim; returns the paths. Raises `StoreError`."""
    import pandas as pd

    kinds = {"figure": "float64", "low": "float64", "high": "float64", "keys": "Int64", "controls_too": "bool",
              "quick": "bool", "rows_used": "Int64"}  # fmt: skip
    texts = ("id", "claim", "where", "label", "condition", "figure_name", "controls", "note", "command")
    names = [*texts[:6], *kinds, *texts[6:]]
    records = []
    for claim in claims:
        low, high = claim["interval"] or (None, None)
        records.append({name: {**claim, "low": low, "high": high}[name] for name in names})
    frame = pd.DataFrame(records, columns=names).astype({name: kinds.get(name, "string") for name in names})
    return _write(out, "claims", frame)


def rows_files(out: Path, stored: Mapping[str, StoredArtefact]) -> list[Path]:
    """All stored rows as results.csv and results.parquet; returns the paths. Raises `StoreError`."""
    import pandas as pd

    records = [{"artefact": name, **vars(row)} for name, held in stored.items() for row in held.rows]
    frame = pd.DataFrame(records, columns=["artefact", *ROW_FIELDS])
    kinds = {"str": "string", "int": "Int64", "float": "float64"}
    frame = frame.astype(
        {name: kinds[kind.split(" ")[0]] for name, kind in ROW_FIELDS.items()} | {"artefact": "string"}
    )
    return _write(out, "results", frame)


def _write(out: Path, name: str, frame: pd.DataFrame) -> list[Path]:
    paths = [out / f"{name}.csv", out / f"{name}.parquet"]
    write_text(paths[0], frame.to_csv(index=False, lineterminator="\n"))
    buffer = io.BytesIO()
    # Figures differ in their last bytes and agree in their first ones, so bytes of one place pack best together.
    floats = [name for name in frame.columns if frame[name].dtype == "float64"]
    frame.to_parquet(
        buffer, index=False, compression="zstd", compression_level=19, use_byte_stream_split=floats,
        use_dictionary=[name for name in frame.columns if name not in floats],
    )  # fmt: skip
    write_bytes(paths[1], buffer.getvalue())
    return paths
