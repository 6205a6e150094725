"""Versions in the database: the condition "holds at an instant", reading, and writing one.

The effective window of a version is `[valid_from, min(valid_to, earliest ending))`. The windows of one capsule's
versions never overlap, so at any instant and epoch at most one of them is in force.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from solarjax.plane import tables as t
from solarjax.plane.capsules import Capsule, CapsuleContent, Provenance, VersionRef
from solarjax.plane.clock import ALWAYS, FOREVER, to_datetime, to_end, to_micros
from solarjax.plane.contents import content_sha256, detail, document
from solarjax.plane.errors import Conflict, Invalid, NotFound
from solarjax.plane.statements import Row, Statement, inserting
from solarjax.plane.textindex import text_index

T = TypeVar("T")
CHUNK = 500
"""Values per IN list: below SQLite's oldest limit on binds."""

HOLDS = (
    "v.valid_from <= :at AND v.valid_to > :at AND NOT EXISTS "
    "(SELECT 1 FROM ending x WHERE x.vid = v.vid AND x.ends_from <= :at)"
)
"""SQL: version `v` is in force at instant `:at`, as the snapshot knows it."""
HELD = (
    "v.epoch <= :epoch AND v.valid_from <= :at AND v.valid_to > :at AND NOT EXISTS "
    "(SELECT 1 FROM ending x WHERE x.vid = v.vid AND x.ends_from <= :at AND x.epoch <= :epoch)"
)
"""SQL: the same as the catalogue knew it at `:epoch`."""

_ENDS = "(SELECT MIN(x.ends_from) FROM ending x WHERE x.vid = v.vid)"
_WINDOW = (
    f"SELECT v.vid, v.number, v.valid_from, v.valid_to, COALESCE({_ENDS}, {FOREVER}) AS ends, v.erased_epoch, "
    "(SELECT MAX(n.number) FROM version n WHERE n.tid = v.tid AND n.capsule = v.capsule) AS newest "
    "FROM version v WHERE v.tid = :tid AND v.capsule = :capsule"
)
_ONE_WINDOW = Statement(_WINDOW + " AND v.number = :number")
_ALL_WINDOWS = Statement(_WINDOW + " ORDER BY v.number")
# The newest number, and a version whose effective window meets [begin, end).
_PLACE = Statement(
    "SELECT MAX(v.number) AS newest, MAX(CASE WHEN v.valid_from < :end AND v.valid_to > :begin AND NOT EXISTS "
    "(SELECT 1 FROM ending x WHERE x.vid = v.vid AND (x.ends_from <= :begin OR x.ends_from <= v.valid_from)) "
    "THEN v.number END) AS clash FROM version v WHERE v.tid = :tid AND v.capsule = :capsule"
)
_LOAD = Statement(
    "SELECT v.vid, v.capsule, v.number, v.kind, v.text, v.summary, v.detail, v.sha256, v.valid_from, v.valid_to, "
    f"v.epoch, v.recorded_at, v.erased_epoch, COALESCE({_ENDS}, {FOREVER}) AS ends, "
    "(SELECT MIN(x.epoch) FROM ending x WHERE x.vid = v.vid) AS ended_epoch FROM version v "
    "WHERE v.vid IN (:vids*)"
)
_SOURCES = Statement(
    "SELECT e.derived, v.capsule, v.number FROM edge e JOIN version v ON v.vid = e.source WHERE e.derived IN (:vids*) "
    "ORDER BY v.capsule, v.number"
)
_INSERT = inserting(t.version, without=("vid",), returning="vid")
_INSERT_ENTITIES, _INSERT_EDGES = inserting(t.entity), inserting(t.edge)
_TENANT = Statement("SELECT tid, epoch, floor_epoch, purge_epoch FROM tenant WHERE name = :name")
_ADVANCE = Statement(
    "UPDATE tenant SET epoch = epoch + 1 WHERE name = :name RETURNING tid, epoch, floor_epoch, purge_epoch"
)
_IN_FORCE, _IN_FORCE_AT_EPOCH = (
    Statement(f"SELECT v.vid FROM version v WHERE v.tid = :tid AND v.capsule IN (:capsules*) AND {condition}")
    for condition in (HOLDS, HELD)
)


