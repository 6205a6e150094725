"""2Q, S3-FIFO and SIEVE with real queues, walked as their papers walk them.

Carried over to semantic hits: an access is a retrieval or the arrival of a resident, one per step; ghosts are item
ids. Residents accessed at the same step are equally recent, and the earliest inserted goes first.
"""

from __future__ import annotations

import math
from collections import deque

from tests.oracles.simulator import Moment, Rule


def accessed(m: Moment) -> set[int]:
    """Ids accessed at this step."""
    return set(m.touched) | ({m.candidate} & set(m.residents))  # type: ignore[arg-type]


class TwoQ(Rule):
    """A1in is a queue, Am goes by recency, A1out is a queue of ids."""

    def __init__(self, in_fraction: float = 0.25, out_fraction: float = 0.5) -> None:
        self.in_fraction, self.out_fraction = in_fraction, out_fraction
        self.a1in: deque[int] = deque()
        self.a1out: deque[int] = deque()
        self.am: dict[int, int] = {}

    def touch(self, m: Moment) -> None:
        for i in accessed(m):
            if i in self.am:
                self.am[i] = m.t

    def victim(self, m: Moment) -> int:
        if self.am and len(self.a1in) <= max(1, math.floor(self.in_fraction * m.capacity)):
            return min((i for i in m.residents if i in self.am), key=lambda i: self.am[i])
        return self.a1in[0]

    def written(self, m: Moment, evicted: int | None) -> None:
        assert m.candidate is not None
        returns = m.candidate in self.a1out
        if returns:
            self.a1out.remove(m.candidate)
        if evicted in self.am:
            del self.am[evicted]
        elif evicted is not None:
            self.a1in.remove(evicted)
            self.a1out.append(evicted)
            while len(self.a1out) > max(1, math.floor(self.out_fraction * m.capacity)):
                self.a1out.popleft()
        if returns:
            self.am[m.candidate] = m.t
        else:
            self.a1in.append(m.candidate)


class S3Fifo(Rule):
    """Left end: the tail, where items leave."""

    def __init__(self, small_fraction: float = 0.1) -> None:
        self.small_fraction = small_fraction
        self.small: deque[int] = deque()
        self.main: deque[int] = deque()
        self.ghost: deque[int] = deque()
        self.count: dict[int, int] = {}

    def touch(self, m: Moment) -> None:
        for i in accessed(m):
            self.count[i] = min(self.count[i] + 1, 3)

    def victim(self, m: Moment) -> int:
        if len(self.small) >= self.small_fraction * m.capacity:
            while self.small:
                i = self.small.popleft()
                if self.count[i] <= 1:
                    self.ghost.append(i)
                    while len(self.ghost) > max(1, m.capacity - math.floor(self.small_fraction * m.capacity)):
                        self.ghost.popleft()
                    return i
                self.count[i] = 0
                self.main.append(i)
        while True:
            i = self.main.popleft()
            if self.count[i] == 0:
                return i
            self.count[i] -= 1
            self.main.append(i)

    def written(self, m: Moment, evicted: int | None) -> None:
        assert m.candidate is not None
        if m.candidate in self.ghost:
            self.ghost.remove(m.candidate)
            self.main.append(m.candidate)
        else:
            self.small.append(m.candidate)
        self.count[m.candidate] = 0


class Sieve(Rule):
    """A list from old to new and a hand that walks along it."""

    def __init__(self) -> None:
        self.queue: list[int] = []
        self.visited: set[int] = set()
        self.hand: int | None = None

    def touch(self, m: Moment) -> None:
        self.visited |= accessed(m)

    def _newer(self, i: int) -> int | None:
        at = self.queue.index(i) + 1
        return self.queue[at] if at < len(self.queue) else None

    def victim(self, m: Moment) -> int:
        here = self.queue[0] if self.hand is None else self.hand
        while here in self.visited:
            self.visited.remove(here)
            following = self._newer(here)
            here = self.queue[0] if following is None else following
        self.hand = self._newer(here)
        self.queue.remove(here)
        return here

    def written(self, m: Moment, evicted: int | None) -> None:
        assert m.candidate is not None
        self.queue.append(m.candidate)
