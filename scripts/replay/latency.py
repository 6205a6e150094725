"""Time of one decision of a live replay (claim S27): look-up and decision, warm, on a full cache, transfers included.

python -m scripts.replay.latency [POLICIES]
"""

from __future__ import annotations

import sys
import time

import numpy as np

CAPACITY, DIM, ITEMS, WARM = 100, 384, 1024, 200
POLICIES = "fifo,lru,lfu,arc,solar_e,solar_a(fill=free),solar(fill=free)"


def main() -> None:
    """Prints compile time, p50, p99 and the smallest time, in ms, per policy."""
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)  # as `solarjax replay` does
    from solarjax.replay.plan import replay_cases
    from solarjax.replay.stepper import Stepper, lane_key

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2, ITEMS, DIM))
    questions, items = (rows / np.linalg.norm(rows, axis=2, keepdims=True)).astype(np.float32)
    print("policy  compile s  p50 ms  p99 ms  min ms  admitted")
    for case in replay_cases(sys.argv[1] if len(sys.argv) > 1 else POLICIES):
        began = time.perf_counter()
        stepper = Stepper(case, CAPACITY, ITEMS, DIM, lane_key(0, "latency", 0))
        compiled = time.perf_counter() - began
        done = []
        for question, item, score in zip(questions, items, rng.random(ITEMS), strict=True):
            stepper.look(question)
            done.append(stepper.decide(item, float(score)))
        times = 1e3 * np.array([d.seconds for d in done[WARM:]])
        p50, p99 = np.quantile(times, [0.5, 0.99])
        admitted = np.mean([d.admitted for d in done[WARM:]])
        print(f"{case.label}  {compiled:.1f}  {p50:.3f}  {p99:.3f}  {times.min():.3f}  {admitted:.2f}", flush=True)


if __name__ == "__main__":
    main()
