"""Two ways to admit that look right and are not. They exist to show that the checker catches what they do."""

from __future__ import annotations

import threading
import time

from solarjax.plane import versions
from solarjax.plane.admission import Admission
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.clock import to_datetime
from solarjax.plane.errors import NotFound


class TtlCache:
    """Answers from a cache that is at most `seconds` old: after a correction the old version is served until then."""

    def __init__(self, catalogue: Catalogue, seconds: float = 0.05):
        from solarjax.plane.admission import Gate

        self._gate = Gate(catalogue.database, catalogue.clock)
        self._seconds = seconds
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, ...], tuple[float, Admission]] = {}

    def admit(self, tenant: str, capsules: list[str]) -> Admission:
        """As `Gate.admit`, but possibly from the past."""
        key = tuple(capsules)
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and time.monotonic() - kept[0] < self._seconds:
            return kept[1]
        fresh = self._gate.admit(tenant, capsules)
        with self._lock:
            self._kept[key] = time.monotonic(), fresh
        return fresh


class TwoReads:
    """Reads the epoch in one transaction and each capsule in another: a write in between tears them.

    Args:
      catalogue: where from.
      pause: seconds between the two, what a request does between two queries. Long enough that a write comes in
        between even on a machine too busy to make many admissions.
    """

    def __init__(self, catalogue: Catalogue, pause: float = 0.1):
        self._catalogue = catalogue
        self._pause = pause

    def admit(self, tenant: str, capsules: list[str]) -> Admission:
        """As `Gate.admit`, but torn."""
        state = self._catalogue.state(tenant)
        time.sleep(self._pause)
        now = self._catalogue.clock()
        found = []
        for name in capsules:
            vids = self._catalogue.database.read(
                lambda connection, name=name: versions.in_force(connection, state.tid, [name], now)
            )
            if not vids:
                raise NotFound(f"capsule {name!r} does not exist")
            found += self._catalogue.database.read(lambda connection, vids=vids: versions.load(connection, vids, now))
        return Admission(epoch=state.epoch, at=to_datetime(now), capsules=tuple(found))
