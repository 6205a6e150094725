"""Rules that look at how near residents are to each other, and the greedy form of the Thompson victim."""

from __future__ import annotations

import math

from tests.oracles.simulator import Moment, Rule
from tests.oracles.thompson import Thompson, novelty


class Redundancy(Rule):
    """Of the most similar pair of residents, the one inserted first."""

    def victim(self, m: Moment) -> int:
        return max(m.residents, key=lambda i: max((m.cosine(i, j) for j in m.residents if j != i), default=-math.inf))


class KCenter(Rule):
    """The resident nearest to another point, the arriving item among them; then the second nearest decides."""

    def victim(self, m: Moment) -> int:
        assert m.candidate is not None
        points = [*m.residents, m.candidate]
        return max(m.residents, key=lambda i: sorted((m.cosine(i, j) for j in points if j != i), reverse=True)[:2])


class PosteriorMean(Thompson):
    """The smallest mean of the posterior plus novelty bonus."""

    def __init__(self, **params: float) -> None:
        super().__init__(bonus="similarity", ageing="global", **params)  # type: ignore[arg-type]

    def victim(self, m: Moment) -> int:
        def worth(i: int) -> float:
            return self.alpha[i] / (self.alpha[i] + self.beta[i]) + self.bonus_weight * novelty(m, i)

        return min(m.residents, key=worth)
