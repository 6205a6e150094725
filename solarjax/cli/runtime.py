"""How jax starts: number of devices, and compiled programs kept on disk between runs."""

from __future__ import annotations

import os
from pathlib import Path

from solarjax.cli.errors import UserError

CACHE_SWITCH = "SOLARJAX_COMPILE_CACHE"


def compile_cache_folder() -> Path | None:
    """Where compiled programs are kept, or None if SOLARJAX_COMPILE_CACHE=0 switches that off.

    `$JAX_COMPILATION_CACHE_DIR` if set, else `xla/` in `$SOLARJAX_CACHE`, else `~/.cache/solarjax/xla`.
    """
    if os.environ.get(CACHE_SWITCH) == "0":
        return None
    own = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if own:
        return Path(own)
    base = os.environ.get("SOLARJAX_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "solarjax"
    )
    return Path(base) / "xla"


def start(devices: int | None = None, compile_cache: bool = True) -> None:
    """Configures jax; to be called before anything is computed.

    Args:
      devices: how many devices the CPU is divided into (default: one per core this process may use). On an
        accelerator all local devices are used and only that number is accepted.
      compile_cache: keep compiled programs on disk, see `compile_cache_folder`.

    Raises:
      UserError: if `devices` is not possible here.
    """
    if devices is not None and devices < 1:
        raise UserError(f"--devices {devices} is out of range; allowed are whole numbers from 1")
    import jax

    wanted = devices or cores()
    forced = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if not forced:
        try:
            jax.config.update("jax_num_cpu_devices", wanted)
        except RuntimeError:
            pass  # jax is running already, in a process that is not ours alone; checked below
    if devices is not None and jax.local_device_count() != devices:
        raise UserError(
            f"--devices {devices} is not possible: jax has {jax.local_device_count()} "
            f"{jax.devices()[0].platform} device(s) here"
        )
    if compile_cache:
        keep_programs()


def keep_programs() -> None:
    """Keeps compiled programs on disk, see `compile_cache_folder`."""
    import jax

    folder = compile_cache_folder()
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return  # a read-only home costs compile time, nothing else
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
