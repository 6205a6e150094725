"""Strict JAX under test, and where the shared data lies.

Promotion is strict and ranks do not broadcast silently, so a dtype or shape slip fails instead of
changing a number. Two CPU devices are forced: every sweep test also exercises sharding.

Compiling is most of the time of the suite, so it is made quick here, in this process and in those that tests start:
LLVM optimises little, and XLA emits LLVM's code directly instead of by way of MLIR (a quarter to a half of the time).
Which operations are done, and in which order, is decided before. Tests that run long have LLVM optimise (`optimised`),
a part of the golden tests runs the programs that users get (`compiled_as_for_users`), and so far as the emitters go the
tests of bits that must not depend on the batch (`usual_emitters`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Before jax is imported anywhere: platform choices are read at import time.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
# XLA ends a process that is given a flag it does not know, so only the version that was tried gets it.
os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith("0.10.") else ""
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import jax
import pytest

from tests.support import scheduling

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
    """LLVM optimises what this module compiles, for tests that run longer than they compile."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(scope="module")
def usual_emitters() -> Iterator[None]:
    """XLA emits what this module compiles as it does for users. Bits that do not depend on the batch need that: the
    quick emitters round a lane of `solar` differently alone and among others."""
    if "xla_cpu_use_fusion_emitters" not in os.environ["XLA_FLAGS"]:
        yield
        return
    from jax._src import compiler

    usual = compiler.get_compile_options  # XLA reads its flags once; only here a process can override them
    emitters = {"xla_cpu_use_fusion_emitters": True}

    def options(*args: Any, env_options_overrides: dict | None = None, **rest: Any) -> Any:
        return usual(*args, env_options_overrides=emitters | (env_options_overrides or {}), **rest)

    jax.clear_caches()  # another module may have compiled the same program quickly
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", options)
        yield
    jax.clear_caches()


@pytest.fixture(scope="module")
def compiled_as_for_users(optimised: None, usual_emitters: None) -> None:
    """What this module compiles are the programs that users get."""


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
    """Long files go first; tests that ask a real vLLM are left out where it is not installed."""
    if not VLLM_INSTALLED:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("vllm")])
        items[:] = [item for item in items if not item.get_closest_marker("vllm")]
    items[:] = scheduling.longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files are spread over the workers, those that ask vLLM as one."""
    return scheduling.ByUnit(config, log) if config.getvalue("dist") == "loadfile" else None
