"""Strict JAX under test, and where the shared data lies.

Promotion is strict and ranks do not broadcast silently, so a dtype or shape slip fails instead of
changing a number. Two CPU devices are forced: every sweep test also exercises sharding.

Compiling is most of the time of the suite, so LLVM optimises little here; tests that run long (golden, statistical)
turn it on again with the `optimised` fixture. Which operations are done, and in which order, is decided before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# Before jax is imported anywhere: platform choices are read at import time.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_disable_most_optimizations", True)

ROOT = Path(__file__).resolve().parents[1]


def _shared(name: str) -> Path:
    """The folder `name` of the shared data: $SOLARJAX_SHARED, or `shared/` beside the checkout."""
    base = Path(os.environ.get("SOLARJAX_SHARED", ROOT.parent / "shared"))
    path = base / name
    if not path.is_dir():
        pytest.fail(f"shared data not found at {path}; set SOLARJAX_SHARED to the folder that holds {name}/")
    return path


@pytest.fixture(scope="module")
def optimised() -> Iterator[None]:
    """Full optimisation of what this module compiles, for tests that run longer than they compile."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Corpora and the published synthetic arrays."""
    return _shared("data")


@pytest.fixture(scope="session")
def shared_golden() -> Path:
    """Recorded results of independent reference implementations."""
    return _shared("golden")


VLLM_INSTALLED = (ROOT / ".venv-vllm" / ".solarjax-setup").is_file()


def pytest_report_header() -> str:
    """Says whether a real vLLM is asked."""
    if VLLM_INSTALLED:
        return "tests of a real vLLM: included"
    return "tests of a real vLLM: left out, scripts/setup_vllm installs what they need"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that ask a real vLLM go first, for they wait much; they are left out where it is not installed."""
    asks_vllm = [item for item in items if item.get_closest_marker("vllm")]
    others = [item for item in items if not item.get_closest_marker("vllm")]
    if not VLLM_INSTALLED:
        config.hook.pytest_deselected(items=asks_vllm)
        asks_vllm = []
    items[:] = [*asks_vllm, *others]
