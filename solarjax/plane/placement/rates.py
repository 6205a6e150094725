"""Rates that decide what a cached capsule is worth: how often it is used, how often its kind is corrected, how long a
node keeps blocks. All are counts that decay exponentially, so they follow change and need no windows."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable

MAX_KEYS = 100_000


class Decayed:
    """Events per second, by key: an event weighs 1 when it happens and half as much every `half_life` seconds."""

    def __init__(self, half_life: float, max_keys: int = MAX_KEYS):
        self._decay = math.log(2.0) / half_life
        self._max = max_keys
        self._state: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def add(self, key: Hashable, now: float, weight: float = 1.0) -> None:
        """One event (or several) at an instant in seconds."""
        self._state[key] = (self.weight(key, now) + weight, now)
        self._state.move_to_end(key)
        if len(self._state) > self._max:
            self._state.popitem(last=False)

    def weight(self, key: Hashable, now: float) -> float:
        """Decayed number of events."""
        count, at = self._state.get(key, (0.0, now))
        return count * math.exp(-self._decay * max(now - at, 0.0))

    def rate(self, key: Hashable, now: float) -> float:
        """Events per second: a steady stream of rate r has decayed weight r / decay."""
        return self.weight(key, now) * self._decay

    def forget(self, key: Hashable) -> None:
        """Drops a key."""
        self._state.pop(key, None)


def at_least_once(rate: float, seconds: float) -> float:
    """Probability of one event or more in a span, for events that come independently: 1 - exp(-rate * seconds)."""
    return -math.expm1(-max(rate, 0.0) * max(seconds, 0.0))


class Brier:
    """Mean squared error of forecast probabilities, and that of always forecasting the base rate."""

    def __init__(self) -> None:
        self.count = 0
        self._error = 0.0
        self._happened = 0

    def add(self, probability: float, happened: bool) -> None:
        """One forecast that has come due."""
        self.count += 1
        self._error += (probability - happened) ** 2
        self._happened += happened

    @property
    def score(self) -> float | None:
        """0 is perfect; None before the first forecast."""
        return self._error / self.count if self.count else None

    @property
    def base(self) -> float | None:
        """What a constant forecast of the observed frequency would have scored."""
        if not self.count:
            return None
        frequency = self._happened / self.count
        return frequency * (1.0 - frequency)


class Forecasts:
    """Open forecasts "this key is used again on this node before that instant", scored when used or overdue."""

    def __init__(self, max_open: int = 10_000):
        self.brier = Brier()
        self._max = max_open
        self._open: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def make(self, key: Hashable, probability: float, until: float) -> None:
        """A forecast for a key; one that is open for it stays."""
        if key not in self._open and len(self._open) < self._max:
            self._open[key] = (probability, until)

    def used(self, key: Hashable, now: float) -> None:
        """The key was used: its forecast has come true, or was overdue."""
        found = self._open.pop(key, None)
        if found is not None:
            self.brier.add(found[0], now <= found[1])

    def expire(self, now: float) -> None:
        """Scores forecasts whose time is over."""
        for key in [key for key, (_, until) in self._open.items() if until < now]:
            self.brier.add(self._open.pop(key)[0], False)
