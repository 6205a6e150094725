"""The offline oracle: keeps what the most later scored queries will find relevant.

When full, the least useful resident goes: fewest later uses, then the farthest next one, then the earliest
inserted. The candidate is refused unless it is strictly more useful than that resident.
"""

from __future__ import annotations

import math

from tests.oracles.simulator import Moment, Rule


class Clairvoyant(Rule):
    """Sees the future through `Moment.uses`."""

    @staticmethod
    def _usefulness(m: Moment, i: int) -> tuple[int, float]:
        uses = m.uses(i)
        return len(uses), -(uses[0] if uses else math.inf)

    def admit(self, m: Moment) -> bool:
        if m.candidate is None or not m.full:
            return m.candidate is not None
        return self._usefulness(m, m.candidate) > self._usefulness(m, self.victim(m))

    def victim(self, m: Moment) -> int:
        return min(m.residents, key=lambda i: self._usefulness(m, i))


class Cover(Rule):
    """Shares every later query among the cached items (and the candidate) that answer it; the least share goes.

    Shares are whole numbers of 1/2520, rounded down, as the policy defines them.
    """

    @staticmethod
    def _values(m: Moment) -> dict[int, int]:
        new = [] if m.candidate is None or m.candidate in m.residents else [m.candidate]
        answers = {i: {m.query_at(step) for step in m.uses(i)} for i in m.residents + new}
        carriers = {q: sum(q in own for own in answers.values()) for own in answers.values() for q in own}
        return {i: sum(2520 // carriers[q] for q in own) for i, own in answers.items()}

    def admit(self, m: Moment) -> bool:
        if m.candidate is None or not m.full:
            return m.candidate is not None
        values = self._values(m)
        return values.get(m.candidate, 0) > min(values[i] for i in m.residents)

    def victim(self, m: Moment) -> int:
        values = self._values(m)
        return min(m.residents, key=lambda i: values[i])
