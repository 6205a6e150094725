"""How long one node takes to its first token, learnt from what it did.

    TTFT(u) = a + b u + c u^2      milliseconds; u = prompt tokens that are not cached

Attention makes prefill mildly quadratic, so one figure a token would be wrong at one end or the other. The coefficients
are exponentially forgotten least squares, drawn towards a prior, so that a new node has an estimate and a few equal
prompts do not make it run away. Machines differ most in the price of a token, so there the prior is weakest: what a few
prompts take longer than expected is put down to their length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FORGET = 0.98
"""Each observation weighs this much less with every later one: a memory of about 50."""
PRIOR_WEIGHT = (0.5, 0.005, 0.5)
"""Of each coefficient's prior, in observations of that coefficient alone."""
PRIOR_MS = (60.0, 600.0, 100.0)
"""a in ms, b in ms per 1,000 tokens, c in ms per (1,000 tokens) squared; a small model on one CPU core. Used only until
a node has been measured."""
SURPRISE = 4.0
"""An observation counts as at most this many times the estimate: a machine that was busy for a moment is not a slow
one, and one that is slow for good is still found out within a few requests."""
MEASURED = 8
"""Observations from which on an estimate counts as measured."""


class Curve(NamedTuple):
    """Coefficients of TTFT(u); u in tokens, result in milliseconds. None is negative."""

    a: float
    b: float
    c: float

    def __call__(self, uncached: float) -> float:
        """Milliseconds to the first token."""
        return self.a + self.b * uncached + self.c * uncached * uncached


class Latency:
    """Online estimate for one node.

    Attributes:
      observations: number so far.
      decode_ms: decayed mean time between tokens, None before the first.
    """

    def __init__(self) -> None:
        self.observations = 0
        self.decode_ms: float | None = None
        prior = np.asarray(PRIOR_MS)
        # In units of 1,000 tokens all three features are near 1, so their weights compare.
        self._ridge = np.diag(PRIOR_WEIGHT)
        self._pull = self._ridge @ prior
        self._gram = np.zeros((3, 3))
        self._moment = np.zeros(3)
        self.curve = self._solve()

    @property
    def measured(self) -> bool:
        """True once the estimate rests on observations rather than on the prior."""
        return self.observations >= MEASURED

    def observe(self, uncached: int, ttft_ms: float) -> None:
        """One request that did not wait for others.

        Args:
          uncached: prompt tokens that the engine had to compute.
          ttft_ms: from sending the request to its first content byte.
        """
        x = np.array([1.0, uncached / 1e3, (uncached / 1e3) ** 2])
        self._gram = FORGET * self._gram + np.outer(x, x)
        self._moment = FORGET * self._moment + x * min(ttft_ms, SURPRISE * self.curve(uncached))
        self.observations += 1
        self.curve = self._solve()

    def observe_decode(self, ms_per_token: float) -> None:
        """Mean time between two tokens of one finished stream."""
        old = self.decode_ms
        self.decode_ms = ms_per_token if old is None else 0.9 * old + 0.1 * ms_per_token

    def _solve(self) -> Curve:
        # Non-negative by active set: the most negative coefficient is fixed at 0 and the rest solved again.
        free = [0, 1, 2]
        solution = np.zeros(3)
        gram, moment = self._gram + self._ridge, self._moment + self._pull
        while free:
            part = np.linalg.solve(gram[np.ix_(free, free)], moment[free])
            if part.min() >= 0:
                solution[free] = part
                break
            free.pop(int(part.argmin()))
        return Curve(float(solution[0]), float(solution[1]) / 1e3, float(solution[2]) / 1e6)
