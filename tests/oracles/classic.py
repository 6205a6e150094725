"""FIFO, LRU, LFU and the random victim (specification 2). Ties go to the earliest inserted resident.

An arrival that is resident already is no access: with that the recorded runs of the release are exact.
"""

from __future__ import annotations

from tests.oracles.simulator import Moment, Rule


class Always(Rule):
    """Admits everything."""


class Fifo(Rule):
    """The earliest inserted leaves."""

    def victim(self, m: Moment) -> int:
        return m.residents[0]


class Lru(Rule):
    """The smallest `last_accessed` leaves; insertion and retrieval in the top-k count as an access."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}

    def touch(self, m: Moment) -> None:
        for i in m.touched:
            self.last[i] = m.t

    def victim(self, m: Moment) -> int:
        return min(m.residents, key=lambda i: self.last[i])

    def written(self, m: Moment, evicted: int | None) -> None:
        self.last[m.candidate] = m.t


class Lfu(Rule):
    """The smallest access count leaves; it starts at 0 on insertion."""

    def __init__(self) -> None:
        self.count: dict[int, int] = {}

    def touch(self, m: Moment) -> None:
        for i in m.touched:
            self.count[i] += 1

    def victim(self, m: Moment) -> int:
        return min(m.residents, key=lambda i: self.count[i])

    def written(self, m: Moment, evicted: int | None) -> None:
        self.count[m.candidate] = 0


class Random(Rule):
    """A uniformly random resident leaves."""

    def victim(self, m: Moment) -> int:
        chosen = m.draws.pick(m.t, [m.slot[i] for i in m.residents])
        return next(i for i in m.residents if m.slot[i] == chosen)
