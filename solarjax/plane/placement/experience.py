"""What the plane has seen of capsules: how often each is used, and how often their kinds are corrected."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

from solarjax.plane.capsules import Capsule, VersionRef
from solarjax.plane.placement.rates import Decayed, at_least_once

USE_HALF_LIFE = 600.0
CORRECTION_HALF_LIFE = 3600.0
HEAT_BASE = 4.0
"""Each level of heat is this many times as many uses: a prompt's order must not change with every request."""
_HYSTERESIS = 0.25
_KNOWN = 100_000
Key = tuple[str, str]


class Experience:
    """Rates of use and of correction. Keys are tenant and `id@version`, so a corrected capsule starts cold.

    Args:
      clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._uses = Decayed(USE_HALF_LIFE)
        self._corrections = Decayed(CORRECTION_HALF_LIFE)
        self._levels: OrderedDict[Key, int] = OrderedDict()
        self._kinds: OrderedDict[Key, str] = OrderedDict()
        self._of_kind: dict[Key, int] = {}
        # Writes are told from the threads that commit them.
        self._lock = threading.Lock()

    def used(self, tenant: str, capsules: Sequence[Capsule]) -> None:
        """A request was admitted with these."""
        now = self._clock()
        with self._lock:
            for capsule in capsules:
                key = (tenant, _name(capsule))
                self._uses.add(key, now)
                if key not in self._kinds:
                    self._kinds[key] = capsule.kind
                    self._of_kind[tenant, capsule.kind] = self._of_kind.get((tenant, capsule.kind), 0) + 1
                    if len(self._kinds) > _KNOWN:
                        old, kind = self._kinds.popitem(last=False)
                        self._of_kind[old[0], kind] -= 1

    def ended(self, tenant: str, refs: Collection[VersionRef]) -> None:
        """What ended counts against its kind."""
        now = self._clock()
        with self._lock:
            for ref in refs:
                key = (tenant, str(ref))
                kind = self._kinds.pop(key, None)
                if kind is not None:
                    self._of_kind[tenant, kind] -= 1
                    self._corrections.add((tenant, kind), now)
                self._uses.forget(key)
                self._levels.pop(key, None)

    def heat(self, tenant: str, capsule: Capsule) -> int:
        """Level of use, on a scale of powers of `HEAT_BASE`; it moves only when clearly past a border."""
        key = (tenant, _name(capsule))
        with self._lock:
            exact = math.log(1.0 + self._uses.weight(key, self._clock()), HEAT_BASE)
            level = self._levels.get(key, 0)
            if not level - _HYSTERESIS <= exact < level + 1 + _HYSTERESIS:
                level = int(exact)
                self._levels[key] = level
                self._levels.move_to_end(key)
                if len(self._levels) > _KNOWN:
                    self._levels.popitem(last=False)
            return level

    def p_reuse(self, tenant: str, capsules: Sequence[Capsule], seconds: float) -> float:
        """Mean probability, weighted by length, that a capsule is used again within a span."""
        total = sum(len(c.text) for c in capsules)
        if not total:
            return 0.0
        now = self._clock()
        with self._lock:
            return sum(
                len(c.text) * at_least_once(self._uses.rate((tenant, _name(c)), now), seconds) for c in capsules
            ) / total  # fmt: skip

    def p_stale(self, tenant: str, capsules: Sequence[Capsule], seconds: float, now_micros: int) -> float:
        """Probability that one of the capsules ends within a span: by its window, else by its kind's rate."""
        now = self._clock()
        rate = 0.0
        with self._lock:
            for capsule in capsules:
                if capsule.ends_at is not None and capsule.ends_at.timestamp() < now_micros / 1e6 + seconds:
                    return 1.0
                kind = (tenant, capsule.kind)
                rate += self._corrections.rate(kind, now) / max(self._of_kind.get(kind, 1), 1)
        return at_least_once(rate, seconds)


def _name(capsule: Capsule) -> str:
    return f"{capsule.id}@{capsule.version}"
