"""Results on disk: entries by content address, rows and provenance per artefact. See README.md for the layout."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import code
from experiments.types import ROW_FIELDS, Artefact, Context, ExperimentError, Measurement, Row

if TYPE_CHECKING:
    import xarray as xr

    from solarjax.core.source import Source

RUNS, DATA, ROWS, PROVENANCE = "runs", "data", "rows.csv", "provenance.json"
DIGITS = 9
"""Significant digits of a stored figure: more than sampling error needs; all seventeen make a file a third larger."""


@dataclass(frozen=True)
class Address:
    """Where an entry is stored and what decides that. key: 16 hex digits.  config, code, command: see provenance."""

    key: str
    config: Mapping[str, Any]
    code: str
    command: str


def digest(value: Any) -> str:
    """First 16 hex digits of the sha256 of a JSON-able value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def address(artefact: str, entry: Any) -> Address:
    """Content address of a plan entry: equal iff configuration and reachable code are equal.

    Raises:
      PolicyError, WorkloadError, TraceError: what is wrong with a job.
    """
    if isinstance(entry, Measurement):
        function = entry.function
        config = {"function": f"{function.__module__}.{function.__qualname__}", **entry.config}
        source = code.fingerprint([function.__module__])
        command = f"python -m experiments run {artefact}"
    else:
        config, source = entry.config(), code.fingerprint(code.modules_of_job(entry))
        command = entry.command()
        for path in entry.source.files:  # from the checkout, not from somebody's root directory
            command = command.replace(str(path), os.path.relpath(path, code.ROOT))
    config = json.loads(json.dumps(config))
    return Address(digest([config, source]), config, source, command)


def fetch(
    out: Path, place: Address, entry: Any, context: Context, source: Source | None = None
) -> tuple[xr.Dataset, dict[str, Any], bool]:
    """The dataset of an entry, its provenance, and whether it was there already; computes and stores it if not.

    A sweep that was stopped continues.

    Raises:
      StoreError: the folder cannot be written to or is damaged.   SweepError and others: the entry cannot be computed.
    """
    from solarjax import provenance
    from solarjax.report import stored

    folder = out / RUNS / place.key
    if (folder / stored.PROVENANCE).exists():
        run = stored.load(folder)
        return run.data, dict(run.provenance), True
    stored.check_writable(folder)
    start = time.perf_counter()
    if isinstance(entry, Measurement):
        data = entry.function(entry.config)
    else:
        data = entry.sweep(folder / f"{stored.CHUNKS}{place.code}", None, source)
    record = provenance.collect(place.config, place.command, time.perf_counter() - start)
    run = stored.save(folder, data, {**record, "code": place.code, "engine_code": record["code"]})
    return run.data, dict(run.provenance), False


def rows_text(rows: Iterable[Row]) -> str:
    """Rows as CSV; floats with `DIGITS` significant digits, None as an empty field."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(ROW_FIELDS), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _text(value) for name, value in asdict(row).items()} for row in rows)
    return buffer.getvalue()


def _text(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else value


def parse_rows(text: str, where: str) -> list[Row]:
    """What `rows_text` wrote, with any number of digits. Raises `ExperimentError` naming file and line."""
    reader = csv.DictReader(io.StringIO(text))
    if reader.fieldnames != list(ROW_FIELDS):
        raise ExperimentError(f"{where}: the columns are not those of this version; run the experiment again")
    rows = []
    for number, record in enumerate(reader, 2):
        try:
            rows.append(Row(**{name: _value(record[name], kind) for name, kind in ROW_FIELDS.items()}))
        except (TypeError, ValueError) as problem:
            raise ExperimentError(f"{where}, line {number}: {problem}") from None
    return rows


def _value(text: str, kind: str) -> Any:
    if kind == "str":
        return text
    if text == "":
        return None
    return int(text) if kind.startswith("int") else float(text)


def save_artefact(out: Path, name: str, rows: list[Row], record: Mapping[str, Any]) -> None:
    """Writes an artefact; the provenance comes last, so it marks a complete one, and says how many digits rows have.

    Raises:
      StoreError: the folder cannot be written to.
    """
    from solarjax.report.stored import write_text

    write_text(out / DATA / name / ROWS, rows_text(rows))
    record = {**record, "digits": DIGITS}
    write_text(out / DATA / name / PROVENANCE, json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n")


@dataclass(frozen=True)
class StoredArtefact:
    """One artefact as stored. record: `status` (done or missing), `reason`, `entries`, `key`, `quick`, ..."""

    id: str
    rows: tuple[Row, ...]
    record: Mapping[str, Any]

    @property
    def done(self) -> bool:
        """False if it could not run here; `record['reason']` says why."""
        return self.record["status"] == "done"


def load_artefact(out: Path, name: str) -> StoredArtefact | None:
    """A stored artefact, None if it never ran. Raises `ExperimentError` if it is damaged."""
    folder = out / DATA / name
    try:
        record = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
        text = (folder / ROWS).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as problem:
        raise ExperimentError(f"{folder} holds no readable result: {problem}") from None
    if not isinstance(record, dict) or "status" not in record or "entries" not in record:
        raise ExperimentError(f"{folder / PROVENANCE} is no record of an experiment")
    return StoredArtefact(name, tuple(parse_rows(text, str(folder / ROWS))), record)


def load_all(out: Path, names: Iterable[str]) -> dict[str, StoredArtefact]:
    """The artefacts that are stored, in the given order."""
    found = {name: load_artefact(out, name) for name in names}
    return {name: stored for name, stored in found.items() if stored is not None}


def artefact_key(artefact: Artefact, places: Mapping[str, Address], context: Context) -> str:
    """Changes iff the rows may: entries, the code that makes rows of them, published figures."""
    published = [[list(k), asdict(v)] for k, v in artefact.published.items()]
    source = code.fingerprint([artefact.rows.__module__, artefact.plan.__module__, "experiments.runner"])
    return digest([{name: place.key for name, place in places.items()}, source, published, context.quick])
