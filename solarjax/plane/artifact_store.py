"""Artifacts in the database; whether one may be reused is read from the versions it was made from."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, insert, text

from solarjax.plane import tables as t
from solarjax.plane import versions
from solarjax.plane.artifacts import Artifact, ArtifactDraft, Locator
from solarjax.plane.capsules import VersionRef
from solarjax.plane.clock import Clock
from solarjax.plane.database import Database
from solarjax.plane.versions import HOLDS, TenantState

_LOCATOR: TypeAdapter[Locator] = TypeAdapter(Locator)
_PAGE = text(
    "SELECT a.aid, a.locator, a.epoch FROM artifact a WHERE a.tid = :tid AND a.aid > :after AND a.aid IN "
    "(SELECT s.aid FROM artifact_source s WHERE s.vid IN :vids) ORDER BY a.aid LIMIT :limit"
).bindparams(bindparam("vids", expanding=True))
_ENDED = text(
    "SELECT a.aid, a.locator, a.epoch FROM artifact a WHERE a.tid = :tid AND a.aid > :after AND a.aid IN "
    "(SELECT s.aid FROM artifact_source s JOIN ending d ON d.vid = s.vid WHERE d.tid = :tid AND d.epoch = :epoch) "
    "ORDER BY a.aid LIMIT :limit"
)
_MADE_FROM = text(
    f"SELECT s.aid, v.capsule, v.number, CASE WHEN {HOLDS} THEN 1 ELSE 0 END AS holds FROM artifact_source s "
    "JOIN version v ON v.vid = s.vid WHERE s.aid IN :aids ORDER BY v.capsule, v.number"
).bindparams(bindparam("aids", expanding=True))
_KINDS = text(
    "SELECT DISTINCT a.aid, a.kind FROM artifact_source s JOIN artifact a ON a.aid = s.aid WHERE s.vid IN :vids"
).bindparams(bindparam("vids", expanding=True))
_VECTORS = text("SELECT COUNT(*) FROM embedding WHERE vid IN :vids").bindparams(bindparam("vids", expanding=True))


def put(connection: Connection, state: TenantState, draft: ArtifactDraft) -> int:
    """Stores an artifact and returns its id; raises Conflict if a version it was made from does not hold."""
    sources = {versions.holding(connection, state.tid, ref).vid for ref in draft.made_from}
    row = {
        "tid": state.tid, "kind": draft.locator.kind, "locator": draft.locator.model_dump_json(), "epoch": state.epoch,
    }  # fmt: skip
    aid = connection.execute(insert(t.artifact).returning(t.artifact.c.aid), row).scalar_one()
    connection.execute(insert(t.artifact_source), [{"vid": v, "aid": aid, "tid": state.tid} for v in sorted(sources)])
    return aid


def count(connection: Connection, vids: Sequence[int]) -> dict[str, int]:
    """Number of artifacts made from any of these versions, by kind; `vector` is the plane's own embeddings."""
    kinds: dict[int, str] = {}
    own = 0
    for part in versions.chunks(vids):
        kinds.update({row.aid: row.kind for row in connection.execute(_KINDS, {"vids": part})})
        own += connection.execute(_VECTORS, {"vids": part}).scalar_one()
    counts: dict[str, int] = {}
    for kind in kinds.values():
        counts[kind] = counts.get(kind, 0) + 1
    return counts | ({"vector": own} if own else {})


class Artifacts:
    """Reads artifacts.

    Args:
      database: the catalogue's.
      clock: its clock; an artifact is reusable if all it was made from holds now.
    """

    def __init__(self, database: Database, clock: Clock):
        self._database = database
        self._clock = clock

    def of_capsule(self, tenant: str, capsule: str, *, after: int = 0, limit: int = 100) -> list[Artifact]:
        """Artifacts made from any version of a capsule, by id; raises NotFound if the capsule never existed."""

        def work(connection: Connection) -> list[Artifact]:
            state = versions.tenant_state(connection, tenant)
            vids = [w.vid for w in versions.windows(connection, state.tid, capsule)]
            rows = connection.execute(_PAGE, {"tid": state.tid, "vids": vids, "after": after, "limit": limit}).all()
            return self._artifacts(connection, rows)

        return self._database.read(work)

    def ended_at(self, tenant: str, epoch: int, *, after: int = 0, limit: int = 100) -> list[Artifact]:
        """Artifacts that lost a source in the write of an epoch, by id: what an engine-side index has to drop."""

        def work(connection: Connection) -> list[Artifact]:
            state = versions.tenant_state(connection, tenant)
            values = {"tid": state.tid, "epoch": epoch, "after": after, "limit": limit}
            return self._artifacts(connection, connection.execute(_ENDED, values).all())

        return self._database.read(work)

    def _artifacts(self, connection: Connection, rows: Sequence) -> list[Artifact]:
        made_from: dict[int, list[tuple[VersionRef, bool]]] = {}
        now = self._clock()
        for part in versions.chunks([row.aid for row in rows]):
            for aid, capsule, number, holds in connection.execute(_MADE_FROM, {"aids": part, "at": now}):
                made_from.setdefault(aid, []).append((VersionRef(id=capsule, version=number), bool(holds)))
        return [
            Artifact(
                id=row.aid, locator=_LOCATOR.validate_json(row.locator), recorded_epoch=row.epoch,
                made_from=tuple(ref for ref, _ in made_from[row.aid]),
                reusable=all(holds for _, holds in made_from[row.aid]),
            )
            for row in rows
        ]  # fmt: skip
