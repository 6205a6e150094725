"""Lines of a bring-your-own trace: parsing and checking one at a time. The schema is described in
`jsonl.py`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from solarjax.core.trace import StepMode, TraceError
from solarjax.traces.conversation import first_duplicate
from solarjax.traces.dates import parse_time
from solarjax.traces.parameters import unknown

_FIELDS = {
    "trace": ("kind", "name"),
    "item": ("kind", "id", "text", "embedding", "time", "mode"),
    "query": ("kind", "id", "text", "embedding", "time", "mode", "relevant", "category", "answer"),
    "step": ("kind", "query", "arrival", "arrival_on_miss", "mode"),
}
_LARGEST = float(np.finfo(np.float32).max)
MODES = {mode.name.lower(): mode for mode in StepMode}


@dataclass(frozen=True)
class Entry:
    """An item or a query. `line`: where it stands; `at`: file and line for messages; the rest as in the
    schema.

    relevant: item id to grade, for queries; graded: whether the file gave grades.
    """

    at: str
    line: int
    kind: str
    id: str
    text: str | None
    embedding: np.ndarray | None
    time: float | None
    mode: StepMode | None
    relevant: dict[str, float]
    graded: bool
    category: str | None
    answer: str | None


@dataclass(frozen=True)
class Step:
    """One line of the schedule, ids not yet resolved."""

    at: str
    line: int
    query: str | None
    arrival: str | None
    arrival_on_miss: str | None
    mode: StepMode


@dataclass(frozen=True)
class Label:
    """The line that names the trace."""

    name: str


def parse(path: Path) -> list[Entry | Step | Label]:
    """Reads and checks every line on its own; blank lines are skipped.

    Raises:
      TraceError: for the first bad line, as `file:line: what and why`.
    """
    try:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    return [_record(raw, f"{path}:{i}", i) for i, raw in enumerate(lines, start=1) if raw.strip()]


def _record(raw: bytes, at: str, line: int) -> Entry | Step | Label:
    try:
        record = json.loads(
            raw.decode("utf-8"),
            parse_constant=lambda word: _no_constant(at, word),
            object_pairs_hook=lambda pairs: _no_repeats(at, pairs),
        )
    except UnicodeDecodeError:
        raise TraceError(f"{at}: not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise TraceError(f"{at}: not valid JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise TraceError(f"{at}: not valid JSON: nested too deeply") from None
    if not isinstance(record, dict):
        raise TraceError(f"{at}: expected a JSON object, got {type(record).__name__}")
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise TraceError(f"{at}: " + unknown("kind", str(kind), _FIELDS))
    for name in record:
        if name not in _FIELDS[kind]:
            raise TraceError(f"{at}: " + unknown(f"field of kind {kind}", name, _FIELDS[kind]))
    if kind == "trace":
        return Label(_text(record, "name", at, required=True) or "")
    if kind == "step":
        return _step(record, at, line)
    return _entry(record, kind, at, line)


def _entry(record: dict[str, Any], kind: str, at: str, line: int) -> Entry:
    id = _text(record, "id", at, required=True) or ""
    embedding = _embedding(record["embedding"], at) if "embedding" in record else None
    text = _text(record, "text", at, empty=True)
    if embedding is None and text is None:
        raise TraceError(f"{at}: kind {kind} needs a text or an embedding")
    relevant, graded = _relevant(record.get("relevant", []), at)
    return Entry(
        at=at,
        line=line,
        kind=kind,
        id=id,
        text=text,
        embedding=embedding,
        time=_time(record, at),
        mode=_mode(record, at),
        relevant=relevant,
        graded=graded,
        category=_text(record, "category", at),
        answer=_text(record, "answer", at),
    )


def _step(record: dict[str, Any], at: str, line: int) -> Step:
    query, arrival = _text(record, "query", at), _text(record, "arrival", at)
    on_miss = _text(record, "arrival_on_miss", at)
    mode = _mode(record, at)
    mode = StepMode.SCORED if mode is None else mode
    if query is None and arrival is None:
        raise TraceError(f"{at}: a step needs a query, an arrival, or both")
    if on_miss is not None and (arrival is None or query is None):
        raise TraceError(f"{at}: arrival_on_miss needs a query and an arrival in the same step")
    if mode == StepMode.FROZEN and arrival is not None:
        raise TraceError(f"{at}: a frozen step carries a query only, no arrival")
    if mode <= StepMode.FILL and query is not None:
        raise TraceError(f"{at}: a {mode.name.lower()} step carries an arrival only, no query")
    return Step(at, line, query, arrival, on_miss, mode)


def _no_constant(at: str, word: str) -> NoReturn:
    raise TraceError(f"{at}: {word} is not a JSON number")


def _no_repeats(at: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if repeated := first_duplicate([name for name, _ in pairs]):
        raise TraceError(f"{at}: {repeated!r} is given twice in one object")
    return dict(pairs)


def _text(record: dict[str, Any], name: str, at: str, required: bool = False, empty: bool = False) -> str | None:
    value = record.get(name)
    if value is None and not required:
        return None
    if not isinstance(value, str) or (not value and not empty):
        raise TraceError(f"{at}: {name} must be a non-empty string, got {value!r:.60}")
    return value


def _embedding(value: Any, at: str) -> np.ndarray:
    if not isinstance(value, list) or not value or any(type(x) not in (int, float) for x in value):
        raise TraceError(f"{at}: embedding must be a non-empty list of numbers, got {value!r:.60}")
    # Compared as Python numbers: a huge integer would not even convert to float64.
    if any(not -_LARGEST <= x <= _LARGEST for x in value):
        raise TraceError(f"{at}: embedding holds a number too large for float32")
    row = np.array(value, np.float64)
    if not row.any():
        raise TraceError(f"{at}: embedding has zero norm, so it has no cosine")
    return row


def _time(record: dict[str, Any], at: str) -> float | None:
    value = record.get("time")
    if value is None:
        return None
    seconds: Any = parse_time(value) if isinstance(value, str) else value
    if type(seconds) not in (int, float) or not abs(seconds) < 1e15:
        raise TraceError(f"{at}: time must be seconds since the epoch or an ISO 8601 date, got {value!r:.60}")
    return float(seconds)


def _mode(record: dict[str, Any], at: str) -> StepMode | None:
    value = record.get("mode")
    if value is None:
        return None
    if not isinstance(value, str) or value not in MODES:
        raise TraceError(f"{at}: " + unknown("mode", str(value), MODES))
    return MODES[value]


def _relevant(value: Any, at: str) -> tuple[dict[str, float], bool]:
    if isinstance(value, list) and all(isinstance(id, str) for id in value):
        return {id: 1.0 for id in value}, False
    if isinstance(value, dict) and all(type(g) in (int, float) and 0 < g <= 1 for g in value.values()):
        return {id: float(grade) for id, grade in value.items()}, True
    raise TraceError(
        f"{at}: relevant must be a list of item ids or an object from id to a grade in (0, 1], got {value!r:.60}"
    )
