"""Oracles that are wrong in one detail each: what the comparison with the engine must notice."""

from __future__ import annotations

from typing import Any

from tests.oracles import Bernoulli, Composed, Fifo, RegretGate
from tests.oracles.arc import Arc
from tests.oracles.clairvoyant import Clairvoyant
from tests.oracles.classic import Always, Lfu, Lru, Random
from tests.oracles.controls import Reservoir
from tests.oracles.simulator import Moment
from tests.oracles.thompson import Thompson


class StrictGate(RegretGate):
    """Needs more than the threshold, not as much."""

    def admit(self, m: Moment) -> bool:
        before = self.c
        admitted = super().admit(m)
        if admitted and before + self.tau == 2 * self.tau and not self._filling(m):
            self.c = before
            return False
        return admitted


class LateLru(Lru):
    """Ties go to the latest inserted."""

    def victim(self, m: Moment) -> int:
        return min(reversed(m.residents), key=lambda i: self.last[i])


class GenerousLfu(Lfu):
    """An arrival that is resident already counts as an access."""

    def touch(self, m: Moment) -> None:
        super().touch(m)
        if m.candidate in m.residents:
            self.count[m.candidate] += 1


class ForgetfulArc(Arc):
    """An arrival that is resident already is no access."""

    def touch(self, m: Moment) -> None:
        m.candidate, kept = None, m.candidate
        super().touch(m)
        m.candidate = kept


class EagerClairvoyant(Clairvoyant):
    """Admits an item that is worth as much as the victim."""

    def admit(self, m: Moment) -> bool:
        if m.candidate is None or not m.full:
            return m.candidate is not None
        return self._usefulness(m, m.candidate) >= self._usefulness(m, self.victim(m))


class GreedyReservoir(Reservoir):
    """Counts arrivals of residents too."""

    def admit(self, m: Moment) -> bool:
        self.seen += m.candidate is not None and m.candidate in m.residents
        return super().admit(m)


class ShiftedThompson(Thompson):
    """Draws the numbers of the next step."""

    def victim(self, m: Moment) -> int:
        m.t += 1
        chosen = super().victim(m)
        m.t -= 1
        return chosen


def strict_fixed(threshold: str, signal: str, fill: str, lam: float, tau_per_lam: float, **params: Any) -> Composed:
    """`solar_fixed` with a gate that wants more than its threshold."""
    eviction = {name: value for name, value in params.items() if name not in ("ema", "tau0")}
    return Composed(StrictGate(threshold, signal, fill, lam, tau_per_lam=tau_per_lam), Thompson(**eviction))


WRONG: dict[str, Any] = {
    "lru": lambda: Composed(Always(), LateLru()),
    "lfu": lambda: Composed(Always(), GenerousLfu()),
    "arc": ForgetfulArc,
    "oracle": EagerClairvoyant,
    "reservoir": lambda: Composed(GreedyReservoir(), Random()),
    "solar_e": lambda **params: Composed(Always(), ShiftedThompson(**params)),
    "bernoulli": lambda p, fill: Composed(Bernoulli(p * 0.9, fill), Fifo()),
    "solar_fixed": strict_fixed,
}
