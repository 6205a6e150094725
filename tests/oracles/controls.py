"""Content-blind admission rules: a coin, keep-first, and the reservoir's.

Choices where the specification is silent: the coin admits when `u < p`; the reservoir (Vitter's algorithm R)
admits the n-th arrival of an item that is not resident when `u * n < K`, and evicts at random; an arrival of a
resident is neither counted nor drawn for.
"""

from __future__ import annotations

from tests.oracles.simulator import Moment, Rule


class Bernoulli(Rule):
    """Admits by a coin; while filling up always, unless `fill` is gated."""

    def __init__(self, p: float = 0.17, fill: str = "free") -> None:
        self.p, self.fill = p, fill

    def admit(self, m: Moment) -> bool:
        if m.candidate is None:
            return False
        return (self.fill == "free" and not m.full) or m.draws.uniform(m.t) < self.p


class KeepFirst(Rule):
    """Never changes a full cache."""

    def admit(self, m: Moment) -> bool:
        return not m.full


class Reservoir(Rule):
    """Every arrival so far is resident with the same probability."""

    def __init__(self) -> None:
        self.seen = 0

    def admit(self, m: Moment) -> bool:
        if m.candidate is None or m.candidate in m.residents:
            return False
        self.seen += 1
        return not m.full or m.draws.uniform(m.t) * self.seen < m.capacity
