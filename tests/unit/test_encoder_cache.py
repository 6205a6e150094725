"""The cache of embeddings: exact, never poisoned by damage, safe between processes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from solarjax.encoders.cache import EmbeddingCache, default_folder, text_key


def vectors(*keys: str, scale: float = 1.0) -> dict[str, np.ndarray]:
    return {key: np.arange(4, dtype=np.float32) * scale + len(key) for key in keys}


def test_stores_and_returns_exact_vectors(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "new" / "folder")
    assert cache.get("m", ["a"]) == {}
    rng = np.random.default_rng(0)
    stored = {f"k{i}": rng.standard_normal(7).astype(np.float32) for i in range(1200)}  # more than one query holds
    cache.put("m", stored)
    found = EmbeddingCache(tmp_path / "new" / "folder").get("m", [*stored, "other"])
    assert found.keys() == stored.keys()
    assert all(found[key].tobytes() == value.tobytes() for key, value in stored.items())
    found["k0"][0] = 7  # a copy, writable
    assert cache.get("other model", ["k0"]) == {} and cache.get("m", []) == {}
    cache.put("m", vectors("k0"))
    np.testing.assert_array_equal(cache.get("m", ["k0"])["k0"], vectors("k0")["k0"])


def test_text_keys() -> None:
    # sha256 of the UTF-8 text, from `printf '' | sha256sum` and `printf 'é' | sha256sum`.
    assert text_key("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert text_key("é") == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
    assert len({text_key(text) for text in ("a", "a ", "\ud800", "\udfff", "?")}) == 5


def test_folder_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLARJAX_CACHE", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.delenv("SOLARJAX_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_folder() == tmp_path / "home" / ".cache" / "solarjax"


@pytest.mark.parametrize("damage", ["garbage", "empty header", "inner page", "other layout", "truncated"])
def test_damaged_file_is_rebuilt(tmp_path: Path, damage: str) -> None:
    cache = EmbeddingCache(tmp_path)
    many = {f"k{i:04}": np.full(300, i, np.float32) for i in range(200)}
    cache.put("m", many)
    content = bytearray(cache.path.read_bytes())
    if damage == "garbage":
        content[:] = b"not a database, " * 100
    elif damage == "empty header":
        content[:100] = bytes(100)
    elif damage == "inner page":
        content[4096:] = bytes(b ^ 0x5A for b in content[4096:])
    elif damage == "truncated":
        del content[5000:]
    else:
        with closing(sqlite3.connect(cache.path)) as database:
            database.execute("DROP TABLE embedding")
            database.execute("PRAGMA user_version = 99")
        content[:] = cache.path.read_bytes()
    cache.path.write_bytes(content)
    survived = cache.get("m", list(many))
    assert all(np.array_equal(value, many[key]) for key, value in survived.items()) and len(survived) < 200
    cache.put("m", many)
    assert len(cache.get("m", list(many))) == 200
    with closing(sqlite3.connect(cache.path)) as database:
        assert database.execute("PRAGMA quick_check").fetchone()[0] == "ok"


def test_damaged_row_counts_as_absent(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    cache.put("m", vectors("good", "swapped", "short", "text"))
    with closing(sqlite3.connect(cache.path)) as database, database:
        row = database.execute("SELECT vector, checksum FROM embedding WHERE text = 'good'").fetchone()
        database.execute("UPDATE embedding SET vector = ?, checksum = ? WHERE text = 'swapped'", row)
        database.execute("UPDATE embedding SET vector = x'0102' WHERE text = 'short'")
        database.execute("UPDATE embedding SET vector = 'words' WHERE text = 'text'")
    assert list(cache.get("m", ["good", "swapped", "short", "text"])) == ["good"]
    cache.put("m", vectors("swapped"))
    assert sorted(cache.get("m", ["good", "swapped"])) == ["good", "swapped"]


def test_unusable_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"embedding cache .*file/embeddings.sqlite cannot be used: .*SOLARJAX_CACHE"):
        EmbeddingCache(tmp_path / "file").get("m", ["a"])
    (tmp_path / "embeddings.sqlite").mkdir()
    with pytest.raises(OSError, match=r"cannot be used: unable to open database file"):
        EmbeddingCache(tmp_path).put("m", vectors("a"))


WRITER = """
import sys
import numpy as np
from pathlib import Path
from solarjax.encoders.cache import EmbeddingCache

folder, name = Path(sys.argv[1]), sys.argv[2]
cache = EmbeddingCache(folder)
for i in range(40):
    cache.put("m", {f"{name}-{i}-{j}": np.full(8, i, np.float32) for j in range(5)})
    cache.put("m", {"shared": np.full(8, 1, np.float32)})
    found = cache.get("m", [f"{name}-{i}-{j}" for j in range(5)] + ["shared"])
    assert len(found) == 6 and found[f"{name}-{i}-0"][0] == i, (i, len(found))
"""


def test_processes_share_one_file(tmp_path: Path) -> None:
    """Three processes that start on nothing and write at once lose nothing."""
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name], stderr=subprocess.PIPE) for name in "abc"
    ]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()
    keys = [f"{name}-{i}-{j}" for name in "abc" for i in range(40) for j in range(5)]
    assert len(EmbeddingCache(tmp_path).get("m", keys)) == 600


def test_corruption_met_by_many_at_once_is_rebuilt_once(tmp_path: Path) -> None:
    """Whoever rebuilds must not throw away what another wrote after the first rebuild."""
    cache = EmbeddingCache(tmp_path)
    cache.put("m", vectors("old"))
    cache.path.write_bytes(b"not a database, " * 100)
    start = threading.Barrier(8)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            start.wait()
            own = EmbeddingCache(tmp_path)
            own.put("m", vectors(name))
            assert list(own.get("m", [name])) == [name]
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(cache.get("m", [f"t{i}" for i in range(8)])) == 8