class TenantState(NamedTuple):
    """A tenant as the snapshot has it; see tables.py."""

    tid: int
    epoch: int
    floor_epoch: int
    purge_epoch: int


class _Stored(NamedTuple):
    """A row of `_LOAD`."""

    vid: int
    capsule: str
    number: int
    kind: str
    text: str
    summary: str | None
    detail: str
    sha256: str
    valid_from: int
    valid_to: int
    epoch: int
    recorded_at: int
    erased_epoch: int | None
    ends: int
    ended_epoch: int | None


class Window(NamedTuple):
    """Effective window of a stored version, empty if `begin >= end`; `newest` is the capsule's newest number."""

    vid: int
    number: int
    begin: int
    end: int
    erased: bool
    newest: int

    @property
    def empty(self) -> bool:
        """True if it holds at no instant."""
        return self.begin >= self.end


def tenant_state(connection: Connection, tenant: str) -> TenantState:
    """Raises NotFound for an unknown tenant."""
    return _state(_TENANT.row(connection, {"name": tenant}), tenant)


def advance(connection: Connection, tenant: str) -> TenantState:
    """Makes the tenant's next epoch and locks the tenant until the transaction ends."""
    return _state(_ADVANCE.row(connection, {"name": tenant}), tenant)


def windows(connection: Connection, tid: int, capsule: str) -> list[Window]:
    """All versions of a capsule, oldest first.

    Raises:
      NotFound: if there is none.
    """
    rows = _ALL_WINDOWS.rows(connection, {"tid": tid, "capsule": capsule})
    if not rows:
        raise NotFound(f"capsule {capsule!r} does not exist")
    return [_window(row) for row in rows]


def window(connection: Connection, tid: int, ref: VersionRef) -> Window:
    """One version.

    Raises:
      NotFound: if it does not exist.
    """
    values = {"tid": tid, "capsule": ref.id, "number": ref.version}
    row = _ONE_WINDOW.row(connection, values)
    if row is None:
        raise NotFound(f"capsule {ref} does not exist")
    return _window(row)


def in_force(connection: Connection, tid: int, capsules: Sequence[str], at: int, epoch: int | None = None) -> list[int]:
    """Row ids of the versions of these capsules that hold at an instant; as known at `epoch` if given."""
    query = _IN_FORCE if epoch is None else _IN_FORCE_AT_EPOCH
    found: list[int] = []
    for part in chunks(capsules):
        values = {"tid": tid, "capsules": part, "at": at} | ({} if epoch is None else {"epoch": epoch})
        found.extend(vid for (vid,) in query.rows(connection, values))
    return found


def load(connection: Connection, vids: Sequence[int], at: int) -> list[Capsule]:
    """The versions with these row ids, in this order; `at` decides `in_force`."""
    rows: dict[int, _Stored] = {}
    sources: dict[int, list[VersionRef]] = {}
    for part in chunks(vids):
        for row in map(_Stored._make, _LOAD.rows(connection, {"vids": part})):
            rows[row.vid] = row
        for derived, capsule, number in _SOURCES.rows(connection, {"vids": part}):
            sources.setdefault(derived, []).append(VersionRef.model_construct(id=capsule, version=number))
    return [_capsule(rows[vid], sources.get(vid, ()), at) for vid in vids]


