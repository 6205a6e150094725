"""Admission of a request that wants to use capsules, and the fence around it.

    admission = gate.admit(tenant, ids)        one snapshot: epoch and versions belong together
    ... build the prompt, choose a node ...
    gate.fence(tenant, admission)              again right before the upstream call
    gate.fence(tenant, admission)              and before the first content byte is passed on

Guarantee (claim P07): an admission that begins after a correction was acknowledged contains neither the corrected
version nor anything derived from it. With the fence, no response whose first byte is passed on after the second fence
saw an ended version uses it. A stream that has begun is not torn off by a later correction: `overlaps` tells which
ones that concerns. Between a fence and the byte there is one read's time; nothing can close that but the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel
from sqlalchemy import Connection

from solarjax.plane import versions
from solarjax.plane.capsules import Capsule, VersionRef
from solarjax.plane.clock import FOREVER, Clock, to_datetime, to_micros
from solarjax.plane.database import Database
from solarjax.plane.errors import NotFound
from solarjax.plane.statements import Statement

_STATE = Statement(
    f"SELECT v.capsule, v.number, CASE WHEN {versions.HOLDS} THEN 1 ELSE 0 END AS holds FROM version v "
    "WHERE v.tid = :tid AND v.capsule IN (:capsules*)"
)


class Admission(BaseModel):
    """What one request may use.

    Attributes:
      epoch: the tenant's epoch of the snapshot.
      at: the instant at which validity was judged.
      capsules: the versions in force, in the order asked for.
    """

    epoch: int
    at: datetime
    capsules: tuple[Capsule, ...]

    @property
    def refs(self) -> tuple[VersionRef, ...]:
        """The versions used."""
        return tuple(capsule.ref for capsule in self.capsules)


class Fence(BaseModel):
    """Answer of the re-read. `passed` is False if a used version holds no longer; those are in `ended`."""

    epoch: int
    passed: bool
    ended: tuple[VersionRef, ...] = ()


class Gate:
    """Admission and fence over a catalogue's database.

    Args:
      database: the catalogue's.
      clock: judges validity windows; only epochs judge corrections.
    """

    def __init__(self, database: Database, clock: Clock):
        self._database = database
        self._clock = clock

    def admit(self, tenant: str, capsules: Sequence[str]) -> Admission:
        """The versions in force of these capsules, and the epoch they belong to, from one snapshot.

        Raises:
          NotFound: naming the first capsule without a version in force.
        """
        wanted = list(dict.fromkeys(capsules))

        def work(connection: Connection) -> Admission:
            state = versions.tenant_state(connection, tenant)
            # The instant is taken inside the snapshot: a version written before it is not "still to come".
            now = self._clock()
            vids = versions.in_force(connection, state.tid, wanted, now)
            found = {capsule.id: capsule for capsule in versions.load(connection, vids, now)}
            for name in wanted:
                if name not in found:
                    raise NotFound(f"capsule {name!r} does not exist", "capsules")
            return Admission(epoch=state.epoch, at=to_datetime(now), capsules=tuple(found[name] for name in wanted))

        return self._database.read(work)

    def fence(self, tenant: str, admission: Admission) -> Fence:
        """Looks again whether everything admitted still holds. Cheap while the epoch has not moved."""
        horizon = min((to_micros(c.ends_at, FOREVER) for c in admission.capsules), default=FOREVER)
        return self._again(tenant, admission.epoch, admission.refs, horizon)

    def check(self, tenant: str, epoch: int, refs: Sequence[VersionRef]) -> Fence:
        """The fence for a caller that kept only epoch and references."""
        return self._again(tenant, epoch, refs, None)

    def overlaps(self, tenant: str, admission: Admission) -> tuple[VersionRef, ...]:
        """After a stream has ended: the used versions that ended while it ran, to be reported, not hidden."""
        return self.fence(tenant, admission).ended

    def _again(self, tenant: str, epoch: int, refs: Sequence[VersionRef], horizon: int | None) -> Fence:
        def work(connection: Connection) -> Fence:
            state = versions.tenant_state(connection, tenant)
            now = self._clock()
            if epoch < state.floor_epoch or epoch > state.epoch:
                # A backup was restored since (or the epoch is made up): references from before mean nothing now.
                return Fence(epoch=state.epoch, passed=not refs, ended=tuple(refs))
            if horizon is not None and state.epoch == epoch and now < horizon:
                return Fence(epoch=state.epoch, passed=True)
            holding: set[tuple[str, int]] = set()
            for part in versions.chunks(sorted({ref.id for ref in refs})):
                values = {"tid": state.tid, "capsules": part, "at": now}
                holding.update((name, number) for name, number, holds in _STATE.rows(connection, values) if holds)
            ended = tuple(ref for ref in refs if (ref.id, ref.version) not in holding)
            return Fence(epoch=state.epoch, passed=not ended, ended=ended)

        return self._database.read(work)
