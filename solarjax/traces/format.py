"""The trace file format: one compressed npz per trace, versioned, never pickled.

Version 1: `header` is a JSON text as `[bytes] u8` (format, version, names of the arrays, name, category
names, texts, meta); every array of `Trace` is an entry of its own name, absent where the trace has None. Axes
as in `Trace`.

`load` also reads the arrays of the SOLAR authors' synthetic workloads (see `solar_arrays.py`).
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from solarjax.core.trace import NO_QUERY, StepMode, Trace, TraceError
from solarjax.traces import solar_arrays
from solarjax.traces.arrays import checked
from solarjax.traces.files import replacing

FORMAT = "solarjax-trace"
VERSION = 1

# Kind and number of axes per array; the widths on file are i32, f32, u8 and f64, but any of the kind is read.
_REQUIRED: dict[str, tuple[type, int]] = {
    "items": (np.floating, 2),
    "queries": (np.floating, 2),
    "query": (np.integer, 1),
    "arrival": (np.integer, 1),
    "mode": (np.integer, 1),
    "relevant_indptr": (np.integer, 1),
    "relevant_indices": (np.integer, 1),
}
_OPTIONAL: dict[str, tuple[type, int]] = {
    "relevant_grade": (np.floating, 1),
    "arrival_on_miss": (np.integer, 1),
    "answer_recall": (np.floating, 2),
    "category": (np.integer, 1),
    "item_time": (np.floating, 1),
    "query_time": (np.floating, 1),
}

# Truncated, overwritten or pickled files fail in many ways inside zipfile and numpy; all mean the same here.
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    RuntimeError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
)


def save(trace: Trace, path: str | Path) -> None:
    """Writes a trace. The file appears complete or not at all (`files.replacing`).

    Args:
      trace: any trace.
      path: target, overwritten if it exists.

    Raises:
      TraceError: if `trace.meta` is not JSON-able or the file cannot be written; names the file.
    """
    path = Path(path)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": trace.name,
        "category_names": list(trace.category_names),
        "item_text": None if trace.item_text is None else list(trace.item_text),
        "query_text": None if trace.query_text is None else list(trace.query_text),
        "meta": dict(trace.meta),
    }
    arrays: dict[str, np.ndarray] = {}
    for name in (*_REQUIRED, *_OPTIONAL):
        value = getattr(trace, name)
        if value is not None:
            arrays[name] = np.asarray(value, np.float64) if name.endswith("_time") else value
    # Named here too: an optional array lost to damage would otherwise read as one that never was.
    header["arrays"] = sorted(arrays)
    try:
        text = json.dumps(header, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise TraceError(f"{path}: meta of trace {trace.name!r} cannot be stored as JSON: {error}") from None
    arrays["header"] = np.frombuffer(text.encode(), np.uint8)
    try:
        with replacing(path) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror or error}") from None


def load(path: str | Path, prefill: str | Path | np.ndarray | None = None) -> Trace:
    """Reads a trace of this format or of the SOLAR authors' arrays.

    Args:
      path: the file.
      prefill: item indices pushed in before t=0 instead of the file's own prefill: a `.npy` file or an array,
        `[P]` of any integer type. They become PREFILL steps; PREFILL and FILL steps of the file are dropped.

    Returns:
      The trace.

    Raises:
      TraceError: if the file is missing, truncated, of another format or version, lacks a field, or a field
        has the wrong type, shape or content; names the file and the field.
    """
    path = Path(path)
    arrays = _read_npz(path)
    try:
        if "header" in arrays:
            trace = _from_arrays(arrays)
        elif "item_embeddings" in arrays:
            trace = solar_arrays.to_trace(arrays, path.stem)
        else:
            raise TraceError(f"no trace: neither 'header' nor 'item_embeddings' among its fields {sorted(arrays)}")
        return trace if prefill is None else with_prefill(trace, _prefill_ids(prefill))
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def with_prefill(trace: Trace, ids: np.ndarray) -> Trace:
    """The same trace with these items pushed in before t=0, in this order, instead of its own prefill.

    Args:
      trace: any trace.
      ids: `[P]` integer, item indices; repeats are allowed (a duplicate arrival).

    Raises:
      TraceError: if `ids` is no list of valid item indices.
    """
    ids = np.asarray(ids)
    if ids.ndim != 1 or not (np.issubdtype(ids.dtype, np.integer) or ids.size == 0):
        raise TraceError(f"prefill must be a list of integers, got {ids.dtype} {ids.shape}")
    ids = ids.astype(np.int64)
    bad = np.flatnonzero((ids < 0) | (ids >= len(trace.items)))
    if len(bad):
        raise TraceError(f"prefill[{bad[0]}] = {ids[bad[0]]} is out of range; items are 0..{len(trace.items) - 1}")
    keep = trace.mode > StepMode.FILL
    head = np.full(len(ids), NO_QUERY)
    changed: dict[str, Any] = {
        "query": np.concatenate([head, trace.query[keep]]),
        "arrival": np.concatenate([ids, trace.arrival[keep]]),
        "mode": np.concatenate([np.full(len(ids), StepMode.PREFILL), trace.mode[keep]]),
    }
    if trace.arrival_on_miss is not None:
        changed["arrival_on_miss"] = np.concatenate([ids, trace.arrival_on_miss[keep]])
    fields = {name: getattr(trace, name) for name in Trace.__dataclass_fields__}
    return Trace(**{**fields, **changed})


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        # Opened here, not by np.load, which leaves a damaged file open.
        with open(path, "rb") as handle:
            loaded = np.load(handle, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise TraceError(f"{path}: a single array, not a trace file (npz)")
            with loaded as file:
                return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file") from None
    except TraceError:
        raise
    except _UNREADABLE as error:
        raise TraceError(f"{path}: not a readable npz file, perhaps truncated: {error}") from None


def _from_arrays(arrays: dict[str, np.ndarray]) -> Trace:
    header = _header(arrays["header"])
    known = _REQUIRED | _OPTIONAL
    if extra := sorted((set(arrays) | set(header["arrays"])) - {"header"} - set(known)):
        raise TraceError(f"unknown field {extra[0]!r}")
    if extra := sorted(set(arrays) - {"header", *header["arrays"]}):
        raise TraceError(f"field {extra[0]!r} is not among those the header announces")
    wanted = [name for name in known if name in _REQUIRED or name in header["arrays"]]
    fields: dict[str, Any] = {name: checked(arrays, name, *known[name]) for name in wanted}
    return Trace(
        name=header["name"],
        category_names=tuple(header["category_names"]),
        item_text=None if header["item_text"] is None else tuple(header["item_text"]),
        query_text=None if header["query_text"] is None else tuple(header["query_text"]),
        meta=header["meta"],
        **fields,
    )


def _header(raw: np.ndarray) -> dict[str, Any]:
    if raw.dtype != np.uint8 or raw.ndim != 1:
        raise TraceError(f"field 'header' must be bytes, got {raw.dtype} {raw.shape}")
    try:
        header = json.loads(raw.tobytes())
    except ValueError as error:
        raise TraceError(f"field 'header' is not JSON: {error}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise TraceError(f"field 'header' does not announce format {FORMAT!r}")
    if header.get("version") != VERSION:
        raise TraceError(f"format version {header.get('version')!r} is not supported; this program reads {VERSION}")

    def texts(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(text, str) for text in value)

    for key, valid in {
        "name": lambda v: isinstance(v, str) and v,
        "arrays": texts,
        "category_names": texts,
        "item_text": lambda v: v is None or texts(v),
        "query_text": lambda v: v is None or texts(v),
        "meta": lambda v: isinstance(v, dict),
    }.items():
        if key not in header or not valid(header[key]):
            raise TraceError(f"header entry {key!r} is missing or malformed")
    return header


def _prefill_ids(prefill: str | Path | np.ndarray) -> np.ndarray:
    if isinstance(prefill, np.ndarray):
        return prefill
    try:
        with open(prefill, "rb") as handle:
            ids = np.load(handle, allow_pickle=False)
    except _UNREADABLE as error:
        raise TraceError(f"prefill file {prefill} cannot be read as one array: {error}") from None
    if not isinstance(ids, np.ndarray):
        raise TraceError(f"prefill file {prefill} holds several arrays; expected one list of item indices")
    return ids
