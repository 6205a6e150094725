"""ARC as evaluated (specification 2.1), with ordered dictionaries: first key = LRU end, last key = MRU end.

Where the specification is silent, as the recorded runs of the authors' release have it: an arrival that is
resident already is an access, after those of this step's retrieval; the list sizes in the update of p include
the ghost that is then removed; a ghost list drops its LRU end when it exceeds K. p is a real number.
"""

from __future__ import annotations

from collections import OrderedDict

from tests.oracles.simulator import Moment, Rule


class Arc(Rule):
    """T1 once accessed, T2 more than once, B1 and B2 their ghosts, p the target size of T1."""

    def __init__(self) -> None:
        self.t1: OrderedDict[int, None] = OrderedDict()
        self.t2: OrderedDict[int, None] = OrderedDict()
        self.b1: OrderedDict[int, None] = OrderedDict()
        self.b2: OrderedDict[int, None] = OrderedDict()
        self.p = 0.0

    def touch(self, m: Moment) -> None:
        again = [m.candidate] if m.candidate in m.residents else []
        for i in m.touched + again:
            self.t1.pop(i, None)
            self.t2.pop(i, None)
            self.t2[i] = None

    def _target(self, m: Moment) -> float:
        """p after this arrival."""
        if m.candidate in self.b1:
            return min(self.p + max(1.0, len(self.b2) / max(len(self.b1), 1)), m.capacity)
        if m.candidate in self.b2:
            return max(self.p - max(1.0, len(self.b1) / max(len(self.b2), 1)), 0.0)
        return self.p

    def victim(self, m: Moment) -> int:
        p, in_b2 = self._target(m), m.candidate in self.b2
        if self.t1 and (len(self.t1) > p or (in_b2 and len(self.t1) == int(p)) or not self.t2):
            return next(iter(self.t1))
        return next(iter(self.t2))

    def written(self, m: Moment, evicted: int | None) -> None:
        self.p = self._target(m)
        returning = m.candidate in self.b1 or m.candidate in self.b2
        self.b1.pop(m.candidate, None)
        self.b2.pop(m.candidate, None)
        if evicted is not None:
            resident, ghosts = (self.t1, self.b1) if evicted in self.t1 else (self.t2, self.b2)
            del resident[evicted]
            ghosts[evicted] = None
            if len(ghosts) > m.capacity:
                ghosts.popitem(last=False)
        (self.t2 if returning else self.t1)[m.candidate] = None
