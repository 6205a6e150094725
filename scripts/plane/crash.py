"""SIGKILL at random points during writes and cascades; then everything acknowledged must be there, and nothing half.

    python -m scripts.plane.crash --kills 200
    scripts/with_postgres python -m scripts.plane.crash --kills 200 --postgres

A writer process creates facts, hundreds of versions derived from them, and corrects the facts; after each commit it
says so on a pipe. It is killed after a random time, the catalogue is opened again as it lies there and compared with
what was said, and the next writer goes on in the same catalogue.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from typing import Any

from sqlalchemy import select, text

from solarjax.plane import tables as t
from solarjax.plane.capsules import CapsuleContent, CapsuleDraft, Provenance, VersionRef
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.commit import Intent
from solarjax.plane.errors import NotFound
from solarjax.plane.textindex import words

TENANT, FAN = "crash", 24
_SOURCE = Provenance(source="crash")
_INTENT = Intent(TENANT, "crash")


def write_forever(url: str, pipe: int, seed: int) -> None:
    """Writes until killed; each commit is followed by one line on the pipe."""
    rng = random.Random(seed)
    catalogue = Catalogue(url)

    def say(result: Any) -> VersionRef:
        os.write(pipe, (json.dumps([result.epoch, result.operation, str(result.ref)]) + "\n").encode())
        return result.ref

    def create(name: str, sources: tuple[VersionRef, ...]) -> VersionRef:
        draft = CapsuleDraft(id=name, text=f"text of {name}", provenance=_SOURCE, depends_on=sources)
        return say(catalogue.create(_INTENT, draft))

    for n in range(10**9):
        root = create(f"fact.{seed}.{n}", ())
        made = [root]
        for i in range(rng.randrange(1, FAN)):
            made.append(create(f"derived.{seed}.{n}.{i}", tuple(rng.sample(made, min(len(made), 2)))))
        content = CapsuleContent(text="corrected text", provenance=_SOURCE)
        say(catalogue.correct(_INTENT, root, content))


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
            wanted = (t.event, t.version, t.ending, t.edge)
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
        found += _cascades(rows, {e for e in events if e > unchecked_from})
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


def _cascades(rows: dict[str, list[Any]], epochs: set[int]) -> list[str]:
    """Compares what each event ended with a walk over the edges in plain Python."""
    derived: dict[int, list[Any]] = {}
    for edge in rows["edge"]:
        derived.setdefault(edge.source, []).append(edge)
    ended: dict[int, set[int]] = {}
    first: dict[int, int] = {}
    for row in sorted(rows["ending"], key=lambda row: row.epoch):
        ended.setdefault(row.epoch, set()).add(row.vid)
        first.setdefault(row.vid, row.epoch)
    roots = {row.epoch: row.vid for row in rows["ending"] if row.cause == "corrected"}
    found = []
    for event in rows["event"]:
        if event.epoch not in epochs:
            continue
        expected: set[int] = set()
        pending = [roots[event.epoch]] if event.epoch in roots else []
        if event.operation == "correct" and not pending:
            found.append(f"the correction of epoch {event.epoch} ended nothing")
        while pending:
            vid = pending.pop()
            if vid in expected or first.get(vid, event.epoch) < event.epoch:
                continue
            expected.add(vid)
            pending.extend(edge.derived for edge in derived.get(vid, ()) if edge.epoch < event.epoch)
        if ended.get(event.epoch, set()) != expected:
            found.append(f"epoch {event.epoch} ended {len(ended.get(event.epoch, ()))} versions of {len(expected)}")
    return found


def _documents(connection: Any, tid: int) -> set[int]:
    if connection.dialect.name == "sqlite":
        return set(connection.execute(text(f"SELECT rowid FROM words_of_{tid}")).scalars())
    return set(connection.execute(text("SELECT vid FROM search_document WHERE tid = :tid"), {"tid": tid}).scalars())


def _ref(event: Any) -> str:
    ref = json.loads(event.result)["ref"]
    return f"{ref['id']}@{ref['version']}"


def run(url: str, kills: int, seed: int) -> dict[str, Any]:
    """Kills writers and checks after each.

    Returns:
      Counts, and the problems found.
    """
    rng = random.Random(seed)
    catalogue = Catalogue(url)
    catalogue.add_tenant(TENANT)
    catalogue.close()
    acknowledged: list[list[Any]] = []
    problems: list[str] = []
    unacknowledged, epoch = 0, 0
    for n in range(kills):
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(source)
            try:
                write_forever(url, sink, seed * 100_000 + n)
            finally:
                os._exit(3)
        os.close(sink)
        with os.fdopen(source, "rb") as pipe:
            said = pipe.readline()  # the child is writing now
            time.sleep(rng.random() * 0.12)
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            said += pipe.read()
        if not os.WIFSIGNALED(status):
            problems.append(f"the writer ended by itself: {said[-200:]!r}")
            break
        # A line cut off by the kill was not said.
        new = [json.loads(line) for line in said.split(b"\n")[:-1]]
        acknowledged += new
        problems += [f"kill {n}: {problem}" for problem in verify(url, new, epoch)]
        catalogue = Catalogue(url)
        epoch = catalogue.state(TENANT).epoch
        catalogue.close()
        unacknowledged = epoch - len(acknowledged)
    problems += verify(url, acknowledged)
    return {
        "kills": kills, "acknowledged": len(acknowledged), "committed_unacknowledged": unacknowledged,
        "corrections": sum(entry[1] == "correct" for entry in acknowledged), "problems": problems,
    }  # fmt: skip


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgres", action="store_true", help="use the URL in SOLARJAX_TEST_POSTGRES")
    parser.add_argument("--url", help="an empty catalogue; default: a temporary SQLite file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or (os.environ["SOLARJAX_TEST_POSTGRES"] if given.postgres else f"{folder}/plane.db")
        result = run(url, given.kills, given.seed)
    print(json.dumps(result))
    return int(bool(result["problems"]))


if __name__ == "__main__":
    sys.exit(main())
