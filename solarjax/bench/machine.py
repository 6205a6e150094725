"""What the device can do at best: bytes streamed per second, simple operations per second.

Both are measured with jax, so the same lines serve a CPU core and a GPU, and they are what XLA reaches, not what a
data sheet says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

STREAM_BYTES = {"cpu": 2**28, "gpu": 2**31}
"""Size of the streamed array: several times the last cache."""
LOCAL = {"cpu": 2**12, "gpu": 2**22}
"""Numbers in the array of the arithmetic loop: on a CPU it stays in the first cache."""
CHAIN = 64
"""Operations on a number between its load and its store."""


ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}
"""On a CPU the engine's programs run on one thread per device (`core.parallel`), so its bounds are measured on one."""


class Speed(NamedTuple):
    """bytes_per_s: read plus written.  operations_per_s: additions and minima of 32-bit numbers."""

    bytes_per_s: float
    operations_per_s: float


def measure(repeats: int = 5) -> Speed:
    """Best of `repeats` of both, on jax's default device; about a second on one CPU core."""
    kind = "cpu" if jax.default_backend() == "cpu" else "gpu"
    options = ONE_THREAD if kind == "cpu" else None
    return Speed(_stream(STREAM_BYTES[kind] // 4, repeats, options), _arithmetic(LOCAL[kind], repeats, options))


def _stream(numbers: int, repeats: int, options: dict[str, bool] | None) -> float:
    # In place, so that no page is touched for the first time while the clock runs.
    scale = jax.jit(lambda x: x * np.float32(1.0000001), donate_argnums=0, compiler_options=options)
    x = jax.block_until_ready(scale(jnp.ones(numbers, jnp.float32)))
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        x = jax.block_until_ready(scale(x))
        best = min(best, time.perf_counter() - start)
    return 8 * numbers / best


def _arithmetic(numbers: int, repeats: int, options: dict[str, bool] | None) -> float:
    turns = 200 if options is None else 20_000
    rng = np.random.default_rng(0)
    steps, bounds = (rng.uniform(1, 2, CHAIN // 2).astype(np.float32) for _ in range(2))

    def turn(_: int, x: Array) -> Array:
        for step, bound in zip(steps, bounds, strict=True):
            x = jnp.minimum(x + step, bound)
        return x

    run = jax.jit(lambda x: lax.fori_loop(0, turns, turn, x), compiler_options=options)
    x = jnp.zeros(numbers, jnp.float32)
    return numbers * CHAIN * turns / _best(lambda: run(x), repeats)


def _best(run: Callable[[], Any], repeats: int) -> float:
    jax.block_until_ready(run())
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(run())
        best = min(best, time.perf_counter() - start)
    return best
