"""The release's regret gate for the peer: information gain of the arriving item against an adaptive threshold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solarjax.bench.peer.kernels import Admission

WINDOW = 30
LAM = 5.0
CUM, TAU, LOSS = range(3)
"""Fields of the register: accumulated gain, threshold, running loss (0: none yet)."""


def regret_gate(compiled: Callable) -> Admission:
    """`policies.admission.regret_gate` at the release's defaults, with a signal at every step."""

    def init():
        register = np.zeros(3)
        register[TAU] = np.sqrt(LAM)
        return np.zeros(WINDOW, np.float32), register

    def decide(state, t, n, K, ids, near):
        window, register = state
        t0 = t1 = t2 = t3 = t4 = np.float32(-2)
        for i in range(n):
            s = near[ids[i]]
            if s > t0:
                t4, t3, t2, t1, t0 = t3, t2, t1, t0, s
            elif s > t1:
                t4, t3, t2, t1 = t3, t2, t1, s
            elif s > t2:
                t4, t3, t2 = t3, t2, s
            elif s > t3:
                t4, t3 = t3, s
            elif s > t4:
                t4 = s
        gain = 1.0
        if n > 0:
            top = 0.0
            for near_one in (t0, t1, t2, t3, t4):
                if near_one > -2.0:
                    top += float(near_one)
            mean = min(max(top / min(n, 5), 0.0), 1.0)
            gain = max(0.0, 0.6 * (1.0 - min(max(float(t0), 0.0), 1.0)) - 0.4 * mean)
        window[t % WINDOW] = gain
        if t >= WINDOW - 1:
            mean = 0.0
            for i in range(WINDOW):
                mean += window[i]
            mean /= WINDOW
            var = 0.0
            for i in range(WINDOW):
                var += (window[i] - mean) ** 2
            spread = max(2 * np.sqrt(var / WINDOW), 0.1)
            loss = register[LOSS]
            register[LOSS] = spread if loss == 0 else 0.7 * loss + 0.3 * spread
            register[TAU] = min(max(np.sqrt(2 * LAM / register[LOSS]), 0.1), 5.0)
        register[CUM] += gain
        if register[CUM] > register[TAU] or n < min(max(K // 2, 5), 25):
            register[CUM] = 0.0
            return True
        return False

    return Admission(compiled(init), compiled(decide))
