"""Finished pieces of a sweep on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from solarjax.core.chunks import ChunkStore, SweepError, write_atomically

CONFIG = {"engine": 1, "seeds": [0, 1], "capacities": (10, 20)}
LAYOUT = {"block_pairs": 4}


def store(folder: Path | None, **changed: object) -> ChunkStore:
    return ChunkStore(folder, CONFIG | changed, LAYOUT)


def arrays() -> dict[str, np.ndarray]:
    return {"hits": np.arange(6, dtype=np.int32).reshape(2, 3), "miss": np.float32([0.5, np.nan])}


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, with its content."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("on_disk", [True, False])
def test_what_is_saved_is_loaded(tmp_path: Path, on_disk: bool) -> None:
    chunks = store(tmp_path / "deep" / "er" if on_disk else None)
    assert chunks.load("a") is None
    chunks.save("a", arrays())
    for kept in (chunks, store(tmp_path / "deep" / "er")) if on_disk else (chunks,):
        loaded = kept.load("a")
        assert loaded is not None and set(loaded) == {"hits", "miss"}
        for name, value in arrays().items():
            assert loaded[name].dtype == value.dtype
            np.testing.assert_array_equal(loaded[name], value)
        assert kept.load("b") is None


def test_a_folder_keeps_the_layout_it_was_begun_with(tmp_path: Path) -> None:
    store(tmp_path)
    again = ChunkStore(tmp_path, CONFIG, {"block_pairs": 64})
    assert again.layout == LAYOUT
    assert ChunkStore(None, CONFIG, {"block_pairs": 64}).layout == {"block_pairs": 64}


@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage", "flipped", "other file"])
def test_a_damaged_chunk_counts_as_missing(tmp_path: Path, damage: str) -> None:
    chunks = store(tmp_path)
    chunks.save("a", arrays())
    path = tmp_path / "chunks" / "a.npz"
    whole = path.read_bytes()
    at = whole.index(arrays()["hits"].tobytes())
    broken = {
        "truncated": whole[: len(whole) // 2],
        "empty": b"",
        "garbage": b"not a chunk" * 100,
        "flipped": whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
        "other file": b"\x93NUMPY",
    }
    path.write_bytes(broken[damage])
    assert chunks.load("a") is None
    chunks.save("a", arrays())
    assert chunks.load("a") is not None


def test_another_sweep_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    store(tmp_path).save("a", arrays())
    before = snapshot(tmp_path)
    with pytest.raises(SweepError) as caught:
        store(tmp_path, seeds=[0, 1, 2], quality="hit")
    expected = f"{tmp_path} holds another sweep (different quality, seeds); choose another directory"
    assert str(caught.value) == expected
    assert snapshot(tmp_path) == before and len(before) == 2


def test_lists_and_tuples_are_the_same_configuration(tmp_path: Path) -> None:
    """What JSON cannot tell apart must not look like another sweep."""
    store(tmp_path)
    store(tmp_path, capacities=[10, 20])


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"config": {}}', "\x00"])
def test_a_foreign_header_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(SweepError, match="sweep.json is not a sweep's header; choose another directory"):
        store(tmp_path)
    assert (tmp_path / "sweep.json").read_text() == text


def test_chunks_without_a_header_are_refused(tmp_path: Path) -> None:
    (tmp_path / "chunks").mkdir()
    (tmp_path / "chunks" / "a.npz").write_bytes(b"x")
    with pytest.raises(SweepError, match="holds chunks without a sweep.json; choose another directory"):
        store(tmp_path)


def test_a_file_in_the_way_is_reported(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(SweepError, match=f"cannot write to {tmp_path}/taken/sweep: Not a directory"):
        store(tmp_path / "taken" / "sweep")
    with pytest.raises(SweepError, match=f"cannot write to {tmp_path}/taken: Not a directory"):
        store(tmp_path / "taken")


@pytest.mark.parametrize("call", ["mkdir", "link"])
def test_an_unwritable_directory_is_reported(tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated, since permissions do not stop root: the folder cannot be made, or the header not be put there."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(*((Path, "mkdir", refuse) if call == "mkdir" else (os, "link", refuse)))
    with pytest.raises(SweepError) as caught:
        store(tmp_path)
    assert str(caught.value) == f"cannot write to {tmp_path}: Permission denied"
    monkeypatch.undo()
    assert not snapshot(tmp_path)


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_text("old")

    def half(file: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, half)
    assert snapshot(tmp_path) == {"a.npz": b"old"}


def test_the_header_says_what_is_computed(tmp_path: Path) -> None:
    store(tmp_path)
    held = json.loads((tmp_path / "sweep.json").read_text())
    assert held == {"config": CONFIG | {"capacities": [10, 20]}, "layout": LAYOUT}