def write(
    connection: Connection,
    state: TenantState,
    capsule: str,
    content: CapsuleContent,
    begin: int,
    end: int,
    now: int,
    newest: int | None = None,
) -> tuple[int, VersionRef]:
    """Inserts the next version of a capsule with window `[begin, end)` cut to those of its sources.

    Args:
      newest: number of the newest version, if the caller knows it and that no other version holds in the window.

    Returns:
      The row id and the reference.

    Raises:
      Conflict: if a source does not hold, nothing is left of the window, or it overlaps another version's.
    """
    sources = []
    for ref in content.depends_on:
        source = holding(connection, state.tid, ref)
        begin, end = max(begin, source.begin), min(end, source.end)
        sources.append(source.vid)
    if begin >= end:
        raise Conflict(f"capsule {capsule!r} would hold at no time: its window and those of its sources do not meet")
    if newest is None:
        values = {"tid": state.tid, "capsule": capsule, "begin": begin, "end": end}
        newest, clash = _PLACE.rows(connection, values)[0]
        if clash is not None:
            raise Conflict(f"capsule {capsule!r} has version {clash} in force in that window; correct that one")
    number = (newest or 0) + 1
    row = {
        "tid": state.tid, "capsule": capsule, "number": number, "kind": content.kind, "text": content.text,
        "summary": content.summary, "detail": detail(content), "sha256": content_sha256(content), "valid_from": begin,
        "valid_to": end, "epoch": state.epoch, "recorded_at": now, "erased_epoch": None,
    }  # fmt: skip
    (vid,) = _INSERT.rows(connection, row)[0]
    text_index(connection).add(connection, state.tid, vid, document(content))
    if content.entities:
        names = [{"tid": state.tid, "name": name, "vid": vid} for name in dict.fromkeys(content.entities)]
        _INSERT_ENTITIES.many(connection, names)
    if sources:
        edges = [{"source": s, "derived": vid, "tid": state.tid, "epoch": state.epoch} for s in sources]
        _INSERT_EDGES.many(connection, edges)
    return vid, VersionRef(id=capsule, version=number)


def holding(connection: Connection, tid: int, ref: VersionRef) -> Window:
    """The version, which must hold at some time.

    Raises:
      Conflict: if it does not, or does not exist: one answer, since a source of another tenant must look missing.
    """
    try:
        found = window(connection, tid, ref)
    except NotFound:
        found = None
    if found is None or found.empty:
        raise Conflict(f"{ref} does not exist or no longer holds", "depends_on")
    return found


def content_of(connection: Connection, vid: int) -> CapsuleContent:
    """What a stored version says, as it could be written again.

    Raises:
      Invalid: if it was erased.
    """
    (capsule,) = load(connection, [vid], ALWAYS)
    if capsule.erased:
        raise Invalid(f"the content of {capsule.ref} was erased and cannot be restored")
    fields = {name: getattr(capsule, name) for name in CapsuleContent.model_fields}
    return CapsuleContent.model_validate(fields)


def chunks(values: Sequence[T]) -> Iterable[list[T]]:
    """Lists of at most `CHUNK`."""
    for begin in range(0, len(values), CHUNK):
        yield list(values[begin : begin + CHUNK])


def bounds(content: CapsuleContent, begin: int, end: int) -> tuple[int, int]:
    """The window a content asks for, with defaults for what it leaves open."""
    return to_micros(content.valid_from, begin), to_micros(content.valid_to, end)


def _window(row: Row) -> Window:
    vid, number, valid_from, valid_to, ends, erased_epoch, newest = row
    return Window(vid, number, valid_from, min(valid_to, ends), erased_epoch is not None, newest)


def _state(row: Row | None, tenant: str) -> TenantState:
    if row is None:
        raise NotFound(f"tenant {tenant!r} does not exist")
    return TenantState(*row)


def _capsule(row: _Stored, sources: Iterable[VersionRef], at: int) -> Capsule:
    erased = row.erased_epoch is not None
    more = json.loads(row.detail)
    ends = min(row.valid_to, row.ends)
    return Capsule(
        id=row.capsule, version=row.number, kind=row.kind, text=row.text, summary=row.summary,
        entities=more.get("entities", ()), facts=more.get("facts", ()),
        provenance=more.get("provenance") or Provenance(source="erased"),
        stability=more.get("stability", "normal"),
        valid_from=to_end(row.valid_from), valid_to=to_end(row.valid_to),
        ends_at=to_end(max(ends, row.valid_from)), depends_on=tuple(sources), sha256=row.sha256,
        recorded_at=to_datetime(row.recorded_at), recorded_epoch=row.epoch, ended_epoch=row.ended_epoch,
        in_force=row.valid_from <= at < ends, erased=erased,
    )  # fmt: skip
