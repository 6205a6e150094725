"""Results on disk: one folder per run, holding the dataset and where it comes from.

DIR/result.nc         the dataset of `sweep`, netCDF
DIR/result.zarr       or, of `--store zarr`, the same filled while it is computed (`scale.zarr_store`)
DIR/provenance.json   command, configuration, versions, device; written last, so it marks a complete run
DIR/figures/          pictures of this run
DIR/chunks-*/         finished parts of a run that was stopped; removed once result.nc is there
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

RESULT, PROVENANCE, CHUNKS, ZARR = "result.nc", "provenance.json", "chunks-", "result.zarr"


class StoreError(ValueError):
    """A results folder that cannot be used; the message names it and says why."""


@dataclass(frozen=True)
class StoredRun:
    """One complete run: its folder, the dataset (in memory, or read from a zarr store) and the provenance record."""

    path: Path
    data: xr.Dataset
    provenance: Mapping[str, Any]

    @property
    def config(self) -> Mapping[str, Any]:
        """What ran; see `solarjax.cli.job.Job.config`."""
        return self.provenance["config"]


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Calls `write(temporary file beside path)` and moves the file to `path` once it is complete.

    Raises:
      StoreError: if the folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            # mkstemp's 0600 would keep a report from a web server; new files elsewhere follow the umask.
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror or problem}") from None


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text atomically. Raises `StoreError`, see `write_atomically`."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Writes bytes atomically. Raises `StoreError`, see `write_atomically`."""
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def save(path: Path, data: xr.Dataset, provenance: Mapping[str, Any]) -> StoredRun:
    """Writes a run; the provenance record comes last. Unfinished parts are removed then.

    Raises:
      StoreError: if the folder cannot be written to.
    """
    encoding: dict[str, dict[str, Any]] = {
        str(name): {"zlib": True, "complevel": 4} for name, v in data.data_vars.items() if v.size > 1024
    }
    write_atomically(path / RESULT, lambda t: data.to_netcdf(t, engine="h5netcdf", encoding=encoding))
    return seal(path, data, provenance)


def seal(path: Path, data: xr.Dataset, provenance: Mapping[str, Any]) -> StoredRun:
    """Marks a run whose dataset is on disk already as complete, and removes what it was made from.

    Raises:
      StoreError: if the folder cannot be written to.
    """
    text = json.dumps(provenance, indent=1, sort_keys=True, allow_nan=False) + "\n"
    write_text(path / PROVENANCE, text)
    for rest in path.glob(f"{CHUNKS}*"):
        shutil.rmtree(rest, ignore_errors=True)
    return StoredRun(path, data, json.loads(text))


def load(path: Path) -> StoredRun:
    """Reads a run.

    Raises:
      StoreError: if it is incomplete or damaged.
    """
    try:
        provenance = json.loads((path / PROVENANCE).read_text(encoding="utf-8"))
        data = _read(path)
    except (OSError, ValueError) as problem:
        raise StoreError(f"{path} holds no readable run: {problem}") from None
    if not isinstance(provenance, dict) or not {"config", "command", "code"} <= provenance.keys():
        raise StoreError(f"{path / PROVENANCE} is no provenance record (config, command and code are needed)")
    return StoredRun(path, data, provenance)


def _read(path: Path) -> xr.Dataset:
    if (path / ZARR).exists() and not (path / RESULT).exists():
        from solarjax.scale.zarr_store import open_results

        return open_results(path / ZARR)
    return xr.load_dataset(path / RESULT, engine="h5netcdf")


def find(root: Path) -> list[StoredRun]:
    """Every complete run in `root` or below it, ordered by path.

    Raises:
      StoreError: if `root` is not a folder, holds no run, or a run in it is damaged.
    """
    if not root.is_dir():
        raise StoreError(f"{root} is not a folder of results")
    found = [load(path.parent) for path in sorted(root.rglob(PROVENANCE))]
    if not found:
        raise StoreError(f"{root} holds no complete run (no {PROVENANCE} in it or below it)")
    return found


def prepare(path: Path, config: Mapping[str, Any], code: str) -> StoredRun | None:
    """Makes `path` ready for a run, before anything is computed.

    Returns:
      The stored run if the same configuration was completed there by the same code, else None.

    Raises:
      StoreError: if `path` cannot be written to, or holds a run of another configuration or of other code.
    """
    if (path / PROVENANCE).exists():
        run = load(path)
        wanted = json.loads(json.dumps(config))
        if run.config != wanted:
            raise StoreError(
                f"{path} holds a run of another configuration ({_first_difference(run.config, wanted)}); "
                "choose another --out or remove it"
            )
        if run.provenance["code"] != code:
            raise StoreError(
                f"{path} holds this run made by other code ({run.provenance['code']}, now {code}); "
                "choose another --out or remove it"
            )
        return run
    check_writable(path)
    return None


def check_writable(folder: Path) -> None:
    """Makes `folder` if needed. Raises `StoreError` if no file can be made in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise StoreError(f"cannot write to {folder}: {problem.strerror or problem}") from None


def _first_difference(there: Any, asked: Any, label: str = "") -> str:
    """`'capacities: [10] there, [20] asked'` for the first place in which two JSON values differ."""
    if isinstance(there, dict) and isinstance(asked, dict):
        for key in sorted(there.keys() | asked.keys()):
            if there.get(key) != asked.get(key):
                return _first_difference(there.get(key), asked.get(key), f"{label}.{key}" if label else str(key))
    return f"{label}: {_short(there)} there, {_short(asked)} asked"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
