"""The operations that end versions. Each runs inside one transaction, cascade included, and answers what it did.

- correct: the version was wrong. It and all derived from it hold at no time; the new version takes over its window.
- supersede: the version was right until an instant. It and all derived from it end there; the new one begins there.
- expire: as supersede, without a successor.
- delete: no version of the capsule holds at any time any more; with `erase` the content is wiped as well, also of all
  that was ever derived from it, and the tenant's cache salt changes so that no KV block of it can be met again.
- restore: the content of a version is written again as a new version, after all that still holds. Nothing is ever
  brought back to life: what was derived from the old version stays ended.

An out-of-order change is judged by windows, not by arrival: correcting a version that was superseded meanwhile corrects
the part of history it still holds for; a change to a version that holds nowhere is a conflict.
"""

from __future__ import annotations

from sqlalchemy import BindParameter, Connection, bindparam, delete, text, update

from solarjax.plane import graph, versions
from solarjax.plane import tables as t
from solarjax.plane.capsules import CapsuleContent, VersionRef
from solarjax.plane.clock import ALWAYS, FOREVER
from solarjax.plane.errors import Conflict
from solarjax.plane.results import SAMPLE, Operation, WriteResult
from solarjax.plane.statements import Statement
from solarjax.plane.textindex import text_index
from solarjax.plane.versions import TenantState, Window

# In one statement, because each costs: up to `:limit` names, the changed versions first; then artifacts by kind.
_SUMMARY = Statement(
    "SELECT 1 AS part, first.capsule AS name, first.number AS n FROM (SELECT v.capsule, v.number FROM ending d "
    "JOIN version v ON v.vid = d.vid WHERE d.tid = :tid AND d.epoch = :epoch "
    "ORDER BY CASE WHEN d.cause = 'derived' THEN 1 ELSE 0 END, d.vid LIMIT :limit) AS first "
    "UNION ALL SELECT 2, a.kind, COUNT(DISTINCT a.aid) FROM ending d JOIN artifact_source s ON s.vid = d.vid "
    "JOIN artifact a ON a.aid = s.aid WHERE d.tid = :tid AND d.epoch = :epoch GROUP BY a.kind "
    "UNION ALL SELECT 3, 'vector', COUNT(*) FROM ending d JOIN embedding m ON m.vid = d.vid "
    "WHERE d.tid = :tid AND d.epoch = :epoch"
)


def correct(connection: Connection, state: TenantState, now: int, ref: VersionRef, content: CapsuleContent) -> tuple[
    WriteResult, int
]:  # fmt: skip
    """Replaces a wrong version; see the module. Returns the result and the new row id.

    Raises:
      NotFound, Conflict: see `_target` and `versions.write`.
    """
    old = _target(connection, state, ref)
    ended = graph.end(connection, state, [old.vid], ALWAYS, "corrected")
    begin, end = versions.bounds(content, old.begin, old.end)
    # Windows of one capsule never overlap, so within the old one there is nobody else.
    inside = old.begin <= begin and end <= old.end
    newest = old.newest if inside else None
    vid, new = versions.write(connection, state, ref.id, content, begin, end, now, newest)
    return _result(connection, state, "correct", new, ended), vid


def supersede(connection: Connection, state: TenantState, now: int, ref: VersionRef, content: CapsuleContent) -> tuple[
    WriteResult, int
]:  # fmt: skip
    """Follows a version by a new one from `content.valid_from` (default now) on.

    Raises:
      Conflict: also if the version does not hold at that instant, or begins there: then it has to be corrected.
    """
    old = _target(connection, state, ref)
    begin, end = versions.bounds(content, now, old.end)
    if not old.begin < begin < old.end:
        raise Conflict(f"{ref} does not hold before and at the instant it is to be superseded", "valid_from")
    ended = graph.end(connection, state, [old.vid], begin, "superseded")
    newest = old.newest if end <= old.end else None
    vid, new = versions.write(connection, state, ref.id, content, begin, end, now, newest)
    return _result(connection, state, "supersede", new, ended), vid


