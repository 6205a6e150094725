"""The offline oracle: keeps what the most later scored queries will find relevant.

When full, the least useful of residents and candidate goes: fewest later uses, then the farthest next one,
then the earliest inserted, the candidate counting as the last.
"""

from __future__ import annotations

import math

from tests.oracles.simulator import Moment, Rule


class Clairvoyant(Rule):
    """Sees the future through `Moment.uses`."""

    def _least(self, m: Moment) -> int:
        def usefulness(i: int) -> tuple[int, float]:
            uses = m.uses(i)
            return len(uses), -(uses[0] if uses else math.inf)

        return min([*m.residents, m.candidate], key=usefulness)

    def admit(self, m: Moment) -> bool:
        if m.candidate is None:
            return False
        return not m.full or m.candidate in m.residents or self._least(m) != m.candidate

    def victim(self, m: Moment) -> int:
        return self._least(m)
