"""The record of a replay: one JSON line per answered question, on disk before the next one is asked.

A process may die at any byte. A last line without its line break was being written and is cut off at the next start;
every other line is whole. What was recorded is never asked again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from solarjax.replay.errors import ReplayError

FILE = "journal.jsonl"


class JournalError(ReplayError):
    """The journal cannot be read, written, or belongs to another replay; what it holds is unharmed."""


class Journal:
    """Append-only records of one replay; a context manager.

    Args:
      path: the file; made if needed.
      config: identity of the replay; it is the first line, and another one there is refused.

    Raises:
      JournalError: the file cannot be used, is damaged, or holds another replay.
    """

    def __init__(self, path: Path, config: Mapping[str, Any]):
        self.path = path
        self.records: list[dict[str, Any]] = []
        wanted = json.loads(json.dumps(config))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+b", buffering=0)  # a buffer would try again to write what a full disk refused
        except OSError as error:
            raise JournalError(f"cannot write {path}: {error.strerror or error}") from None
        try:
            self._lock()
            self._read(wanted)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, record: Mapping[str, Any]) -> None:
        """Writes a record and waits until the disk has it.

        Raises:
          JournalError: the disk is full, say. The part of the line that was written is removed again.
        """
        self._write(record)
        self.records.append(dict(record))

    def _write(self, record: Mapping[str, Any]) -> None:
        end = self._file.seek(0, os.SEEK_END)
        try:
            rest = json.dumps(record, allow_nan=False).encode("ascii") + b"\n"
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            try:
                os.ftruncate(self._file.fileno(), end)
            except OSError:
                pass  # the next start cuts the torn line off
            raise JournalError(
                f"cannot write {self.path}: {error.strerror or error}; all answers up to here are kept, "
                "and the same command continues"
            ) from None

    def _lock(self) -> None:
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise JournalError(
                f"{self.path} is in use by another process; wait for it or choose another --out"
            ) from None

    def _read(self, wanted: dict[str, Any]) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file.fileno(), whole)
        lines = content[:whole].split(b"\n")[:-1]
        try:
            records = [json.loads(line) for line in lines]
        except ValueError:
            raise JournalError(f"{self.path} is damaged; remove it to start anew") from None
        if not records:
            self._write({"config": wanted})
            return
        there = records[0].get("config") if isinstance(records[0], dict) else None
        if there != wanted:
            raise JournalError(
                f"{self.path} belongs to a replay of another configuration ({_difference(there, wanted)}); "
                "choose another --out or remove it"
            )
        self.records = records[1:]


def _difference(there: Any, asked: Any) -> str:
    """The first setting that differs."""
    path = ""
    while isinstance(there, dict) and isinstance(asked, dict):
        key = next(k for k in [*there, *asked] if there.get(k) != asked.get(k))
        path, there, asked = f"{path}.{key}" if path else key, there.get(key), asked.get(key)
    return f"{path}: {json.dumps(there):.60} there, {json.dumps(asked):.60} asked"
