"""The registry of public data sets: the copies at hand are the published ones; downloads are all or
nothing."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from solarjax.core.trace import TraceError
from solarjax.traces import checksums, datasets
from solarjax.traces import format as trace_format


@pytest.mark.parametrize("name", list(datasets.DATASETS))
def test_shared_copy_is_the_published_one(shared_data: Path, name: str) -> None:
    dataset = datasets.DATASETS[name]
    paths = datasets.verify(name, shared_data)
    assert [str(path.relative_to(shared_data)) for path in paths] == list(dataset.files)
    assert sorted(paths) == sorted((shared_data / dataset.folder).iterdir())  # no file is left out
    assert sum(path.stat().st_size for path in paths) == dataset.size
    assert dataset.description and dataset.licence and dataset.source.startswith("https://")


def test_conversations_of_every_data_set(shared_data: Path) -> None:
    turns = {
        name: sum(len(conversation.turns) for conversation in datasets.conversations(name, shared_data))
        for name in ("locomo", "friendsqa", "dialsim")
    }
    assert turns == {"locomo": 5882, "friendsqa": 5183, "dialsim": 19145 + 18664 + 19160}
    with pytest.raises(TraceError, match="solar-synthetic holds traces, not conversations"):
        datasets.conversations("solar-synthetic", shared_data)
    for path in datasets.find("solar-synthetic", shared_data):
        if path.suffix == ".npz":
            assert trace_format.load(path).num_steps > 0


def test_data_folder_is_found(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(shared_data))
    assert datasets.find("locomo") == (shared_data / "locomo" / "locomo10.json",)
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(TraceError, match=r"no data folder at .*absent; give one as an argument or set SOLARJAX_DATA"):
        datasets.find("locomo")
    with pytest.raises(TraceError, match=r"friendsqa: 2 of 2 files missing, first .*Get it from https://"):
        datasets.find("friendsqa", tmp_path)
    with pytest.raises(TraceError, match=r"unknown data set 'lokomo'; did you mean 'locomo'\? known: locomo, "):
        datasets.find("lokomo", shared_data)
    monkeypatch.delenv(datasets.DATA_VARIABLE)
    monkeypatch.setattr(datasets, "__file__", str(tmp_path / "checkout" / "solarjax" / "traces" / "datasets.py"))
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert datasets.data_dir() == tmp_path / "shared" / "data"


def test_verify_names_the_changed_file(shared_data: Path, tmp_path: Path) -> None:
    shutil.copytree(shared_data / "friendsqa", tmp_path / "friendsqa", copy_function=shutil.copyfile)
    path = tmp_path / "friendsqa" / "friendsqa_tst.json"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(TraceError, match=r"friendsqa: 1 of 2 files differ: .*friendsqa_tst.json has SHA-256"):
        datasets.verify("friendsqa", tmp_path)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set `tiny` of two small files, served from a folder."""
    served = tmp_path / "served"
    served.mkdir()
    sums = {}
    for name, content in (("one.txt", b"1" * 3_000_000), ("two.txt", b"two")):
        (served / name).write_bytes(content)
        sums[f"tiny/{name}"] = (len(content), hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(datasets, "CHECKSUMS", sums)
    entry = datasets.Dataset("tiny", "two files", "none", "https://example.org", f"{served.as_uri()}/", None)
    monkeypatch.setattr(datasets, "DATASETS", {"tiny": entry})
    return served


def test_download(tiny: Path, tmp_path: Path) -> None:
    paths = datasets.download("tiny", tmp_path / "data")
    assert [path.read_bytes() for path in paths] == [b"1" * 3_000_000, b"two"]
    (tiny / "one.txt").unlink()  # files that are right are not fetched again, wrong ones are
    paths[1].write_bytes(b"broken")
    assert datasets.download("tiny", tmp_path / "data")[1].read_bytes() == b"two"


@pytest.mark.parametrize("content", [b"1" * 2_999_999, b"1" * 5_000_000, b""])
def test_download_of_a_changed_file_keeps_nothing(tiny: Path, tmp_path: Path, content: bytes) -> None:
    (tiny / "one.txt").write_bytes(content)
    with pytest.raises(TraceError, match=r"one.txt is not the published file: .* Nothing was kept. Get it from"):
        datasets.download("tiny", tmp_path / "data")
    assert list((tmp_path / "data" / "tiny").iterdir()) == []


def test_download_without_network(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    entry = datasets.Dataset("tiny", "two files", "none", "https://example.org", "http://127.0.0.1:9/", None)
    monkeypatch.setattr(datasets, "DATASETS", {"tiny": entry})
    with pytest.raises(TraceError, match=r"cannot download http://127.0.0.1:9/one.txt .*refused.*Get it from"):
        datasets.download("tiny", tmp_path / "data")
    entry = datasets.Dataset("tiny", "two files", "none", "https://example.org", None, None)
    monkeypatch.setattr(datasets, "DATASETS", {"tiny": entry})
    with pytest.raises(TraceError, match=r"tiny has no direct download. Get it from https://example.org"):
        datasets.download("tiny", tmp_path / "data")


def test_pinned_sources_name_a_revision() -> None:
    """A branch would move under the checksums."""
    for dataset in datasets.DATASETS.values():
        if dataset.url is not None:
            revision = dataset.url.split("/")[5]
            assert len(revision) == 40 and set(revision) <= set("0123456789abcdef")
    assert all(len(digest) == 64 and size > 0 for size, digest in checksums.CHECKSUMS.values())
