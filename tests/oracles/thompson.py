"""The Thompson victim (specification 2.3) with one small record per resident.

Choices where the specification is silent:
  * A resident's age and idle time count from its insertion; idle time is in shown queries and restarts when
    it is retrieved, liked or not. Idle ageing happens at every full period of idleness.
  * The global ageing clock counts shown queries, also those on an empty cache.
  * Negative feedback adds 1 to beta. Ageing spares what this query retrieved, liked or not.
  * Discounting comes before the evidence of the same query, once per shown query.
"""

from __future__ import annotations

import math

from tests.oracles.simulator import Moment, Rule, clip01


def novelty(m: Moment, i: int) -> float:
    """1 - mean cosine to the 3 nearest other residents, in [0, 1]; 0.5 alone."""
    others = sorted((m.cosine(i, j) for j in m.residents if j != i), reverse=True)[:3]
    return clip01(1 - sum(others) / len(others)) if others else 0.5


class Thompson(Rule):
    """Evicts the resident with the smallest sampled utility plus novelty bonus."""

    def __init__(
        self,
        bonus: str = "similarity",
        ageing: str = "global",
        clock: str = "steps",
        forget: str = "none",
        prior_alpha: float = 2.0,
        prior_beta: float = 1.0,
        bonus_weight: float = 0.3,
        age_scale: float = 20.0,
        age_step: float = 0.05,
        age_period: int = 5,
        discount: float = 0.99,
    ) -> None:
        self.bonus, self.ageing, self.clock, self.forget = bonus, ageing, clock, forget
        self.prior = (prior_alpha, prior_beta)
        self.bonus_weight, self.age_scale = bonus_weight, age_scale
        self.age_step, self.age_period, self.discount = age_step, int(age_period), discount
        self.alpha: dict[int, float] = {}
        self.beta: dict[int, float] = {}
        self.born: dict[int, int] = {}
        self.last_retrieved: dict[int, int] = {}

    def touch(self, m: Moment) -> None:
        if not m.shown:
            return
        for i in m.residents:
            if self.forget == "discount":
                self.alpha[i] = self.prior[0] + self.discount * (self.alpha[i] - self.prior[0])
                self.beta[i] = self.prior[1] + self.discount * (self.beta[i] - self.prior[1])
            if i in m.touched:
                self.alpha[i] += 1
            if i in m.disliked:
                self.beta[i] += 1
            if i in m.retrieved:
                self.last_retrieved[i] = m.query_count
                continue
            idle = m.query_count - self.last_retrieved[i]
            due = {
                "global": m.query_count % self.age_period == 0,
                "idle": idle % self.age_period == 0,
                "none": False,
            }[self.ageing]
            if due:
                self.beta[i] += self.age_step

    def _bonus(self, m: Moment, i: int) -> float:
        now = m.t if self.clock == "steps" else m.query_count
        decay = math.exp(-(now - self.born[i]) / self.age_scale)
        factor = {
            "similarity": lambda: novelty(m, i),
            "age": lambda: decay,
            "similarity_age": lambda: novelty(m, i) * decay,
            "none": lambda: 0.0,
        }[self.bonus]()
        return self.bonus_weight * factor

    def victim(self, m: Moment) -> int:
        slots = [m.slot[i] for i in m.residents]
        theta = m.draws.theta(m.t, slots, [self.alpha[i] for i in m.residents], [self.beta[i] for i in m.residents])
        sampled = dict(zip(m.residents, theta, strict=True))
        return min(m.residents, key=lambda i: float(sampled[i]) + self._bonus(m, i))

    def written(self, m: Moment, evicted: int | None) -> None:
        self.alpha[m.candidate], self.beta[m.candidate] = self.prior
        self.born[m.candidate] = m.t if self.clock == "steps" else m.query_count
        self.last_retrieved[m.candidate] = m.query_count
