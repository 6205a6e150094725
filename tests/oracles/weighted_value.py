"""The weighted-value victim of SOLAR-A (specification 2.4).

Choices where the specification is silent: candidates_seen counts every arrival offered, the present one
included; an item starts with 0 accesses and was last accessed when inserted; alone its novelty is 1.
"""

from __future__ import annotations

import math

from tests.oracles.simulator import Moment, Rule, clip01


class WeightedValue(Rule):
    """Evicts the smallest sum of recency, frequency and novelty."""

    def __init__(
        self,
        recency_weight: float = 0.4,
        frequency_weight: float = 0.3,
        novelty_weight: float = 0.3,
        recency_scale: float = 100.0,
    ) -> None:
        self.weights = (recency_weight, frequency_weight, novelty_weight)
        self.recency_scale = recency_scale
        self.last: dict[int, int] = {}
        self.count: dict[int, int] = {}

    def touch(self, m: Moment) -> None:
        for i in m.touched:
            self.last[i] = m.t
            self.count[i] += 1

    def value(self, m: Moment, i: int) -> float:
        """What keeping resident i is worth."""
        recency = math.exp(-(m.t - self.last[i]) / self.recency_scale)
        frequency = self.count[i] / max(m.offer_count, 1)
        nearest = max((m.cosine(i, j) for j in m.residents if j != i), default=0.0)
        a, b, c = self.weights
        return a * recency + b * frequency + c * clip01(1 - nearest)

    def victim(self, m: Moment) -> int:
        return min(m.residents, key=lambda i: self.value(m, i))

    def written(self, m: Moment, evicted: int | None) -> None:
        self.last[m.candidate] = m.t
        self.count[m.candidate] = 0
