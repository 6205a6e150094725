"""The victim rules of SOLAR (posterior sampling) and SOLAR-A (weighted value) for the peer, at their defaults."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solarjax.bench.peer.kernels import Eviction

AGE_PERIOD = 5


def _draw(alpha, beta, t, theta):
    for i in range(len(alpha)):
        theta[i] = np.random.beta(alpha[i], beta[i])


def thompson(compiled: Callable, draw: Callable = _draw) -> Eviction:
    """`policies.victims.thompson`: the smallest sampled usefulness plus novelty leaves.

    Args:
      compiled: numba's decorator, or the identity.
      draw: fills `theta [K]` from `alpha, beta [K]` at step `t`; a test passes the engine's own draws.
    """
    fill = compiled(draw)

    def init(K):
        return np.full(K, 2, np.float32), np.ones(K, np.float32), np.zeros(K, np.float32)

    def touch(state, t, n, K, item, here, i0, i1, i2):
        alpha, beta, theta = state
        if i0 >= 0:
            alpha[i0] += np.float32(1)
        if i1 >= 0:
            alpha[i1] += np.float32(1)
        if i2 >= 0:
            alpha[i2] += np.float32(1)
        if (t + 1) % AGE_PERIOD == 0:
            for i in range(n):
                if i != i0 and i != i1 and i != i2:
                    beta[i] += np.float32(0.05)

    def victim(state, t, K, ids, born, near):
        alpha, beta, theta = state
        fill(alpha, beta, t, theta)
        best = np.float32(1e9)
        j = 0
        for i in range(K):
            m0 = m1 = m2 = np.float32(-2)
            row = near[ids[i]]
            for o in range(K):
                if o != i:
                    s = row[ids[o]]
                    if s > m0:
                        m2, m1, m0 = m1, m0, s
                    elif s > m1:
                        m2, m1 = m1, s
                    elif s > m2:
                        m2 = s
            novelty = np.float32(0.5)
            if K > 1:
                total = m0
                if K > 2:
                    total += m1
                if K > 3:
                    total += m2
                novelty = min(max(np.float32(1) - total / np.float32(min(K - 1, 3)), np.float32(0)), np.float32(1))
            score = theta[i] + np.float32(0.3) * novelty
            if score < best or (score == best and born[i] < born[j]):
                best = score
                j = i
        return j

    def insert(state, slot, t, K, gone):
        state[0][slot] = 2
        state[1][slot] = 1

    return Eviction(compiled(init), compiled(touch), compiled(victim), compiled(insert), random=True)


def weighted_value(compiled: Callable) -> Eviction:
    """`policies.victims.weighted_value`: the least sum of recency, frequency and novelty leaves."""

    def init(K):
        return np.zeros(K, np.int32), np.zeros(K, np.int32)

    def touch(state, t, n, K, item, here, i0, i1, i2):
        last, count = state
        if i0 >= 0:
            last[i0] = t
            count[i0] += 1
        if i1 >= 0:
            last[i1] = t
            count[i1] += 1
        if i2 >= 0:
            last[i2] = t
            count[i2] += 1

    def victim(state, t, K, ids, born, near):
        last, count = state
        offers = np.float32(t + 1)
        best = np.float32(1e9)
        j = 0
        for i in range(K):
            nearest = np.float32(0)
            row = near[ids[i]]
            for o in range(K):
                if o != i:
                    nearest = max(nearest, row[ids[o]])
            idle = np.float32(t - last[i])
            value = (
                np.float32(0.4) * np.exp(-idle / np.float32(100))
                + np.float32(0.3) * np.float32(count[i]) / offers
                + np.float32(0.3) * min(max(np.float32(1) - nearest, np.float32(0)), np.float32(1))
            )
            if value < best or (value == best and born[i] < born[j]):
                best = value
                j = i
        return j

    def insert(state, slot, t, K, gone):
        state[0][slot] = t
        state[1][slot] = 0

    return Eviction(*map(compiled, (init, touch, victim, insert)))
