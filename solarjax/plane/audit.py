"""The audit trail: what happened, what it ended and why, in the order of the epochs.

Nothing here is stored twice. What an event ended is in `ending`; the derivation that explains it is walked again over
the edges as they were at that epoch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from solarjax.plane import graph, versions
from solarjax.plane import tables as t
from solarjax.plane.capsules import VersionRef
from solarjax.plane.clock import to_datetime, to_end
from solarjax.plane.database import Database
from solarjax.plane.errors import NotFound
from solarjax.plane.results import Edge, Ending, Event, Impact, WriteResult

_PAGE = 1000


class Audit:
    """Reads the trail of a catalogue's database. Unknown tenants raise NotFound."""

    def __init__(self, database: Database):
        self._database = database

    def events(self, tenant: str, *, after: int = 0, limit: int = 100, capsule: str | None = None) -> list[Event]:
        """Events with epochs above `after`, oldest first; only those about `capsule` if given."""

        def work(connection: Connection) -> list[Event]:
            state = versions.tenant_state(connection, tenant)
            query = select(t.event).where(t.event.c.tid == state.tid, t.event.c.epoch > after)
            if capsule is not None:
                query = query.where(t.event.c.capsule == capsule)
            return [_event(row) for row in connection.execute(query.order_by(t.event.c.epoch).limit(limit))]

        return self._database.read(work)

    def event(self, tenant: str, epoch: int) -> Event:
        """The event of an epoch; raises NotFound if there is none."""

        def work(connection: Connection) -> Event:
            return self._event(connection, versions.tenant_state(connection, tenant).tid, epoch)

        return self._database.read(work)

    def ended_by(self, tenant: str, epoch: int, *, after: int = 0, limit: int = 100) -> list[Impact]:
        """All versions that an event ended, with the derivation behind each: nearest first, from position `after`.

        Raises:
          NotFound: if there is no such event.
        """

        def work(connection: Connection) -> list[Impact]:
            tid = versions.tenant_state(connection, tenant).tid
            self._event(connection, tid, epoch)
            return graph.impacts(connection, graph.ended_at(connection, tid, epoch), after, limit)

        return self._database.read(work)

    def all_ended(self, tenant: str, result: WriteResult) -> frozenset[VersionRef]:
        """Every version that a write ended, of which a result lists only a sample."""
        ended = set(result.ended_sample)
        if result.ended > len(ended):
            ended = set()
            while page := self.ended_by(tenant, result.epoch, after=len(ended), limit=_PAGE):
                ended.update(impact.ref for impact in page)
        return frozenset(ended)

    def why(self, tenant: str, ref: VersionRef) -> list[Ending]:
        """Everything that ended a version, oldest first; empty while it holds as written.

        Raises:
          NotFound: if there is no such version.
        """

        def work(connection: Connection) -> list[Ending]:
            tid = versions.tenant_state(connection, tenant).tid
            vid = versions.window(connection, tid, ref).vid
            rows = connection.execute(select(t.ending).where(t.ending.c.vid == vid).order_by(t.ending.c.epoch)).all()
            return [
                Ending(
                    event=self._event(connection, tid, row.epoch), cause=row.cause,
                    ends_from=to_end(row.ends_from),
                    path=_path(connection, tid, row.epoch, vid),
                )
                for row in rows
            ]  # fmt: skip

        return self._database.read(work)

    def edges(self, tenant: str, refs: Sequence[VersionRef], limit: int = 1000) -> tuple[list[Edge], bool]:
        """Derivations that some versions are an end of, and whether there are more than `limit`."""

        def work(connection: Connection) -> tuple[list[Edge], bool]:
            return graph.around(connection, versions.tenant_state(connection, tenant).tid, refs, limit)

        return self._database.read(work)

    def has_ended(self, tenant: str, ref: VersionRef) -> bool:
        """Whether anything ended a version, now or from a later instant on; cheaper than `why`.

        Raises:
          NotFound: if there is no such version.
        """

        def work(connection: Connection) -> bool:
            vid = versions.window(connection, versions.tenant_state(connection, tenant).tid, ref).vid
            return connection.execute(select(t.ending.c.vid).where(t.ending.c.vid == vid).limit(1)).first() is not None

        return self._database.read(work)

    def _event(self, connection: Connection, tid: int, epoch: int) -> Event:
        row = connection.execute(select(t.event).where(t.event.c.tid == tid, t.event.c.epoch == epoch)).one_or_none()
        if row is None:
            raise NotFound(f"there is no event with epoch {epoch}")
        return _event(row)


def _path(connection: Connection, tid: int, epoch: int, vid: int) -> tuple[VersionRef, ...]:
    steps = graph.path(graph.ended_at(connection, tid, epoch), vid)
    names = graph.name(connection, steps)
    return tuple(names[step][0] for step in steps)


def _event(row: Any) -> Event:
    return Event(
        epoch=row.epoch, operation=row.operation, capsule=row.capsule, actor=row.actor, reason=row.reason,
        at=to_datetime(row.at), result=json.loads(row.result),
    )  # fmt: skip
