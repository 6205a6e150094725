"""Compares a catalogue, as a killed writer left it, with what the writer had said and with a slow walk in plain Python.

Every event is replayed from the tables alone: which versions it had to end, which it had to wipe, which artifacts have
to be there. What is found wrong comes back in words.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from sqlalchemy import select, text

from solarjax.plane import tables as t
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.clock import ALWAYS
from solarjax.plane.errors import NotFound
from solarjax.plane.textindex import words

TENANT = "crash"
CHECKED = (
    "every acknowledged write is there with its epoch, operation and reference", "epochs without a gap",
    "every ending, wipe and count of a correction, succession, deletion and erasure against a walk in plain Python",
    "no artifact without all its sources and none of what was erased", "the text index", "SQLite's own integrity check",
)  # fmt: skip
WRITES = ("create", "correct", "supersede")
CAUSES = {"correct": "corrected", "supersede": "superseded", "delete": "deleted"}
Tables = Mapping[str, list[Any]]


def verify(url: str, acknowledged: list[list[Any]], unchecked_from: int = 0) -> list[str]:
    """What is wrong with a catalogue, in words.

    Args:
      acknowledged: [epoch, operation, reference] of every commit that was acknowledged.
      unchecked_from: cascades of epochs up to this one were compared before.
    """
    found: list[str] = []
    catalogue = Catalogue(url)
    try:
        try:
            state = catalogue.state(TENANT)
        except NotFound:
            return ["the tenant is gone"]

        def tables(connection: Any) -> dict[str, list[Any]]:
            wanted = (t.event, t.version, t.ending, t.edge, t.artifact, t.artifact_source)
            return {table.name: list(connection.execute(select(table))) for table in wanted}

        rows = catalogue.database.read(tables)
        events = {row.epoch: row for row in rows["event"]}
        if sorted(events) != list(range(1, state.epoch + 1)):
            found.append(f"epoch is {state.epoch}, events are {len(events)}")
        for epoch, operation, ref in acknowledged:
            event = events.get(epoch)
            if event is None or event.operation != operation or _ref(event) != ref:
                found.append(f"acknowledged {operation} of {ref} at epoch {epoch} is not there")
        for version in rows["version"]:
            if version.epoch not in events:
                found.append(f"version {version.capsule}@{version.number} has no event")
            if (version.erased_epoch is None) != bool(version.text):
                found.append(f"version {version.capsule}@{version.number} is half erased")
        history = _History(rows)
        for epoch in sorted(e for e in events if e > unchecked_from):
            found += _cascades(history, events[epoch])
        found += _artifacts(rows)
        erasures = sum(json.loads(event.result)["erased"] > 0 for event in events.values())
        if state.purge_epoch != erasures:
            found.append(f"{erasures} erasures, but the salt changed {state.purge_epoch} times")
        documents = catalogue.database.read(lambda connection: _documents(connection, state.tid))
        if documents != {row.vid for row in rows["version"] if words(row.text)}:
            found.append(f"{len(documents)} versions in the text index, {len(rows['version'])} in the table")
    finally:
        catalogue.close()
    if "://" not in url:
        with closing(sqlite3.connect(url)) as database:
            problem = database.execute("PRAGMA integrity_check").fetchone()[0]
            if problem != "ok":
                found.append(f"the file is damaged: {problem}")
    return found


class _History:
    """The tables, arranged for looking back from an event."""

    def __init__(self, rows: Tables):
        self.versions = {row.vid: row for row in rows["version"]}
        self.made = {row.epoch: row for row in rows["version"]}
        self.of_capsule = _grouped(rows["version"], "capsule")
        self.wiped = {epoch: {v.vid for v in part} for epoch, part in _grouped(rows["version"], "erased_epoch").items()}
        self.ended = {epoch: {e.vid: e for e in part} for epoch, part in _grouped(rows["ending"], "epoch").items()}
        self._endings = _grouped(rows["ending"], "vid")
        self._derived = _grouped(rows["edge"], "source")

    def holds(self, vid: int, epoch: int, instant: int) -> bool:
        """Whether no write before an epoch ended this version as early as an instant."""
        return all(e.ends_from > instant for e in self._endings.get(vid, ()) if e.epoch < epoch)

    def reached(self, roots: set[int], epoch: int, ends_from: int | None) -> set[int]:
        """The roots and what a change to them reaches: not what ended as early before, unless `ends_from` is None."""
        found, pending = set(roots), list(roots)
        while pending:
            for edge in self._derived.get(pending.pop(), ()):
                enters = ends_from is None or self.holds(edge.derived, epoch, ends_from)
                if edge.epoch < epoch and edge.derived not in found and enters:
                    found.add(edge.derived)
                    pending.append(edge.derived)
        return found


def _cascades(history: _History, event: Any) -> list[str]:
    """Compares what an event wrote, ended and wiped with a walk over the edges."""
    epoch, result = event.epoch, json.loads(event.result)
    name = f"the {event.operation} of {event.capsule} at epoch {epoch}"
    ended, wiped = history.ended.get(epoch, {}), history.wiped.get(epoch, set())
    made = history.made.get(epoch)
    found = []
    said = _ref(event) if event.operation in WRITES else None
    if said != (made and f"{made.capsule}@{made.number}"):
        found.append(f"{name} wrote another version than it said")
    if event.operation not in CAUSES:
        return found + ([f"{name} ended or wiped something"] if ended or wiped else [])
    instant = made.valid_from if event.operation == "supersede" and made is not None else ALWAYS
    roots = {vid for vid, row in ended.items() if row.cause == CAUSES[event.operation]}
    before = [v for v in history.of_capsule[event.capsule] if v.epoch < epoch]
    if event.operation == "delete":  # every version of it that held somewhere until then
        right = roots == {v.vid for v in before if history.holds(v.vid, epoch, v.valid_from)}
    else:
        right = len(roots) == 1 and roots <= {v.vid for v in before}
    if not right:
        found.append(f"{name} ended {len(roots)} versions of the capsule itself")
    expected = history.reached(roots, epoch, instant)
    if set(ended) != expected or result["ended"] != len(expected):
        found.append(f"{name} ended {len(ended)} versions of {len(expected)} and said {result['ended']}")
    if any(row.ends_from != instant for row in ended.values()):
        found.append(f"{name} ended something at another instant")
    reach = history.reached({v.vid for v in before}, epoch, None) if wiped else set()
    due = {vid for vid in reach if (history.versions[vid].erased_epoch or epoch) >= epoch}
    if wiped != due or result["erased"] != len(wiped):
        found.append(f"{name} wiped {len(wiped)} versions of {len(due)} and said {result['erased']}")
    return found


def _grouped(rows: list[Any], column: str) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for row in rows:
        found.setdefault(getattr(row, column), []).append(row)
    found.pop(None, None)
    return found


def _artifacts(rows: Tables) -> list[str]:
    """Each attached artifact with all its sources, or, once one of them was erased, without a trace."""
    versions = {row.vid: row for row in rows["version"]}
    by_ref = {f"{row.capsule}@{row.number}": row for row in rows["version"]}
    sources: dict[int, set[int]] = {}
    for row in rows["artifact_source"]:
        sources.setdefault(row.aid, set()).add(row.vid)
    artifacts = {row.aid: row for row in rows["artifact"]}
    found = [f"sources of artifact {aid}, which is not there" for aid in sources if aid not in artifacts]
    attached = {}
    for event in rows["event"]:
        if event.operation != "attach":
            continue
        aid = json.loads(event.result)["artifact_id"]
        attached[aid] = event.epoch
        if aid not in artifacts and by_ref[_ref(event)].erased_epoch is None:
            found.append(f"artifact {aid} of epoch {event.epoch} is not there")
    for aid, artifact in artifacts.items():
        named = {f"{versions[vid].capsule}@{versions[vid].number}" for vid in sources.get(aid, ())}
        wanted = json.loads(artifact.locator)["uri"].split()
        if attached.get(aid) != artifact.epoch or named != set(wanted):
            found.append(f"artifact {aid} has {len(named)} sources of {len(wanted)}")
        if any(versions[vid].erased_epoch is not None for vid in sources.get(aid, ())):
            found.append(f"artifact {aid} is there though a source was erased")
    return found


def _documents(connection: Any, tid: int) -> set[int]:
    if connection.dialect.name == "sqlite":
        return set(connection.execute(text(f"SELECT rowid FROM words_of_{tid}")).scalars())
    return set(connection.execute(text("SELECT vid FROM search_document WHERE tid = :tid"), {"tid": tid}).scalars())


def _ref(event: Any) -> str:
    ref = json.loads(event.result)["ref"]
    return f"{ref['id']}@{ref['version']}"
