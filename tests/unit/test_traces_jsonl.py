"""Bring-your-own traces: the documented schema by hand, and an error with file and line for every bad
line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode, TraceError
from solarjax.traces import jsonl


def encode(texts: Sequence[str]) -> np.ndarray:
    return np.array([[len(text) + 1, text.count("a") + 1] for text in texts], np.float32)


def _write(path: Path, records: Sequence[Any]) -> Path:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def item(id: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "item", "id": id, **({} if "embedding" in fields else {"text": f"text {id}"}), **fields}


def query(id: str, **fields: Any) -> dict[str, Any]:
    return {**item(id, **fields), "kind": "query"}


def step(**fields: Any) -> dict[str, Any]:
    return {"kind": "step", **fields}


def test_file_order_is_the_stream(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "mine.jsonl",
        [
            {"kind": "trace", "name": "support"},
            item("a", time="1970-01-01T00:01:00Z", mode="prefill", text="Answer is forty two"),
            "",
            query("a", relevant=["b", "a"], category="billing", answer="the forty-three", mode="train"),
            item("b", time=90),
            query("z", category="art", relevant=[], mode="frozen"),
        ],
    )
    trace = jsonl.load(path, encode)
    assert trace.name == "support"
    assert list(trace.arrival) == [0, NO_ITEM, 1, NO_ITEM]
    assert list(trace.query) == [NO_QUERY, 0, NO_QUERY, 1]
    assert list(trace.mode) == [StepMode.PREFILL, StepMode.TRAIN, StepMode.SCORED, StepMode.FROZEN]
    assert list(trace.relevant_indptr) == [0, 2, 2] and list(trace.relevant_indices) == [0, 1]
    assert trace.relevant_grade is None and trace.arrival_on_miss is None and trace.query_time is None
    assert trace.category_names == ("art", "billing")
    assert trace.category is not None and list(trace.category) == [1, 0]
    assert trace.item_time is not None and list(trace.item_time) == [60.0, 90.0]
    assert trace.item_text == ("Answer is forty two", "text b")
    assert trace.answer_recall is not None and not trace.answer_recall.any()  # "fortythree" is one token
    expected = encode(["Answer is forty two", "text b"])
    np.testing.assert_allclose(trace.items, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-6)


def test_steps_embeddings_and_grades(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "mine.jsonl",
        [
            item("a", embedding=[3, 4]),
            item("b", embedding=[0, 1e-30]),
            item("c", embedding=[1e30, 0]),
            query("q", embedding=[0.5, 0], relevant={"b": 0.25, "a": 1}),
            query("r", embedding=[1, 1], relevant=["c"]),
            step(arrival="c", mode="fill"),
            step(query="q", arrival="a", arrival_on_miss="b"),
            step(query="q", mode="frozen"),
            step(arrival="b", mode="train"),
        ],
    )
    trace = jsonl.load(path)
    assert trace.name == "mine"
    np.testing.assert_allclose(trace.items, [[0.6, 0.8], [0, 1], [1, 0]], rtol=1e-6)
    assert list(trace.query) == [NO_QUERY, 0, 0, NO_QUERY]
    assert list(trace.arrival) == [2, 0, NO_ITEM, 1]
    assert trace.arrival_on_miss is not None and list(trace.arrival_on_miss) == [2, 1, NO_ITEM, 1]
    assert list(trace.mode) == [StepMode.FILL, StepMode.SCORED, StepMode.FROZEN, StepMode.TRAIN]
    assert list(trace.relevant_indices) == [0, 1, 2]
    assert trace.relevant_grade is not None and list(trace.relevant_grade) == [1.0, 0.25, 1.0]
    assert trace.item_text is None and trace.answer_recall is None and trace.category is None


def test_items_only_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(item("a", embedding=[1, 0])).encode() + b"\r\n")
    trace = jsonl.load(path)
    assert list(trace.arrival) == [0] and trace.queries.shape == (0, 2)


def test_answer_recall_from_texts(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.jsonl", [item("a", text="in Paris, France"), query("q", answer="The Paris metro")])
    trace = jsonl.load(path, encode)
    assert trace.answer_recall is not None and trace.answer_recall.tolist() == [[0.5]]


GOOD = [item("a"), query("q", relevant=["a"])]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"kind": "item"', r"not valid JSON: .* \(column 16\)"),
        ("[1]", r"expected a JSON object, got list"),
        ("[" * 100_000, r"not valid JSON"),
        ({"id": "b"}, r"unknown kind 'None'; known: trace, item, query, step"),
        ({"kind": "itme", "id": "b"}, r"unknown kind 'itme'; did you mean 'item'\?"),
        ({"kind": ["item"]}, r"unknown kind"),
        (item("b", txt="x"), r"unknown field of kind item 'txt'; did you mean 'text'\?"),
        (item("b", relevant=["a"]), r"unknown field of kind item 'relevant'"),
        ({"kind": "item", "text": "x"}, r"id must be a non-empty string, got None"),
        (item(""), r"id must be a non-empty string, got ''"),
        ({"kind": "item", "id": 7, "text": "x"}, r"id must be a non-empty string, got 7"),
        ({"kind": "item", "id": "b"}, r"kind item needs a text or an embedding"),
        (item("b", text=5), r"text must be a non-empty string, got 5"),
        (item("a"), r"item id 'a' occurs twice, first on line 1"),
        (query("q"), r"query id 'q' occurs twice, first on line 2"),
        (query("r", relevant=["a", "zz"]), r"relevant unknown item 'zz'; known: a"),
        (query("r", relevant="a"), r"relevant must be a list of item ids or an object"),
        (query("r", relevant={"a": 0}), r"to a grade in \(0, 1\], got \{'a': 0\}"),
        (query("r", relevant={"a": 1.5}), r"to a grade in \(0, 1\]"),
        (query("r", relevant={"a": True}), r"to a grade in \(0, 1\]"),
        (query("r", category=3), r"category must be a non-empty string, got 3"),
        (query("r", category="new"), r"mine.jsonl:2: category is missing but given on other lines"),
        (item("b", time="today"), r"time must be seconds since the epoch or an ISO 8601 date, got 'today'"),
        (item("b", time=True), r"time must be seconds since the epoch"),
        (item("b", time=5), r"mine.jsonl:1: time is missing but given on other lines"),
        (item("b", mode="scroed"), r"unknown mode 'scroed'; did you mean 'scored'\?"),
        (item("b", mode="frozen"), r"an item cannot arrive frozen"),
        (query("r", mode="prefill"), r"a query cannot be in mode prefill"),
        (item("b", embedding=[]), r"embedding must be a non-empty list of numbers, got \[\]"),
        (item("b", embedding=[1, "x"]), r"embedding must be a non-empty list of numbers"),
        (item("b", embedding=[1, True]), r"embedding must be a non-empty list of numbers"),
        (item("b", embedding=[0, 0]), r"embedding has zero norm"),
        (item("b", embedding=[1e39, 0]), r"embedding holds a number too large for float32"),
        (item("b", embedding=[10**400, 0]), r"embedding holds a number too large for float32"),
        ('{"kind": "item", "id": "b", "embedding": [NaN]}', r"NaN is not a JSON number"),
        ('{"kind": "item", "id": "b", "time": Infinity, "text": ""}', r"Infinity is not a JSON number"),
        (item("b", text="x", embedding=[1.0]), r"mine.jsonl:1: no embedding, but line 3 has one"),
        ('{"kind": "item", "id": "b", "id": "c", "text": "x"}', r"'id' is given twice in one object"),
        (step(), r"a step needs a query, an arrival, or both"),
        (step(query="zz"), r"query 'zz' is no query of this file"),
        (step(arrival="q"), r"arrival 'q' is no item of this file"),
        (step(query="q", arrival="a", arrival_on_miss="zz"), r"arrival_on_miss 'zz' is no item of this file"),
        (step(query="q", arrival_on_miss="a"), r"arrival_on_miss needs a query and an arrival"),
        (step(query="q", arrival="a", mode="frozen"), r"a frozen step carries a query only"),
        (step(query="q", mode="prefill"), r"a prefill step carries an arrival only"),
        (
            {"kind": "trace", "name": "late"},
            r"mine.jsonl: a line of kind 'trace' may stand once, as the first",
        ),
        ({"kind": "trace"}, r"name must be a non-empty string"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: Any, message: str) -> None:
    path = _write(tmp_path / "mine.jsonl", [*GOOD, line])
    with pytest.raises(TraceError, match=message) as error:
        jsonl.load(path, encode)
    text = str(error.value)
    assert text.startswith(f"{path}:3: ") or "mine.jsonl:" in message or "mine.jsonl: " in text
    assert "\n" not in text and len(text) < len(str(path)) + 250
    assert jsonl.load(_write(tmp_path / "good.jsonl", GOOD), encode).num_steps == 2


def test_mode_belongs_on_steps_if_there_are_any(tmp_path: Path) -> None:
    path = _write(tmp_path / "mine.jsonl", [item("a", mode="train"), step(arrival="a")])
    with pytest.raises(TraceError, match=r"mine.jsonl:1: with step lines, mode belongs on the step"):
        jsonl.load(path, encode)


def test_texts_for_some_or_answers_without_texts(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.jsonl", [item("a", embedding=[1], text="x"), item("b", embedding=[1])])
    with pytest.raises(TraceError, match=r"m.jsonl:2: text is missing but given on other lines; give every item"):
        jsonl.load(path)
    path = _write(tmp_path / "m.jsonl", [item("a", embedding=[1]), query("q", embedding=[1], answer="x")])
    with pytest.raises(TraceError, match=r"m.jsonl:2: an answer is compared with the items' texts"):
        jsonl.load(path)


def test_mixed_dimensions_name_both_lines(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.jsonl", [item("a", embedding=[1, 0]), query("q", embedding=[1, 0, 0])])
    with pytest.raises(TraceError, match=r"m.jsonl:2: embedding has 3 dimensions, line 1 has 2"):
        jsonl.load(path)


def test_file_level_errors(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"absent.jsonl: cannot be read: No such file"):
        jsonl.load(tmp_path / "absent.jsonl")
    with pytest.raises(TraceError, match=r"empty.jsonl: the trace has no item"):
        jsonl.load(_write(tmp_path / "empty.jsonl", []))
    with pytest.raises(TraceError, match=r"t.jsonl: the records carry no embeddings, so an encoder is needed"):
        jsonl.load(_write(tmp_path / "t.jsonl", GOOD))
    with pytest.raises(TraceError, match=r"t.jsonl: encode gave shape \(1, 2\) for 2 texts"):
        jsonl.load(tmp_path / "t.jsonl", lambda texts: encode(texts)[:1])
    with pytest.raises(TraceError, match=r"t.jsonl: .*holds NaN"):
        jsonl.load(tmp_path / "t.jsonl", lambda texts: encode(texts) * np.nan)
    (tmp_path / "latin.jsonl").write_bytes(b'{"kind": "item"}\n{"kind": "\xe9"}\n')
    with pytest.raises(TraceError, match=r"latin.jsonl:1: id must be"):
        jsonl.load(tmp_path / "latin.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'\n{"kind": "\xe9"}\n')
    with pytest.raises(TraceError, match=r"latin.jsonl:2: not UTF-8 text"):
        jsonl.load(tmp_path / "latin.jsonl")
