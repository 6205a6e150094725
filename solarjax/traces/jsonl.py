"""Bring your own trace: one JSON object per line (JSON Lines), read into a `Trace`.

```
{"kind": "trace", "name": "support-bot"}                        optional; without it the file's name
{"kind": "item",  "id": "a1", "text": "...", "time": "2024-05-01T10:00:00Z"}
{"kind": "query", "id": "q1", "text": "...", "relevant": ["a1"], "category": "billing", "answer": "42"}
```

item   id; text and/or embedding (list of numbers); time (seconds since the epoch or ISO 8601); mode.
query  the same, and: relevant (list of item ids, or object from item id to a grade in (0, 1]), category
       (text), answer (gold answer, for token recall).
step   query and/or arrival (ids), arrival_on_miss (id: arrives instead when this step's query missed), mode.

Order. Without `step` lines the file is the stream: an item arrives and a query is asked where its line
stands. With `step` lines only they make the stream, and `mode` stands on them. Modes are prefill, fill,
train, scored (the default) and frozen, as in `StepMode`.
Embeddings. Either every item and query carries one, all of one length, or none does and `encode` embeds the
texts. Ids are per kind: an item and a query may share one. Relevant ids may be of items further down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode, Trace, TraceError
from solarjax.traces.answers import recall_table
from solarjax.traces.conversation import Question
from solarjax.traces.jsonl_records import Entry, Label, Step, parse
from solarjax.traces.parameters import unknown
from solarjax.traces.schedule import Schedule


def load(path: str | Path, encode: Callable[[Sequence[str]], np.ndarray] | None = None) -> Trace:
    """Reads a bring-your-own trace.

    Texts, times and categories are optional, but for all items, or all queries, alike: where only some have
    one, the first without is an error, so that nothing is dropped unseen. With answers on any query the trace
    carries their token recall (0 for queries without answer), so every item needs a text.

    Args:
      path: the file.
      encode: texts to embeddings `[n, D] f32`; needed if the records carry none.

    Returns:
      The trace, validated.

    Raises:
      TraceError: as `file:line: what and why` for a bad line, an unknown or repeated id, embeddings of
        several lengths, or a field that only some records have; as `file: ...` for what no single line is to
        blame for.
    """
    path = Path(path)
    records = parse(path)
    labels = [record for record in records if isinstance(record, Label)]
    if len(labels) > 1 or (labels and records[0] is not labels[0]):
        raise TraceError(f"{path}: a line of kind 'trace' may stand once, as the first")
    entries = [record for record in records if isinstance(record, Entry)]
    items = _by_id([entry for entry in entries if entry.kind == "item"])
    queries = _by_id([entry for entry in entries if entry.kind == "query"])
    if not items:
        raise TraceError(f"{path}: the trace has no item")
    indptr, indices, grades = _relevance(queries, items)
    categories = _shared(queries, "category") or []
    names = sorted({str(name) for name in categories})
    item_text, query_text = _texts(items), _texts(queries)
    recall = None
    if answered := [query for query in queries.values() if query.answer]:
        if item_text is None:
            raise TraceError(f"{answered[0].at}: an answer is compared with the items' texts, which have none")
        recall = recall_table([_as_question(query) for query in queries.values()], item_text)
    item_rows, query_rows = _embeddings(path, items, queries, encode)
    try:
        return Trace(
            name=labels[0].name if labels else path.stem,
            items=item_rows,
            queries=query_rows,
            **_stream(records, items, queries)._asdict(),
            relevant_indptr=indptr,
            relevant_indices=indices,
            relevant_grade=grades,
            answer_recall=recall,
            category=np.array([names.index(str(c)) for c in categories], np.int32) if categories else None,
            category_names=tuple(names),
            item_text=item_text,
            query_text=query_text,
            item_time=_times(items),
            query_time=_times(queries),
            meta={"source": path.name},
        )
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def _by_id(entries: list[Entry]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for entry in entries:
        if entry.id in found:
            raise TraceError(
                f"{entry.at}: {entry.kind} id {entry.id!r} occurs twice, first on line {found[entry.id].line}"
            )
        found[entry.id] = entry
    return found


def _stream(records: list[Entry | Step | Label], items: dict[str, Entry], queries: dict[str, Entry]) -> Schedule:
    entries = [record for record in records if isinstance(record, Entry)]
    steps = [record for record in records if isinstance(record, Step)]
    if steps:
        if moded := [entry for entry in entries if entry.mode is not None]:
            raise TraceError(f"{moded[0].at}: with step lines, mode belongs on the step, not on the {moded[0].kind}")
    else:
        steps = [_own_step(entry) for entry in entries]
    item_index = {id: i for i, id in enumerate(items)}
    query_index = {id: i for i, id in enumerate(queries)}

    def index(step: Step, what: str, id: str | None, known: dict[str, int], none: int) -> int:
        if id is None:
            return none
        if id not in known:
            raise TraceError(
                f"{step.at}: {what} {id!r} is no {'query' if known is query_index else 'item'} of this file"
            )
        return known[id]

    query = [index(step, "query", step.query, query_index, NO_QUERY) for step in steps]
    arrival = [index(step, "arrival", step.arrival, item_index, NO_ITEM) for step in steps]
    on_miss = [
        index(step, "arrival_on_miss", step.arrival_on_miss or step.arrival, item_index, NO_ITEM) for step in steps
    ]
    differs = any(step.arrival_on_miss is not None for step in steps)
    return Schedule(
        query=np.array(query, np.int32),
        arrival=np.array(arrival, np.int32),
        mode=np.array([step.mode for step in steps], np.uint8),
        arrival_on_miss=np.array(on_miss, np.int32) if differs else None,
    )


def _own_step(entry: Entry) -> Step:
    """The step an item or query makes where its line stands."""
    mode = StepMode.SCORED if entry.mode is None else entry.mode
    item = entry.kind == "item"
    if item and mode == StepMode.FROZEN:
        raise TraceError(f"{entry.at}: an item cannot arrive frozen; nothing arrives in a frozen step")
    if not item and mode <= StepMode.FILL:
        raise TraceError(f"{entry.at}: a query cannot be in mode {mode.name.lower()}; only items are pushed in")
    return Step(entry.at, entry.line, None if item else entry.id, entry.id if item else None, None, mode)


def _relevance(queries: dict[str, Entry], items: dict[str, Entry]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    index = {id: i for i, id in enumerate(items)}
    counts, indices, grades = [0], [], []
    for query in queries.values():
        for id in query.relevant:
            if id not in index:
                raise TraceError(f"{query.at}: relevant " + unknown("item", id, list(items)[:20]))
        pairs = sorted((index[id], grade) for id, grade in query.relevant.items())
        counts.append(len(pairs))
        indices += [i for i, _ in pairs]
        grades += [grade for _, grade in pairs]
    graded = any(query.graded for query in queries.values())
    return (
        np.cumsum(counts),
        np.array(indices, np.int32),
        np.array(grades, np.float32) if graded else None,
    )


def _embeddings(
    path: Path,
    items: dict[str, Entry],
    queries: dict[str, Entry],
    encode: Callable[[Sequence[str]], np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray]:
    entries = [*items.values(), *queries.values()]
    given = [entry for entry in entries if entry.embedding is not None]
    if not given:
        if encode is None:
            raise TraceError(f"{path}: the records carry no embeddings, so an encoder is needed")
        texts = [entry.text or "" for entry in entries]
        rows = np.asarray(encode(texts))
        if rows.ndim != 2 or len(rows) != len(texts):
            raise TraceError(f"{path}: encode gave shape {rows.shape} for {len(texts)} texts")
        return rows[: len(items)], rows[len(items) :]
    first = given[0]
    size = len(_vector(first))
    for entry in entries:
        if entry.embedding is None:
            raise TraceError(f"{entry.at}: no embedding, but line {first.line} has one; give all records one or none")
        if len(entry.embedding) != size:
            raise TraceError(
                f"{entry.at}: embedding has {len(entry.embedding)} dimensions, line {first.line} has {size}"
            )
    # Normalised here in float64, so that a tiny but non-zero row keeps its direction in float32.
    matrix = np.array([_vector(entry) / np.linalg.norm(_vector(entry)) for entry in entries])
    return matrix[: len(items)], matrix[len(items) :].reshape(-1, size)


def _vector(entry: Entry) -> np.ndarray:
    assert entry.embedding is not None
    return entry.embedding


def _texts(entries: dict[str, Entry]) -> tuple[str, ...] | None:
    texts = _shared(entries, "text")
    return None if texts is None else tuple(str(text) for text in texts)


def _times(entries: dict[str, Entry]) -> np.ndarray | None:
    times = _shared(entries, "time")
    return None if times is None else np.array(times, np.float64)


def _shared(entries: dict[str, Entry], name: str) -> list[object] | None:
    """The values of a field that all records have, None if none has it; some is an error."""
    values = [getattr(entry, name) for entry in entries.values()]
    if all(value is None for value in values):
        return None
    for entry, value in zip(entries.values(), values, strict=True):
        if value is None:
            raise TraceError(
                f"{entry.at}: {name} is missing but given on other lines; give every {entry.kind} one or none"
            )
    return values


def _as_question(query: Entry) -> Question:
    return Question(query.id, query.text or "", (query.answer or "",), 0, ())
