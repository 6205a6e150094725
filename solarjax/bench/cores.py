"""All cores against one: the same lanes on one device and sharded over one device per core."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from solarjax.bench import engine, paired
from solarjax.bench.compare import Progress
from solarjax.bench.errors import BenchError
from solarjax.bench.workload import draw


def cores(
    policies: Sequence[str],
    capacities: Sequence[int],
    *,
    lanes: int = 1024,
    steps: int = 500,
    repeats: int = 7,
    say: Progress = lambda text: None,
) -> list[dict[str, Any]]:
    """One row per policy and capacity; lanes are rounded down to a multiple of the devices.

    Returns:
      Rows with `devices`, `one_steps_per_s`, `all_steps_per_s` (medians), `speedup` with `speedup_low, speedup_q1,
      speedup_q3, speedup_high` (of the pairs), and `busy_one, busy_all`: processor seconds per second, which show how
      many cores were really used.

    Raises:
      BenchError: jax has one device here, or the two runs counted differently.
    """
    devices = jax.devices()
    if len(devices) < 2:
        raise BenchError("jax has one device here; comparing cores needs at least 2")
    count = lanes // len(devices) * len(devices)
    if count == 0:
        raise BenchError(f"{lanes} lanes are fewer than the {len(devices)} devices")
    block = engine.on_device(draw(count, steps))
    rows = []
    for policy in policies:
        for capacity in capacities:
            say(f"{policy} K={capacity} on 1 and {len(devices)} devices")
            one = engine.program(block, policy, capacity, devices=devices[:1])
            every = engine.program(block, policy, capacity, devices=devices)
            first, second = _Busy(one.run), _Busy(every.run)
            pair = paired.alternate(first, second, repeats)
            alone, together = pair.results
            if not all(np.array_equal(np.asarray(alone[name]), np.asarray(together[name])) for name in alone):
                raise BenchError(f"{policy} at K = {capacity} counts differently on 1 and {len(devices)} devices")
            gain = paired.spread(pair.first / pair.second)
            work = count * steps
            rows.append(
                {
                    "policy": policy,
                    "capacity": capacity,
                    "lanes": count,
                    "steps": steps,
                    "devices": len(devices),
                    "repeats": repeats,
                    "one_steps_per_s": work / float(np.median(pair.first)),
                    "all_steps_per_s": work / float(np.median(pair.second)),
                    "speedup": gain.median,
                    "speedup_low": gain.low,
                    "speedup_q1": gain.q1,
                    "speedup_q3": gain.q3,
                    "speedup_high": gain.high,
                    "busy_one": first.busy,
                    "busy_all": second.busy,
                }
            )
    return rows


class _Busy:
    """Calls `run` and keeps processor seconds per second over all its calls."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run, self._wall, self._used = run, 0.0, 0.0

    @property
    def busy(self) -> float:
        return self._used / self._wall

    def __call__(self) -> Any:
        wall, used = time.perf_counter(), time.process_time()
        result = self._run()
        self._wall += time.perf_counter() - wall
        self._used += time.process_time() - used
        return result
