"""Answers kept on disk by what was asked, so that no question is paid for twice, in this run or a later one.

Content-addressed: the key is the SHA-256 of model, prompt and sampling. One SQLite file in WAL mode: a process killed
at any point leaves every answer that was stored before, and several processes may share the file. Prompts are not
stored, only their hashes; nor is the server's address, so answers of two models that go by one name need two files.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from solarjax.replay.completion import Completion, Sampling
from solarjax.replay.errors import CacheFailed

FORMAT = 1
_BUSY_S = 30.0


def request_key(model: str, prompt: Mapping[str, Any], sampling: Sampling) -> str:
    """Hex SHA-256 of a request.

    Args:
      model: name at the server.
      prompt: `{"messages": [...]}` or `{"prompt": text}`; the two never share a key.
      sampling: all of it counts.
    """
    asked = {"model": model, "prompt": prompt, "sampling": asdict(sampling)}
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class ResponseCache:
    """The answers of one file; a context manager. Use it from one event loop.

    Args:
      path: the file; made, with its folder, if it does not exist.

    Raises:
      CacheFailed: the file cannot be opened, or is something else than a response cache of this format.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._in_flight: dict[str, asyncio.Future[Completion]] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Autocommit: each answer is one statement, whole or absent.
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY_S, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise CacheFailed(f"the response cache {self.path} cannot be opened: {error}") from None
        try:
            self._prepare()
        except BaseException as error:
            self._db.close()
            if isinstance(error, sqlite3.Error):
                raise CacheFailed(f"{self.path} cannot be used as a response cache: {error}") from None
            raise

    def _prepare(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if version not in (0, FORMAT) or (version == 0 and tables - {"answer"}):
            what = f"of format {version}, this is {FORMAT}" if "answer" in tables else "another program's database"
            raise CacheFailed(f"{self.path} is not a response cache that can be used here: it is {what}")
        self._db.execute("PRAGMA journal_mode = WAL")
        # NORMAL survives any death of the process; only a power cut may take the last answers, never the file.
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS answer (key TEXT PRIMARY KEY, model TEXT NOT NULL, completion TEXT NOT NULL,"
            " stored_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID"
        )
        self._db.execute(f"PRAGMA user_version = {FORMAT}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        self._db.close()

    def __len__(self) -> int:
        return self._run("read", "SELECT count(*) FROM answer").fetchone()[0]

    def get(self, key: str) -> Completion | None:
        """The stored answer with `from_cache` set, or None.

        Raises:
          CacheFailed: the file cannot be read, or what it holds is damaged.
        """
        row = self._run("read", "SELECT completion FROM answer WHERE key = ?", key).fetchone()
        if row is None:
            return None
        try:
            fields = json.loads(row[0])
            return Completion(**fields | {"itl_s": tuple(fields["itl_s"]), "from_cache": True})
        except (ValueError, TypeError, KeyError):
            raise CacheFailed(f"{self.path}: the answer {key[:12]} is damaged; remove the file to ask anew") from None

    def put(self, key: str, model: str, answer: Completion) -> Completion:
        """Stores an answer unless there is one already, and returns the one that is stored.

        The first answer stays, so that all readers of the file see the same one.

        Raises:
          CacheFailed: it could not be written (the disk is full, say); answers stored before are unharmed.
        """
        text = json.dumps(asdict(replace(answer, from_cache=False)))
        done = self._run(
            "written", "INSERT OR IGNORE INTO answer (key, model, completion) VALUES (?, ?, ?)", key, model, text
        )
        return answer if done.rowcount else (self.get(key) or answer)

    async def get_or_ask(self, key: str, model: str, ask: Callable[[], Awaitable[Completion]]) -> Completion:
        """The stored answer, or the one that `ask` gets, which is stored before it is returned.

        While one caller asks, others with the same key wait for its answer (it comes to them with `from_cache` set).
        They share its error too, since it has tried often enough; if it is cancelled, one of them asks in its place.
        """
        while True:
            stored = self.get(key)
            if stored is not None:
                return stored
            asking = self._in_flight.get(key)
            if asking is None:
                break
            try:
                # Shielded: a waiting caller that gives up must not take the question away from the others.
                return replace(await asyncio.shield(asking), from_cache=True)
            except asyncio.CancelledError:
                if not asking.cancelled():
                    raise
        mine: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._in_flight[key] = mine
        try:
            answer = self.put(key, model, await ask())
        except asyncio.CancelledError:
            mine.cancel()
            raise
        except Exception as error:
            mine.set_exception(error)
            mine.exception()  # seen: without a waiting caller nobody else would look at it
            raise
        finally:
            del self._in_flight[key]
        mine.set_result(answer)
        return answer

    def _run(self, what: str, statement: str, *values: str) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            hint = "; free some space and start again" if "full" in str(error) else ""
            raise CacheFailed(
                f"the response cache {self.path} could not be {what}: {error}{hint}; the answers stored before are kept"
            ) from None
