"""Finished pieces of a sweep on disk: written whole or not at all.

A sweep directory holds `sweep.json` (what is being computed and how it is cut) and `chunks/` (one npz per
finished chunk). A chunk appears under its name only once it is complete, so a killed sweep continues with the
chunks that are missing.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

HEADER = "sweep.json"


class SweepError(ValueError):
    """A sweep that cannot run as asked; the message says what to change."""


def write_atomically(path: Path, write: Any, exclusive: bool = False) -> None:
    """Calls `write(file)` on a temporary file beside `path`, syncs it, and moves it into place.

    Args:
      exclusive: leave a file that is there already as it is.

    Raises:
      FileExistsError: `exclusive`, and somebody else was first.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        if exclusive:
            os.link(name, path)
            os.unlink(name)
        else:
            os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def cannot_write(where: Path, error: OSError) -> SweepError:
    """The one line for a folder that takes no more."""
    return SweepError(f"cannot write to {where}: {error.strerror or error}")


def read_header(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(config, layout) of a sweep's directory.

    Raises:
      SweepError: it holds no sweep's header.
    """
    header = directory / HEADER
    try:
        held = json.loads(header.read_text())
        return held["config"], held["layout"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SweepError(f"{header} is not a sweep's header; choose another directory") from error


def check_same(directory: Path, held: Mapping[str, Any], want: Mapping[str, Any]) -> None:
    """Raises `SweepError`, naming what differs, unless both configurations (as JSON values) are equal."""
    if held != want:
        names = sorted(k for k in {**want, **held} if want.get(k) != held.get(k))
        raise SweepError(f"{directory} holds another sweep (different {', '.join(names)}); choose another directory")


class ChunkStore:
    """Chunks of one sweep, in memory only if `directory` is None.

    Raises:
      SweepError: the directory holds another sweep, or cannot be written.
    """

    def __init__(self, directory: Path | None, config: Mapping[str, Any], layout: Mapping[str, Any]):
        self._kept: dict[str, dict[str, np.ndarray]] = {}
        self._folder: Path | None = None
        self.layout = dict(layout)
        if directory is None:
            return
        directory = Path(directory)
        try:
            (directory / "chunks").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(directory, error) from error
        self._folder = directory / "chunks"
        header = directory / HEADER
        want = json.loads(json.dumps(config))
        if not header.exists():
            if any(self._folder.glob("[!.]*")) and not header.exists():
                raise SweepError(f"{directory} holds chunks without a sweep.json; choose another directory")
            text = json.dumps({"config": want, "layout": self.layout}, indent=1, sort_keys=True)
            try:
                # Processes that share the directory may begin together: the layout of the first is everybody's.
                write_atomically(header, lambda file: file.write(text.encode()), exclusive=True)
            except FileExistsError:
                pass
            except OSError as error:
                raise cannot_write(directory, error) from error
        held_config, self.layout = read_header(directory)
        check_same(directory, held_config, want)

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """The arrays of a finished chunk, or None if it is missing or unreadable (then it is computed again)."""
        if self._folder is None:
            return self._kept.get(name)
        try:
            # Opened here because numpy leaves the file of a truncated archive open.
            with open(self._folder / f"{name}.npz", "rb") as raw, np.load(raw, allow_pickle=False) as file:
                return {key: file[key] for key in file.files}
        except (FileNotFoundError, zipfile.BadZipFile, ValueError, EOFError, OSError, KeyError):
            return None

    def names(self) -> set[str]:
        """Names of the finished chunks, by their files alone; a damaged one is found when it is loaded."""
        if self._folder is None:
            return set(self._kept)
        return {path.stem for path in self._folder.glob("[!.]*.npz")}

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keeps a finished chunk.

        Raises:
          SweepError: it cannot be written; what was finished before stays.
        """
        if self._folder is None:
            self._kept[name] = dict(arrays)
            return
        payload: dict[str, Any] = dict(arrays)
        try:
            write_atomically(self._folder / f"{name}.npz", lambda file: np.savez(file, **payload))
        except OSError as error:
            raise cannot_write(self._folder, error) from error
