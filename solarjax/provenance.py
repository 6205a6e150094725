"""Where a result comes from: code, versions, device, configuration, command, time."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import solarjax

PACKAGE = Path(__file__).resolve().parent
PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "xarray", "flax", "tokenizers", "h5netcdf")
# What can change a number; the command line, the analysis and the report only show them.
ENGINE = ("core", "policies", "workloads", "traces", "encoders")
REPLAY = (*ENGINE, "replay")


@cache
def code_fingerprint(folders: tuple[str, ...] = ENGINE) -> str:
    """First 16 hex digits of the sha256 over the source of everything that can change a stored number.

    Args:
      folders: of the package; `REPLAY` for what came from a language model.
    """
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def file_sha256(path: str | Path) -> str:
    """sha256 of a file's bytes, hex.

    Raises:
      OSError: if it cannot be read.
    """
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def git_state(folder: Path = PACKAGE) -> dict[str, Any] | None:
    """`{"sha": str, "dirty": bool}` of the checkout around `folder`, None outside one (in a wheel).

    dirty: something that could have changed a result differs from the commit. `reports/` does not count: it holds
      results, and a run that writes several there would otherwise call itself dirty after the first.
    """

    def git(*args: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *args], check=True, capture_output=True, text=True, timeout=20
        ).stdout.strip()

    try:
        # A wheel inside somebody else's checkout must not borrow that project's history.
        tracked = git("ls-files", "--", str(folder))
        if not tracked:
            return None
        changed = git("status", "--porcelain", "--", ":/", ":(top,exclude)reports")
        return {"sha": git("rev-parse", "HEAD"), "dirty": bool(changed)}
    except (OSError, subprocess.SubprocessError):
        return None


def versions() -> dict[str, str]:
    """Versions of Python, solarjax and the packages a number can depend on (those installed)."""
    found = {"python": platform.python_version(), "solarjax": solarjax.__version__}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def device() -> dict[str, Any]:
    """Platform, kind and number of the devices jax uses, and the machine they are in. Initialises jax."""
    import jax

    devices = jax.devices()
    return {
        "platform": devices[0].platform,
        "kind": devices[0].device_kind,
        "count": len(devices),
        "machine": platform.machine(),
        "system": platform.system(),
        "cpus": os.cpu_count(),
    }


def collect(config: Mapping[str, Any], command: str, seconds: float, code: str | None = None) -> dict[str, Any]:
    """The provenance record stored beside a result.

    Args:
      config: what ran, JSON-able; two results are the same work iff their configs and `code` are equal.
      command: the line that repeats it.
      seconds: wall-clock time of the sweep.
      code: fingerprint of what made it; None is the engine's.
    """
    return {
        "schema": 1,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "config": dict(config),
        "code": code or code_fingerprint(),
        "git": git_state(),
        "versions": versions(),
        "device": device(),
        "seconds": round(seconds, 3),
    }
