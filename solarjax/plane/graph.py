"""The dependency graph of versions: what a change reaches, and by which path.

Edges lead from a source version to the version derived from it. They may form cycles (two summaries that were written
with each other in view), so every walk here keeps a set of what it has seen.

A walk does not enter a version that already ended at least as early: whatever was derived from that one ended with it.
That keeps repeated changes cheap and makes a second identical change end nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, bindparam, insert, select, text

from solarjax.plane import tables as t
from solarjax.plane import versions
from solarjax.plane.capsules import VersionRef
from solarjax.plane.errors import Conflict
from solarjax.plane.results import Edge, Impact
from solarjax.plane.statements import Statement

# UNION, not UNION ALL: a version enters the walk once, which is what ends it on a cycle.
_WALK = """
WITH RECURSIVE reached(vid) AS (
  SELECT v.vid FROM version v WHERE v.vid IN :roots
  UNION
  SELECT e.derived FROM reached r JOIN edge e ON e.source = r.vid
  WHERE NOT EXISTS (SELECT 1 FROM ending x WHERE x.vid = e.derived AND x.ends_from <= :ends_from)
)
"""
_REACHED_EDGES = text(
    _WALK + "SELECT e.source, e.derived FROM reached r JOIN edge e ON e.source = r.vid "
    "WHERE e.derived IN (SELECT vid FROM reached)"
).bindparams(bindparam("roots", expanding=True))
_EVER_DERIVED = text(
    "WITH RECURSIVE reached(vid) AS (SELECT v.vid FROM version v WHERE v.vid IN :roots "
    "UNION SELECT e.derived FROM reached r JOIN edge e ON e.source = r.vid) SELECT vid FROM reached"
).bindparams(bindparam("roots", expanding=True))
# INSERT comes first: Python's SQLite driver counts rows of statements that begin with it only.
_CASCADE = Statement(
    "INSERT INTO ending (vid, epoch, tid, ends_from, cause) "
    + _WALK.replace(":roots", "(:roots*)")
    + "SELECT vid, :epoch, :tid, :ends_from, CASE WHEN vid IN (:roots*) THEN :cause ELSE 'derived' END FROM reached"
)
_ENDED_EDGES = text(
    "SELECT e.source, e.derived FROM ending a JOIN edge e ON e.source = a.vid AND e.epoch <= a.epoch "
    "JOIN ending b ON b.vid = e.derived AND b.epoch = a.epoch WHERE a.tid = :tid AND a.epoch = :epoch"
)
# Two index look-ups; an OR over both ends would make a planner read the table.
_AROUND = Statement(
    "SELECT e.source, e.derived FROM version v JOIN edge e ON e.derived = v.vid "
    "WHERE v.tid = :tid AND v.capsule = :capsule AND v.number = :number UNION "
    "SELECT e.source, e.derived FROM version v JOIN edge e ON e.source = v.vid "
    "WHERE v.tid = :tid AND v.capsule = :capsule AND v.number = :number ORDER BY 1, 2 LIMIT :limit"
)
_NAMES = text("SELECT v.vid, v.capsule, v.number, v.kind FROM version v WHERE v.vid IN :vids").bindparams(
    bindparam("vids", expanding=True)
)


def end(connection: Connection, state: versions.TenantState, roots: Sequence[int], ends_from: int, cause: str) -> int:
    """Ends versions from an instant on, and everything derived from them, in the caller's transaction.

    Args:
      roots: row ids that do not yet end as early as `ends_from`.
      cause: corrected, superseded, expired or deleted; the cascade is recorded as derived.

    Returns:
      Number of versions ended.
    """
    if not roots:
        return 0
    values = {"tid": state.tid, "epoch": state.epoch, "ends_from": ends_from, "cause": cause, "roots": list(roots)}
    return _CASCADE.run(connection, values).rowcount


def reach(connection: Connection, roots: Sequence[int], ends_from: int) -> dict[int, tuple[int, int | None]]:
    """What `end` would end: row id -> (depth, source on a shortest path), nearest first."""
    edges = connection.execute(_REACHED_EDGES, {"roots": list(roots), "ends_from": ends_from}).all()
    return _layers(roots, ((e.source, e.derived) for e in edges))


def ended_at(connection: Connection, tid: int, epoch: int) -> dict[int, tuple[int, int | None]]:
    """What the write of an epoch did end, in the form of `reach`."""
    chosen = select(t.ending.c.vid).where(t.ending.c.tid == tid, t.ending.c.epoch == epoch)
    roots = connection.execute(chosen.where(t.ending.c.cause != "derived").order_by(t.ending.c.vid)).scalars().all()
    edges = connection.execute(_ENDED_EDGES, {"tid": tid, "epoch": epoch}).all()
    return _layers(roots, ((e.source, e.derived) for e in edges))


def ever_derived(connection: Connection, roots: Sequence[int]) -> list[int]:
    """The roots and all that was ever derived from them, whether it still holds or not."""
    return list(connection.execute(_EVER_DERIVED, {"roots": list(roots)}).scalars())


def impacts(
    connection: Connection, layers: dict[int, tuple[int, int | None]], after: int = 0, limit: int | None = None
) -> list[Impact]:
    """Names for a part of what `reach` or `ended_at` found."""
    part = list(layers)[after : None if limit is None else after + limit]
    wanted = {*part, *(via for vid in part if (via := layers[vid][1]) is not None)}
    names = name(connection, sorted(wanted))
    result = []
    for vid in part:
        depth, via = layers[vid]
        ref, kind = names[vid]
        result.append(Impact(ref=ref, kind=kind, depth=depth, via=None if via is None else names[via][0]))
    return result


def name(connection: Connection, vids: Sequence[int]) -> dict[int, tuple[VersionRef, str]]:
    """Reference and kind of each row id."""
    found = {}
    for part in versions.chunks(vids):
        for row in connection.execute(_NAMES, {"vids": part}):
            found[row.vid] = VersionRef.model_construct(id=row.capsule, version=row.number), row.kind
    return found


def around(connection: Connection, tid: int, refs: Sequence[VersionRef], limit: int) -> tuple[list[Edge], bool]:
    """Edges that one of a tenant's versions is an end of, and whether there are more than `limit`.

    Versions that do not exist have no edges.
    """
    found: dict[tuple[int, int], None] = {}
    for ref in refs:
        values = {"tid": tid, "capsule": ref.id, "number": ref.version, "limit": limit + 1}
        found.update(dict.fromkeys((source, derived) for source, derived in _AROUND.rows(connection, values)))
        if len(found) > limit:
            break
    part = list(found)[:limit]
    names = name(connection, sorted({vid for edge in part for vid in edge}))
    return [Edge(source=names[a][0], derived=names[b][0]) for a, b in part], len(found) > limit


def path(layers: dict[int, tuple[int, int | None]], vid: int) -> list[int]:
    """From the changed version down to `vid`."""
    steps = [vid]
    while (via := layers[steps[-1]][1]) is not None:
        steps.append(via)
    return steps[::-1]


def link(connection: Connection, state: versions.TenantState, source: VersionRef, derived: VersionRef) -> bool:
    """Records later that `derived` was made from `source`.

    Returns:
      False if that was recorded before.

    Raises:
      Conflict: if one of them does not hold, or `derived` would outlive its source: then the statement that it holds
        has to be ended first.
    """
    above = versions.holding(connection, state.tid, source)
    below = versions.holding(connection, state.tid, derived)
    if below.end > above.end:
        raise Conflict(f"{derived} would outlive {source}; expire it first", "derived")
    known = select(t.edge.c.source).where(t.edge.c.source == above.vid, t.edge.c.derived == below.vid)
    if connection.execute(known).first():
        return False
    row = {"source": above.vid, "derived": below.vid, "tid": state.tid, "epoch": state.epoch}
    connection.execute(insert(t.edge), row)
    return True


def _layers(roots: Iterable[int], edges: Iterable[tuple[int, int]]) -> dict[int, tuple[int, int | None]]:
    """Breadth first, ties by row id: the same answer on both databases."""
    derived: dict[int, list[int]] = {}
    for source, target in edges:
        derived.setdefault(source, []).append(target)
    found: dict[int, tuple[int, int | None]] = {vid: (0, None) for vid in sorted(roots)}
    layer = list(found)
    depth = 0
    while layer:
        depth += 1
        following = []
        for source in layer:
            for target in sorted(derived.get(source, ())):
                if target not in found:
                    found[target] = depth, source
                    following.append(target)
        layer = following
    return found
