"""What a benchmark leaves behind: one JSON document with its provenance, written whole or not at all."""

from __future__ import annotations

import importlib.metadata
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from solarjax import provenance
from solarjax.bench.errors import BenchError
from solarjax.bench.options import Options
from solarjax.bench.sections import SECTIONS, Measured

SCHEMA = 1


@contextmanager
def clock() -> Iterator[Callable[[], float]]:
    """A function that tells the seconds since the start."""
    start = time.perf_counter()
    yield lambda: time.perf_counter() - start


def document(measured: Sequence[Measured], options: Options, seconds: float, usual: Options) -> dict[str, Any]:
    """Rows of every section under its name, with provenance; JSON-able, without paths of this machine.

    Args:
      measured: the sections.
      options: how they were measured; `usual` are the defaults, which the repeating command leaves out.
      seconds: wall-clock time of all.
    """
    config = {"sections": [m.name for m in measured], **options.plain()}
    return {
        "schema": SCHEMA,
        "sections": {m.name: {"title": SECTIONS[m.name].title, "rows": m.rows} for m in measured},
        "provenance": record(config, command(measured, options, usual), seconds, {m.name: m.device for m in measured}),
    }


def record(config: Mapping[str, Any], line: str, seconds: float, devices: Mapping[str, Any]) -> dict[str, Any]:
    """Provenance as `provenance.collect` has it, with the compiler of the peer and the devices of the sections.

    Asking jax for the device here would start it beside the children, and on a GPU take the memory they need.
    """
    versions = provenance.versions()
    try:
        versions["numba"] = importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        pass
    return {
        "schema": SCHEMA,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": line,
        "config": dict(config),
        "code": provenance.code_fingerprint(),
        "git": provenance.git_state(),
        "versions": versions,
        "device": dict(devices),
        "seconds": round(seconds, 3),
    }


def command(measured: Sequence[Measured], options: Options, usual: Options) -> str:
    """The line that measures the same again, without output files."""
    words = ["solarjax bench", *(f"--{m.name}" for m in measured)]
    if options.quick:
        words.append("--quick")
    for name in ("policies", "capacities", "lanes", "steps", "repeats", "device_lanes", "point_seconds"):
        value = getattr(options, name)
        if options.quick or value != getattr(usual, name):
            shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            words.append(f"--{name.replace('_', '-')} {shown}")
    return " ".join(words)


def text(content: Any) -> str:
    """JSON as it is stored: indented, one line at the end, never NaN."""
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def check_writable(path: Path) -> None:
    """Raises BenchError if a file could not be written there, before anything is measured."""
    if path.is_dir():
        raise BenchError(f"{path} is a folder; a file is needed")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise BenchError(f"cannot write {path}: its folder is missing or not writable")


def write(path: Path, content: str) -> None:
    """Writes a text file beside its place and moves it there."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
