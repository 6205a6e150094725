"""Strict JAX under test, and where the shared data lies.

Promotion is strict and ranks do not broadcast silently, so a dtype or shape slip fails instead of
changing a number. Two CPU devices are forced: every sweep test also exercises sharding.
"""

from __future__ import annotations

import os
from pathlib import Path

# Before jax is imported anywhere: platform choices are read at import time.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

ROOT = Path(__file__).resolve().parents[1]


def _shared(name: str) -> Path:
    """The folder `name` of the shared data: $SOLARJAX_SHARED, or `shared/` beside the checkout."""
    base = Path(os.environ.get("SOLARJAX_SHARED", ROOT.parent / "shared"))
    path = base / name
    if not path.is_dir():
        pytest.fail(f"shared data not found at {path}; set SOLARJAX_SHARED to the folder that holds {name}/")
    return path


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Corpora and the published synthetic arrays."""
    return _shared("data")


@pytest.fixture(scope="session")
def shared_golden() -> Path:
    """Recorded results of independent reference implementations."""
    return _shared("golden")
