"""Reading text files with clear errors, and writing files that appear complete or not at all."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from solarjax.core.trace import TraceError


def read_text(path: Path) -> str:
    """Reads one UTF-8 text file; line ends become `\\n`.

    Raises:
      TraceError: if it is missing, unreadable or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: not UTF-8 text (byte {error.start})") from None


def read_json(path: Path) -> Any:
    """Parses one JSON file.

    Raises:
      TraceError: if it is missing, not UTF-8 or not JSON; names the file and, for JSON, line and column.
    """
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise TraceError(f"{path}:{error.lineno}: not valid JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise TraceError(f"{path}: not valid JSON: nested too deeply") from None


def take(record: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """`record[key]`, checked to be of `kind`.

    Raises:
      TraceError: if `record` is no JSON object, lacks the key or holds another type; names `where`.
    """
    if not isinstance(record, dict):
        raise TraceError(f"{where}: expected a JSON object, got {type(record).__name__}")
    if key not in record:
        raise TraceError(f"{where}: field {key!r} is missing; fields are {sorted(record)}")
    value = record[key]
    kinds = kind if isinstance(kind, tuple) else (kind,)
    # bool is a subclass of int, but true is not a number in these files.
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        names = "/".join(k.__name__ for k in kinds)
        raise TraceError(f"{where}: field {key!r} must be {names}, got {type(value).__name__} {value!r:.60}")
    return value


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Opens a temporary file beside `path` that takes its place when the block ends, and vanishes if it
    raises.

    Args:
      path: target, replaced if it exists.

    Yields:
      A binary file to write to.

    Raises:
      OSError: if the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else the rename may survive a crash that the content does not
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
