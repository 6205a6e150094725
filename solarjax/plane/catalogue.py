"""The catalogue: every operation on capsules as one transaction, with its epoch, audit entry and idempotency key.

A write is: lock the tenant and make its next epoch; if the idempotency key is known, undo and answer as before; do the
work; append the event. Event number and epoch are the same, so the audit trail is the order of everything that
happened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, select

from solarjax.plane import artifact_store, graph, invalidation, vectors, versions
from solarjax.plane import tables as t
from solarjax.plane.artifacts import ArtifactDraft
from solarjax.plane.capsules import Capsule, CapsuleContent, CapsuleDraft, VersionRef
from solarjax.plane.clock import ALWAYS, FOREVER, Clock, NewId, random_id, system_clock
from solarjax.plane.commit import Body, Intent, commit
from solarjax.plane.database import Database
from solarjax.plane.errors import Invalid, NotFound
from solarjax.plane.migrations import migrate
from solarjax.plane.results import Operation, Preview, WriteResult
from solarjax.plane.textindex import text_index
from solarjax.plane.vectors import Embedded
from solarjax.plane.versions import TenantState


class Catalogue:
    """Capsules of all tenants in one database.

    Args:
      database: a `Database`, or its URL or file.
      clock: microseconds since 1970 UTC.
      new_id: identities for capsules that come without one.

    Every method that takes a tenant raises NotFound if there is none of that name, and Unavailable as `Database` does.
    """

    def __init__(self, database: Database | str | Path, *, clock: Clock = system_clock, new_id: NewId = random_id):
        self.database = database if isinstance(database, Database) else Database(database)
        self.clock = clock
        self._new_id = new_id
        self.listeners: list[Callable[[str, WriteResult], None]] = []
        migrate(self.database, clock=clock)

    def close(self) -> None:
        """Closes the database; may be called more than once."""
        self.database.close()

    # -- tenants ---------------------------------------------------------------------------------------------------

    def add_tenant(self, name: str) -> bool:
        """Makes a tenant; False if it exists.

        Raises:
          Invalid: for a name that is not 1 to 64 letters, digits, '.', '_' or '-'.
        """
        if not (0 < len(name) <= 64 and name.isascii() and all(c.isalnum() or c in "._-" for c in name)):
            raise Invalid(f"tenant {name[:80]!r} is not 1 to 64 letters, digits, '.', '_' or '-'", "tenant")

        def work(connection: Connection) -> bool:
            if connection.execute(select(t.tenant.c.tid).where(t.tenant.c.name == name)).first():
                return False
            row = {"name": name, "epoch": 0, "floor_epoch": 0, "purge_epoch": 0, "created_at": self.clock()}
            tid = connection.execute(insert(t.tenant).returning(t.tenant.c.tid), row).scalar_one()
            text_index(connection).add_tenant(connection, tid)
            return True

        return self.database.write(work)

    def state(self, tenant: str) -> TenantState:
        """The tenant's epochs now."""
        return self.database.read(lambda connection: versions.tenant_state(connection, tenant))

    # -- writes ----------------------------------------------------------------------------------------------------

    def create(self, intent: Intent, draft: CapsuleDraft, vector: Embedded | None = None) -> WriteResult:
        """Writes the first version of a capsule, or of one all of whose versions have ended for good.

        Raises:
          Conflict: if it has a version in force in that window, or a source does not hold.
        """
        # The invented id is part of the answer only, so a repeated key gives the first one.
        capsule = draft.id or self._new_id()

        def body(connection: Connection, state: TenantState, now: int) -> WriteResult:
            begin, end = versions.bounds(draft, now, FOREVER)
            vid, ref = versions.write(connection, state, capsule, draft, begin, end, now)
            vectors.put(connection, state.tid, vid, vector)
            return WriteResult(epoch=state.epoch, operation="create", ref=ref)

        return self._write(intent, "create", draft, body)

    def correct(
        self, intent: Intent, ref: VersionRef, content: CapsuleContent, vector: Embedded | None = None
    ) -> WriteResult:
        """Replaces version `ref`, which was wrong; see invalidation.py.

        Raises:
          NotFound: no such version. Conflict: it no longer holds (somebody was first), or see `create`.
        """

        def body(connection: Connection, state: TenantState, now: int) -> WriteResult:
            result, vid = invalidation.correct(connection, state, now, ref, content)
            vectors.put(connection, state.tid, vid, vector)
            return result

        return self._write(intent, "correct", [ref, content], body)

    def supersede(
        self, intent: Intent, ref: VersionRef, content: CapsuleContent, vector: Embedded | None = None
    ) -> WriteResult:
        """Lets a new version follow `ref` from `content.valid_from` on (default now); raises as `correct`."""

        def body(connection: Connection, state: TenantState, now: int) -> WriteResult:
            result, vid = invalidation.supersede(connection, state, now, ref, content)
            vectors.put(connection, state.tid, vid, vector)
            return result

        return self._write(intent, "supersede", [ref, content], body)

    def expire(self, intent: Intent, ref: VersionRef, at: int | None = None) -> WriteResult:
        """Ends `ref` at an instant (default now); raises as `correct`."""

        def body(connection: Connection, state: TenantState, now: int) -> WriteResult:
            return invalidation.expire(connection, state, ref, now if at is None else at)

        return self._write(intent, "expire", [ref, at], body)

    def delete(self, intent: Intent, capsule: str, *, expected: int | None = None, erase: bool = False) -> WriteResult:
        """Ends all versions of a capsule for good; `erase` wipes content as well.

        Raises:
          NotFound: it never existed. Conflict: `expected` is not its newest version.
        """

        def body(connection: Connection, state: TenantState, now: int) -> WriteResult:
            return invalidation.remove(connection, state, capsule, expected, erase)

        return self._write(intent, "delete", [capsule, expected, erase], body, capsule)

    def restore(self, intent: Intent, ref: VersionRef) -> WriteResult:
        """Writes the content of a version again, as a new version that follows all that still holds.

        Raises:
          NotFound: no such version. Invalid: it was erased. Conflict: as `create`.
        """

        def body(connection: Connection, state: TenantState, now: int) -> WriteResult:
            result, vid = invalidation.restore(connection, state, now, ref)
            vectors.copy(connection, state.tid, versions.window(connection, state.tid, ref).vid, vid)
            return result

        return self._write(intent, "restore", ref, body)

    def link(self, intent: Intent, source: VersionRef, derived: VersionRef) -> WriteResult:
        """Records that `derived` was made from `source`.

        Raises:
          Conflict: if one does not hold, or `derived` outlives `source`.
        """

        def body(connection: Connection, state: TenantState, now: int) -> WriteResult:
            graph.link(connection, state, source, derived)
            return WriteResult(epoch=state.epoch, operation="link", ref=derived)

        return self._write(intent, "link", [source, derived], body)

    def attach(self, intent: Intent, draft: ArtifactDraft) -> WriteResult:
        """Records an artifact.

        Raises:
          Conflict: if a version it was made from does not hold: what is stale already must not become reusable.
        """

        def body(connection: Connection, state: TenantState, now: int) -> WriteResult:
            aid = artifact_store.put(connection, state, draft)
            return WriteResult(epoch=state.epoch, operation="attach", ref=draft.made_from[0], artifact_id=aid)

        return self._write(intent, "attach", draft, body)

    def preview(self, tenant: str, ref: VersionRef, *, at: int = ALWAYS, limit: int = 100) -> Preview:
        """What ending `ref` from an instant on would end, and by which derivation; nothing is changed.

        Args:
          at: ALWAYS for a correction or deletion of this version, an instant for superseding or expiring.

        Raises:
          NotFound: no such version.
        """

        def work(connection: Connection) -> Preview:
            state = versions.tenant_state(connection, tenant)
            target = versions.window(connection, state.tid, ref)
            reached = graph.reach(connection, [target.vid], at) if at < target.end and not target.empty else {}
            return Preview(
                epoch=state.epoch, ended=len(reached), artifacts_ended=artifact_store.count(connection, list(reached)),
                impacts=tuple(graph.impacts(connection, reached, limit=limit)),
            )  # fmt: skip

        return self.database.read(work)

    # -- reads -----------------------------------------------------------------------------------------------------

    def get(
        self, tenant: str, capsule: str, *, version: int | None = None, at: int | None = None, epoch: int | None = None
    ) -> Capsule:
        """One version: the named one whether it holds or not, else the one in force.

        Args:
          at: instant of validity, default now.
          epoch: as the catalogue knew it then, default now.

        Raises:
          NotFound: also if no version is in force.
        """
        moment = self.clock() if at is None else at

        def work(connection: Connection) -> Capsule:
            state = versions.tenant_state(connection, tenant)
            if version is not None:
                vid = versions.window(connection, state.tid, VersionRef(id=capsule, version=version)).vid
            else:
                found = versions.in_force(connection, state.tid, [capsule], moment, epoch)
                if not found:
                    raise NotFound(f"capsule {capsule!r} does not exist")
                vid = found[0]
            return versions.load(connection, [vid], moment)[0]

        return self.database.read(work)

    def history(self, tenant: str, capsule: str, *, after: int = 0, limit: int = 100) -> list[Capsule]:
        """Versions of a capsule with numbers above `after`, oldest first.

        Raises:
          NotFound: it never existed.
        """

        def work(connection: Connection) -> list[Capsule]:
            state = versions.tenant_state(connection, tenant)
            found = versions.windows(connection, state.tid, capsule)
            wanted = [w.vid for w in found if w.number > after][:limit]
            return versions.load(connection, wanted, self.clock())

        return self.database.read(work)

    def _write(
        self, intent: Intent, operation: Operation, request: Any, body: Body, capsule: str | None = None
    ) -> WriteResult:
        result = commit(self.database, self.clock, intent, operation, request, body, capsule)
        if not result.replayed:
            for listener in list(self.listeners):
                listener(intent.tenant, result)
        return result
