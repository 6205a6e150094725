"""LRU-K, GDSF and W-TinyLFU by their definitions, with dictionaries of what is known of each item."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict

from tests.oracles.queues import accessed
from tests.oracles.simulator import Moment, Rule


class LruK(Rule):
    """Evicts by the time of the K-th last access; histories of the last K evicted are retained."""

    def __init__(self, history: float = 2) -> None:
        self.depth = int(history)
        self.times: dict[int, list[int]] = {}
        self.retained: OrderedDict[int, list[int]] = OrderedDict()

    def touch(self, m: Moment) -> None:
        for i in accessed(m):
            self.times[i].append(m.t)

    def _key(self, i: int) -> tuple[float, int]:
        times = self.times[i]
        return (times[-self.depth] if len(times) >= self.depth else -math.inf, times[-1])

    def victim(self, m: Moment) -> int:
        return min(m.residents, key=self._key)

    def written(self, m: Moment, evicted: int | None) -> None:
        assert m.candidate is not None
        past = self.retained.pop(m.candidate, [])
        if evicted is not None:
            self.retained[evicted] = self.times.pop(evicted)
            if len(self.retained) > m.capacity:
                self.retained.popitem(last=False)
        self.times[m.candidate] = [*past, m.t]


class Gdsf(Rule):
    """Priority = clock + frequency * cost; size 1."""

    def __init__(self, miss_weight: float = 0.0) -> None:
        self.miss_weight = miss_weight
        self.clock = 0.0
        self.frequency: dict[int, int] = {}
        self.cost: dict[int, float] = {}
        self.priority: dict[int, float] = {}

    def _rate(self, i: int) -> None:
        self.priority[i] = self.clock + self.frequency[i] * self.cost[i]

    def touch(self, m: Moment) -> None:
        for i in accessed(m):
            self.frequency[i] += 1
            self._rate(i)

    def victim(self, m: Moment) -> int:
        return min(m.residents, key=lambda i: self.priority[i])

    def written(self, m: Moment, evicted: int | None) -> None:
        assert m.candidate is not None
        if evicted is not None:
            self.clock = self.priority[evicted]
        self.frequency[m.candidate] = 1
        self.cost[m.candidate] = 1 + self.miss_weight * m.miss
        self._rate(m.candidate)


class Sketch:
    """Four rows of 4-bit counters, halved after ten accesses per slot of the cache."""

    MULTIPLIERS = (2654435761, 2246822507, 3266489917, 668265263)

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bits = max(6, math.ceil(math.log2(2 * capacity)))
        self.rows: list[Counter[int]] = [Counter() for _ in self.MULTIPLIERS]
        self.counted = 0

    def _cells(self, item: int) -> list[tuple[Counter[int], int]]:
        columns = [item * a % 2**32 // 2 ** (32 - self.bits) for a in self.MULTIPLIERS]
        return list(zip(self.rows, columns, strict=True))

    def add(self, items: list[int]) -> None:
        """Counts what one step accessed."""
        for item in items:
            for row, column in self._cells(item):
                row[column] = min(row[column] + 1, 15)
        self.counted += len(items)
        if self.counted >= 10 * self.capacity:
            self.counted //= 2
            self.rows = [Counter({column: n // 2 for column, n in row.items()}) for row in self.rows]

    def estimate(self, item: int) -> int:
        """How often, at most, up to the halvings."""
        return min(row[column] for row, column in self._cells(item))


class WTinyLfu(Rule):
    """Window, probation and protected as three sets; recency is a step, equal ones go by insertion."""

    def __init__(self, window_fraction: float = 0.01, protected_fraction: float = 0.8) -> None:
        self.window_fraction, self.protected_fraction = window_fraction, protected_fraction
        self.window: set[int] = set()
        self.probation: set[int] = set()
        self.protected: set[int] = set()
        self.last: dict[int, int] = {}
        self.sketch: Sketch | None = None

    def _oldest(self, m: Moment, members: set[int]) -> int:
        return min((i for i in m.residents if i in members), key=lambda i: self.last[i])

    def _window_slots(self, m: Moment) -> int:
        return max(1, math.floor(self.window_fraction * m.capacity))

    def touch(self, m: Moment) -> None:
        self.sketch = self.sketch or Sketch(m.capacity)
        hit = accessed(m)
        for i in hit:
            self.last[i] = m.t
        self.protected |= hit & self.probation
        self.probation -= hit
        while len(self.protected) > math.floor(self.protected_fraction * (m.capacity - self._window_slots(m))):
            i = self._oldest(m, self.protected)
            self.protected.remove(i)
            self.probation.add(i)
            self.last[i] = m.t
        arrives = [] if m.candidate is None or m.candidate in m.touched else [m.candidate]
        self.sketch.add([*m.touched, *arrives])

    def victim(self, m: Moment) -> int:
        assert self.sketch is not None
        newer = self._oldest(m, self.window)
        main = self.probation or self.protected
        if not main:
            return newer
        older = self._oldest(m, main)
        return older if self.sketch.estimate(newer) > self.sketch.estimate(older) else newer

    def written(self, m: Moment, evicted: int | None) -> None:
        assert m.candidate is not None
        for region in (self.window, self.probation, self.protected):
            region.discard(evicted)  # type: ignore[arg-type]
        if len(self.window) >= self._window_slots(m):
            i = self._oldest(m, self.window)
            self.window.remove(i)
            self.probation.add(i)
            self.last[i] = m.t
        self.window.add(m.candidate)
        self.last[m.candidate] = m.t
