"""Embeddings on disk, so that a corpus is encoded once: one SQLite file, shared by all processes of a user.

Keys are (model fingerprint, SHA-256 of the text), so another model or text never meets an old vector. Each
row carries a checksum; a row that fails it counts as absent and is written anew. A file that SQLite calls
corrupt, or that has another layout, is rebuilt empty.

Every use holds a shared lock on a file beside the database, a rebuild an exclusive one: SQLite's own locks do
not cover replacing the file, and replacing it under a writer would leave that writer's journal to the new
one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np

CACHE_VARIABLE = "SOLARJAX_CACHE"
_LAYOUT = 1
_BUSY_SECONDS = 60.0
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_KEYS_PER_QUERY = 500  # below SQLite's oldest limit on bound values, 999

T = TypeVar("T")


def default_folder() -> Path:
    """`$SOLARJAX_CACHE`, else `~/.cache/solarjax`."""
    return Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "solarjax")


def text_key(text: str) -> str:
    """SHA-256 of a text, in hex; lone surrogates, which UTF-8 cannot express, are kept apart too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class EmbeddingCache:
    """Vectors by model and text.

    Args:
      folder: where the file lies; made if needed.

    Raises:
      OSError: from any method, if the folder cannot be used; names it.
    """

    def __init__(self, folder: Path):
        self.path = Path(folder) / "embeddings.sqlite"
        self._lock = Path(folder) / "embeddings.lock"

    def get(self, model: str, keys: Sequence[str]) -> dict[str, np.ndarray]:
        """The vectors that are there, `[D] f32` each, by key; missing and damaged rows are left out."""

        def read(database: sqlite3.Connection) -> dict[str, np.ndarray]:
            found: dict[str, np.ndarray] = {}
            for begin in range(0, len(keys), _KEYS_PER_QUERY):
                part = keys[begin : begin + _KEYS_PER_QUERY]
                marks = ",".join("?" * len(part))
                rows = database.execute(
                    f"SELECT text, vector, checksum FROM embedding WHERE model = ? AND text IN ({marks})",
                    (model, *part),
                )
                for key, blob, checksum in rows:
                    if isinstance(blob, bytes) and len(blob) % 4 == 0 and _checksum(key, blob) == checksum:
                        found[key] = np.frombuffer(blob, "<f4").astype(np.float32)
            return found

        return self._use(read)

    def put(self, model: str, vectors: Mapping[str, np.ndarray]) -> None:
        """Stores vectors by key, all or none; a key that is there is overwritten."""
        rows = []
        for key, vector in vectors.items():
            blob = np.asarray(vector, "<f4").tobytes()
            rows.append((model, key, blob, _checksum(key, blob)))

        def write(database: sqlite3.Connection) -> None:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT OR REPLACE INTO embedding VALUES (?, ?, ?, ?)", rows)
            database.execute("COMMIT")

        self._use(write)

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` on the database; on corruption once more on an empty one."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return self._attempt(work)
            except _Damaged:
                self._rebuild()
                return self._attempt(work)
        except (sqlite3.Error, OSError, _Damaged) as error:
            raise OSError(
                f"embedding cache {self.path} cannot be used: {error}; set {CACHE_VARIABLE} to a writable "
                "folder or switch the cache off"
            ) from error

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._locked(fcntl.LOCK_SH):
            try:
                with closing(self._open()) as database:
                    return work(database)
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in _CORRUPT:
                    raise _Damaged(str(error)) from error
                raise

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            layout = database.execute("PRAGMA user_version").fetchone()[0]
            if layout == 0:
                database.execute("BEGIN IMMEDIATE")
                # Another process may have come first between the two statements.
                if database.execute("PRAGMA user_version").fetchone()[0] == 0:
                    database.execute(
                        "CREATE TABLE embedding (model TEXT, text TEXT, vector BLOB, checksum INTEGER, "
                        "PRIMARY KEY (model, text))"
                    )
                    database.execute(f"PRAGMA user_version = {_LAYOUT}")
                database.execute("COMMIT")
            elif layout != _LAYOUT:
                raise _Damaged(f"layout {layout} instead of {_LAYOUT}")
        except BaseException:
            database.close()
            raise
        return database

    def _rebuild(self) -> None:
        with self._locked(fcntl.LOCK_EX):
            # With nobody else inside: perhaps another process has rebuilt it already.
            try:
                with closing(self._open()) as database:
                    if database.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok":
                        return
            except (sqlite3.DatabaseError, _Damaged):
                pass
            for suffix in ("-journal", "-wal", "-shm", ""):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        with open(self._lock, "ab") as file:
            fcntl.flock(file, kind)  # released when the file closes, also if the process dies
            yield


class _Damaged(Exception):
    """The database is corrupt or of another layout."""


def _checksum(key: str, blob: bytes) -> int:
    return zlib.crc32(blob, zlib.crc32(key.encode()))
