"""What is remembered of a started server: one JSON file each, whole or absent, and a lock while it is being started."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from solarjax.replay.errors import BadOption, ServerFailed
from solarjax.replay.server_options import check_name


@dataclass(frozen=True)
class Record:
    """A started server.

    Attributes:
      name: of the server.
      pid: of its first process, which leads a session.
      started: that process's boot and start time; with the pid it names the process for good.
      port: on the loopback interface.
      model: name that clients use.
      path: folder or hub name of the model.
      log: file with the server's output.
      options: what it was started with, to recognise a second start with the same.
      started_at: seconds since 1970.
    """

    name: str
    pid: int
    started: str
    port: int
    model: str
    path: str
    log: str
    options: str
    started_at: float

    @property
    def url(self) -> str:
        """Address for clients."""
        return f"http://127.0.0.1:{self.port}"


def write(folder: Path, record: Record) -> None:
    """Stores a record, replacing one of the same name."""
    path = _path(folder, record.name)
    new = path.with_suffix(".json.new")
    new.write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")
    os.replace(new, path)


def read(folder: Path, name: str) -> Record | None:
    """The record of this name, or None.

    Raises:
      ServerFailed: the file is there and cannot be understood. It is not ignored: a server may stand behind it.
    """
    path = _path(folder, name)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return Record(**json.loads(text))
    except (ValueError, TypeError):
        raise ServerFailed(f"{path} is damaged: look for a running server by hand, then remove the file") from None


def read_all(folder: Path) -> list[Record]:
    """All records of a folder, by name."""
    found = (read(folder, path.stem) for path in sorted(folder.glob("*.json")))
    return [record for record in found if record is not None]


def remove(folder: Path, name: str) -> None:
    """Forgets a record; its log stays."""
    _path(folder, name).unlink(missing_ok=True)


@contextmanager
def lock(folder: Path, name: str) -> Iterator[None]:
    """Held while a server is being started; it goes with the process, however that ends.

    Raises:
      BadOption: another process holds it.
    """
    check_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadOption(
                f"server {name!r} is being started by another command; wait for it, or choose a name"
            ) from None
        yield


def _path(folder: Path, name: str) -> Path:
    check_name(name)
    return folder / f"{name}.json"