def expire(connection: Connection, state: TenantState, ref: VersionRef, at: int) -> WriteResult:
    """Ends a version at an instant.

    Raises:
      Conflict: also if it ends no later anyway.
    """
    old = _target(connection, state, ref)
    if at >= old.end:
        raise Conflict(f"{ref} ends by then already", "at")
    ended = graph.end(connection, state, [old.vid], at, "expired")
    return _result(connection, state, "expire", ref, ended)


def remove(connection: Connection, state: TenantState, capsule: str, expected: int | None, erase: bool) -> WriteResult:
    """Deletes a capsule. A second time ends nothing and is no error.

    Raises:
      NotFound: if the capsule never existed.
      Conflict: if `expected` is given and is not its newest version.
    """
    found = versions.windows(connection, state.tid, capsule)
    if expected is not None and expected != found[-1].number:
        raise Conflict(f"the newest version of {capsule!r} is {found[-1].number}, not {expected}", "version")
    # Also those whose window is still to come; one that ended for good needs no second ending.
    ended = graph.end(connection, state, [w.vid for w in found if not w.empty], ALWAYS, "deleted")
    result = _result(connection, state, "delete", VersionRef(id=capsule, version=found[-1].number), ended)
    if erase:
        result.erased = _erase(connection, state, [w.vid for w in found])
    return result


def restore(connection: Connection, state: TenantState, now: int, ref: VersionRef) -> tuple[WriteResult, int]:
    """Writes the content of a version again, for as much of its window as comes after all that still holds.

    So a deleted capsule is back for all of its time, and an expired one goes on where it ended.

    Raises:
      NotFound: if there is no such version. Invalid: if it was erased.
      Conflict: if nothing of the window is free, or a source no longer holds.
    """
    old = versions.window(connection, state.tid, ref)
    content = versions.content_of(connection, old.vid)
    begin, end = versions.bounds(content, now, FOREVER)
    begin = max([begin, *(w.end for w in versions.windows(connection, state.tid, ref.id) if not w.empty)])
    vid, new = versions.write(connection, state, ref.id, content, begin, end, now)
    return _result(connection, state, "restore", new), vid


def _target(connection: Connection, state: TenantState, ref: VersionRef) -> Window:
    """The version to change, which must still hold somewhere: the check behind optimistic concurrency."""
    found = versions.window(connection, state.tid, ref)
    if found.empty:
        raise Conflict(f"{ref} holds no longer; the newest version is {found.newest}", "version")
    return found


def _result(
    connection: Connection, state: TenantState, operation: Operation, ref: VersionRef, ended: int = 0
) -> WriteResult:
    result = WriteResult(epoch=state.epoch, operation=operation, ref=ref, ended=ended)
    if ended:
        rows = _SUMMARY.rows(connection, {"tid": state.tid, "epoch": state.epoch, "limit": SAMPLE})
        result.ended_sample = tuple(VersionRef(id=name, version=n) for part, name, n in rows if part == 1)
        result.artifacts_ended = {name: n for part, name, n in rows if part > 1 and n}
    return result


def _erase(connection: Connection, state: TenantState, roots: list[int]) -> int:
    """Wipes content from every table that has some, and moves the tenant to a new cache salt."""
    doomed = graph.ever_derived(connection, roots)
    vids: BindParameter[int] = bindparam("vids", expanding=True)
    artifacts: set[int] = set()
    erased = 0
    for part in versions.chunks(doomed):
        wipe = update(t.version).where(t.version.c.vid.in_(vids), t.version.c.erased_epoch.is_(None))
        wipe = wipe.values(text="", summary=None, detail="{}", sha256="", erased_epoch=state.epoch)
        erased += connection.execute(wipe, {"vids": part}).rowcount
        for table in (t.entity, t.embedding):
            connection.execute(delete(table).where(table.c.vid.in_(vids)), {"vids": part})
        used = text("SELECT aid FROM artifact_source WHERE vid IN :vids").bindparams(vids)
        artifacts.update(connection.execute(used, {"vids": part}).scalars())
    for part in versions.chunks(sorted(artifacts)):
        for table in (t.artifact_source, t.artifact):
            connection.execute(delete(table).where(table.c.aid.in_(vids)), {"vids": part})
    text_index(connection).remove(connection, state.tid, doomed)
    connection.execute(
        update(t.tenant).where(t.tenant.c.tid == state.tid).values(purge_epoch=t.tenant.c.purge_epoch + 1)
    )
    return erased
