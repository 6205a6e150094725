"""The trace file format: exact round trips, the SOLAR authors' arrays, and one clear error per kind of
damage."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode, Trace, TraceError
from solarjax.traces import format as trace_format


def make_trace(**changes: Any) -> Trace:
    rng = np.random.default_rng(5)
    fields: dict[str, Any] = {
        "name": "täst",
        "items": rng.standard_normal((4, 3)),
        "queries": rng.standard_normal((2, 3)),
        "query": [NO_QUERY, NO_QUERY, 0, 1, 0],
        "arrival": [3, 2, NO_ITEM, 1, NO_ITEM],
        "mode": [StepMode.PREFILL, StepMode.FILL, StepMode.TRAIN, StepMode.SCORED, StepMode.FROZEN],
        "relevant_indptr": [0, 2, 3],
        "relevant_indices": [0, 1, 3],
    }
    return Trace(**{**fields, **changes})


FULL: dict[str, Any] = {
    "relevant_grade": [0.5, 1.0, 0.25],
    "arrival_on_miss": [3, 2, NO_ITEM, 0, NO_ITEM],
    "answer_recall": np.linspace(0, 1, 8).reshape(2, 4),
    "category": [1, 0],
    "category_names": ("a", "b"),
    "item_text": ("", "line\nbreak", "日本", "\ud800 lone surrogate"),
    "query_text": ("q", "\0"),
    "item_time": [0.0, -1.5, 1e12, 1683554160.123456],
    "query_time": [1.0, 2.0],
    "meta": {"source": "x", "counts": {"dropped": 3}, "list": [1, None, True, "é"]},
}


def assert_same(left: Trace, right: Trace) -> None:
    for name in Trace.__dataclass_fields__:
        a, b = getattr(left, name), getattr(right, name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.shape == b.shape, name
            assert a.tobytes() == b.tobytes(), name
        elif isinstance(a, list):
            assert list(a) == list(b), name
        else:
            assert a == b, name


@pytest.mark.parametrize("changes", [{}, FULL], ids=["minimal", "full"])
def test_round_trip_is_exact(tmp_path: Path, changes: dict[str, Any]) -> None:
    trace = make_trace(**{k: np.asarray(v) if k.endswith("_time") else v for k, v in changes.items()})
    trace_format.save(trace, tmp_path / "t.npz")
    loaded = trace_format.load(tmp_path / "t.npz")
    assert_same(trace, loaded)
    trace_format.save(loaded, tmp_path / "again.npz")
    assert (tmp_path / "t.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.npz", "t.npz"]


def test_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.npz"
    trace_format.save(make_trace(), path)
    before = path.read_bytes()
    with pytest.raises(TraceError, match=r"t.npz: meta of trace 'täst' cannot be stored as JSON"):
        trace_format.save(make_trace(meta={"bad": object()}), path)
    with pytest.raises(TraceError, match=r"t.npz: meta .* cannot be stored as JSON"):
        trace_format.save(make_trace(meta={"bad": float("nan")}), path)

    def full_disk(*args: Any, **kwargs: Any) -> None:
        args[0].write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(TraceError, match=r"t.npz: cannot be written: No space left"):
        trace_format.save(make_trace(), path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["t.npz"]
    with pytest.raises(TraceError, match="cannot be written: No such file or directory"):
        trace_format.save(make_trace(), tmp_path / "absent" / "t.npz")


def _parts(tmp_path: Path, full: bool = False) -> dict[str, np.ndarray]:
    trace_format.save(make_trace(**(FULL if full else {})), tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as file:
        return dict(file)


def _header(parts: dict[str, np.ndarray], changes: dict[str, Any]) -> np.ndarray:
    header = {**json.loads(parts["header"].tobytes()), **changes}
    return np.frombuffer(json.dumps(header).encode(), np.uint8)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("item_time", None, "field 'item_time' is missing"),
        ("items", None, "field 'items' is missing"),
        ("items", lambda a: a.astype(np.int32), "field 'items' has dtype int32; expected floating numbers"),
        ("items", lambda a: a[0], r"field 'items' has shape \(3,\); expected 2 axes"),
        ("items", lambda a: a[:, :2], "queries have 3 dimensions, items have 2"),
        ("items", lambda a: a * np.nan, "items row 0 holds NaN or infinity"),
        ("items", lambda a: a * [[1], [0], [1], [1]], "items row 1 has zero norm"),
        (
            "query",
            lambda a: a.astype(np.float32),
            "field 'query' has dtype float32; expected integer numbers",
        ),
        ("arrival", lambda a: a + 1, r"arrival\[0\] = 4 is out of range"),
        ("arrival", lambda a: a[:-1], "need one entry per step"),
        ("mode", lambda a: a + 3, "mode must hold StepMode values 0..4"),
        ("relevant_indptr", lambda a: a[:-1], "relevant_indptr must be 3 non-decreasing"),
        ("relevant_grade", lambda a: a * 3, r"relevant_grade must hold one number in \(0, 1\]"),
        ("answer_recall", lambda a: a[:1], r"answer_recall must be \[queries, items\]"),
        ("category", lambda a: a + 1, r"category\[0\] = 2 is out of range"),
        ("item_time", lambda a: a[:2], "item_time has 2 entries, expected 4"),
        ("extra", lambda a: np.zeros(2), "unknown field 'extra'"),
        ("header", lambda a: a[:-5], "field 'header' is not JSON"),
        ("header", lambda a: a.astype(np.int64), "field 'header' must be bytes"),
    ],
)
def test_damaged_fields(tmp_path: Path, name: str, damage: Any, message: str) -> None:
    arrays = _parts(tmp_path, full=True)
    value = arrays.pop(name, None)
    if damage is not None:
        arrays[name] = damage(value)
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match=message) as error:
        trace_format.load(tmp_path / "bad.npz")
    assert str(error.value).startswith(f"{tmp_path / 'bad.npz'}: ") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "format version 2 is not supported; this program reads 1"),
        ({"format": "other"}, "does not announce format 'solarjax-trace'"),
        ({"arrays": ["items"]}, "field 'answer_recall' is not among those the header announces"),
        ({"arrays": ["more"]}, "unknown field 'more'"),
        ({"name": 3}, "header entry 'name' is missing or malformed"),
        ({"item_text": ["a", 1, "c", "d"]}, "header entry 'item_text' is missing or malformed"),
        ({"item_text": ["a"]}, "item_text has 1 entries, expected 4"),
        ({"meta": []}, "header entry 'meta' is missing or malformed"),
    ],
)
def test_damaged_header(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    arrays = _parts(tmp_path, full=True)
    arrays["header"] = _header(arrays, changes)
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match=message):
        trace_format.load(tmp_path / "bad.npz")


def test_unreadable_files(tmp_path: Path) -> None:
    _parts(tmp_path, full=True)
    whole = (tmp_path / "good.npz").read_bytes()
    bad = tmp_path / "bad.npz"
    # Cut anywhere, every file is refused with the same clear error.
    for size in (0, 1, 10, 200, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        bad.write_bytes(whole[:size])
        with pytest.raises(TraceError, match=r"bad.npz: not a readable npz file, perhaps truncated"):
            trace_format.load(bad)
    with pytest.raises(TraceError, match=r"absent.npz: no such file"):
        trace_format.load(tmp_path / "absent.npz")
    with pytest.raises(TraceError, match="not a readable npz file"):
        trace_format.load(tmp_path)
    np.savez(bad, items=np.array([{}], dtype=object))
    with pytest.raises(TraceError, match="not a readable npz file"):
        trace_format.load(bad)
    np.savez(bad, other=np.zeros(1))
    with pytest.raises(TraceError, match=r"neither 'header' nor 'item_embeddings' among its fields \['other'\]"):
        trace_format.load(bad)
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    bad.write_bytes(buffer.getvalue())
    with pytest.raises(TraceError, match="a single array, not a trace file"):
        trace_format.load(bad)


def test_flipped_bytes_never_change_a_trace(tmp_path: Path) -> None:
    """Wherever one byte flips, the file is refused or, if the byte carries nothing, read as it was."""
    _parts(tmp_path, full=True)
    good = trace_format.load(tmp_path / "good.npz")
    whole = (tmp_path / "good.npz").read_bytes()
    bad = tmp_path / "bad.npz"
    refused = 0
    places = range(0, len(whole), 5)
    for at in places:
        bad.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            assert_same(trace_format.load(bad), good)
        except TraceError as error:
            assert str(error).startswith(f"{bad}: ")
            refused += 1
    assert refused > len(places) // 2


def test_prefill_override(tmp_path: Path) -> None:
    trace_format.save(make_trace(arrival_on_miss=FULL["arrival_on_miss"]), tmp_path / "t.npz")
    np.save(tmp_path / "p.npy", np.array([0, 0, 3], np.int16))
    loaded = trace_format.load(tmp_path / "t.npz", prefill=tmp_path / "p.npy")
    # The file's own PREFILL and FILL steps go, the three new ones come first.
    assert list(loaded.arrival) == [0, 0, 3, NO_ITEM, 1, NO_ITEM]
    assert list(loaded.query) == [NO_QUERY] * 3 + [0, 1, 0]
    assert list(loaded.mode) == [StepMode.PREFILL] * 3 + [StepMode.TRAIN, StepMode.SCORED, StepMode.FROZEN]
    assert loaded.arrival_on_miss is not None
    assert list(loaded.arrival_on_miss) == [0, 0, 3, NO_ITEM, 0, NO_ITEM]
    empty = trace_format.load(tmp_path / "t.npz", prefill=np.zeros(0, np.int16))
    assert list(empty.mode) == [StepMode.TRAIN, StepMode.SCORED, StepMode.FROZEN]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array([0, 4]), r"prefill\[1\] = 4 is out of range; items are 0..3"),
        (np.array([-1]), r"prefill\[0\] = -1 is out of range"),
        (np.array([0.0]), r"prefill must be a list of integers, got float64"),
        (np.array([[0]]), r"prefill must be a list of integers, got int64 \(1, 1\)"),
    ],
)
def test_prefill_errors(tmp_path: Path, ids: np.ndarray, message: str) -> None:
    trace_format.save(make_trace(), tmp_path / "t.npz")
    np.save(tmp_path / "p.npy", ids)
    with pytest.raises(TraceError, match=r"t.npz: " + message):
        trace_format.load(tmp_path / "t.npz", prefill=tmp_path / "p.npy")


def test_prefill_file_errors(tmp_path: Path) -> None:
    trace_format.save(make_trace(), tmp_path / "t.npz")
    with pytest.raises(TraceError, match=r"prefill file .*p.npy cannot be read as one array"):
        trace_format.load(tmp_path / "t.npz", prefill=tmp_path / "p.npy")
    (tmp_path / "p.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(TraceError, match=r"prefill file .*p.npy cannot be read as one array"):
        trace_format.load(tmp_path / "t.npz", prefill=tmp_path / "p.npy")
    with pytest.raises(TraceError, match="holds several arrays"):
        trace_format.load(tmp_path / "t.npz", prefill=tmp_path / "t.npz")


def test_solar_arrays(shared_data: Path) -> None:
    folder = shared_data / "solar_synthetic"
    with np.load(folder / "retrieval_noise_stream-seed42.npz") as file:
        raw = dict(file)
    trace = trace_format.load(folder / "retrieval_noise_stream-seed42.npz")
    assert (trace.name, trace.num_steps) == ("retrieval_noise_stream-seed42", 6000)
    assert list(trace.mode) == [StepMode.TRAIN] * 5000 + [StepMode.SCORED] * 1000
    np.testing.assert_array_equal(trace.arrival, raw["arrival"])
    np.testing.assert_array_equal(trace.query, np.arange(6000))
    np.testing.assert_array_equal(trace.relevant_indices, raw["relevant_indices"])
    np.testing.assert_allclose(trace.items, raw["item_embeddings"], atol=1e-6)

    static = folder / "retrieval_noise_static-seed42.npz"
    own = trace_format.load(static)
    with np.load(static) as file:
        np.testing.assert_array_equal(own.arrival[:1000], file["prefill"])
    assert list(own.mode) == [StepMode.PREFILL] * 1000 + [StepMode.SCORED] * 1000
    pool_file = folder / "retrieval_noise_static-K20-seed42-prefill.npy"
    pool = np.load(pool_file)
    assert pool.dtype == np.int16
    other = trace_format.load(static, prefill=pool_file)
    assert list(other.mode) == [StepMode.PREFILL] * 20 + [StepMode.SCORED] * 1000
    np.testing.assert_array_equal(other.arrival, np.r_[pool, np.full(1000, NO_ITEM)])
    assert np.all(other.query[:20] == NO_QUERY)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("arrival", None, "field 'arrival' is missing"),
        ("arrival", np.zeros(3, np.int32), "field 'arrival' has 3 entries, expected 100"),
        ("arrival", np.full(100, 50, np.int32), r"arrival\[0\] = 50 is out of range"),
        ("item_topic", np.zeros(3, np.int32), "field 'item_topic' has 3 entries, expected 50"),
        ("query_topic", np.zeros(100, np.float32), "field 'query_topic' has dtype float32"),
        ("warmup_steps", np.array(101), "warmup_steps = 101 is out of range; allowed are 0..100"),
        ("warmup_steps", np.array(-1), "warmup_steps = -1 is out of range"),
        ("warmup_steps", np.array([1]), r"field 'warmup_steps' has shape \(1,\); expected 0 axes"),
        ("prefill", np.array([50]), r"prefill\[0\] = 50 is out of range; items are 0..49"),
        ("item_embeddings", np.ones((50, 128), np.int32), "field 'item_embeddings' has dtype int32"),
        ("item_embeddings", np.ones((50, 64), np.float32), "queries have 128 dimensions, items have 64"),
        ("query_embeddings", np.full((100, 128), np.inf), "queries row 0 holds NaN or infinity"),
        ("relevant_indices", np.full(500, 50, np.int32), r"relevant_indices\[0\] = 50 is out of range"),
    ],
)
def test_solar_array_errors(
    shared_data: Path, tmp_path: Path, name: str, value: np.ndarray | None, message: str
) -> None:
    with np.load(shared_data / "solar_synthetic" / "cycling-m10-seed42.npz") as file:
        arrays = dict(file)
    del arrays[name]
    if value is not None:
        arrays[name] = value
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match=r"bad.npz: .*" + message):
        trace_format.load(tmp_path / "bad.npz")
