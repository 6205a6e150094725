"""How long corrections take.

    scripts/bench_plane corrections                       # SQLite
    scripts/with_postgres scripts/bench_plane corrections --postgres

Prints one JSON line a measurement: median and 99th percentile of wall time, median of CPU time (milliseconds). With
SQLite, small corrections are measured twice: with `synchronous` full every commit is forced to disk, and one line says
what the disk takes for that alone; with normal it is not. On a busy machine CPU time is the steadier figure.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from solarjax.plane import tables as t
from solarjax.plane import versions
from solarjax.plane.admission import Gate
from solarjax.plane.capsules import CapsuleContent, CapsuleDraft, Provenance, VersionRef
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.clock import FOREVER
from solarjax.plane.commit import Intent
from solarjax.plane.database import Database

_SOURCE = Provenance(source="bench")


def measure(work: Callable[[int], Any], repeats: int, prepare: Callable[[int], Any] | None = None) -> dict[str, float]:
    """Milliseconds of `work(i)`; `prepare(i)` runs before each and is not measured."""
    wall, cpu = [], []
    for i in range(repeats):
        if prepare is not None:
            prepare(i)
        w, c = time.perf_counter(), time.process_time()
        work(i)
        cpu.append((time.process_time() - c) * 1e3)
        wall.append((time.perf_counter() - w) * 1e3)
    wall.sort()
    cpu.sort()
    return {
        "repeats": repeats, "p50_ms": round(wall[repeats // 2], 3), "p99_ms": round(wall[int(repeats * 0.99)], 3),
        "min_ms": round(wall[0], 3), "cpu_p50_ms": round(cpu[repeats // 2], 3),
    }  # fmt: skip


class World:
    """A fresh tenant in a catalogue."""

    def __init__(self, catalogue: Catalogue, name: str):
        self.catalogue = catalogue
        self.name = name
        self.intent = Intent(name, "bench", "measurement")
        catalogue.add_tenant(name)

    def create(self, capsule: str, *sources: str) -> None:
        """A capsule derived from `id@version`s."""
        refs = tuple(map(VersionRef.parse, sources))
        draft = CapsuleDraft(id=capsule, text=f"what {capsule} says", provenance=_SOURCE, depends_on=refs)
        self.catalogue.create(self.intent, draft)

    def correct(self, capsule: str, version: int) -> int:
        """Corrects; returns the number of versions ended."""
        content = CapsuleContent(text=f"what {capsule} says since {version}", provenance=_SOURCE)
        return self.catalogue.correct(self.intent, VersionRef(id=capsule, version=version), content).ended

    def derive_many(self, root: str, count: int, shape: str) -> None:
        """`count` versions derived from version 1 of a capsule, put in at once: all from it, a tree, or one chain."""

        def work(connection: Any) -> None:
            state = versions.advance(connection, self.name)
            first = versions.window(connection, state.tid, VersionRef(id=root, version=1)).vid
            row = {
                "tid": state.tid, "number": 1, "kind": "summary", "text": "derived", "detail": "{}", "sha256": "",
                "valid_from": 0, "valid_to": FOREVER, "epoch": state.epoch, "recorded_at": 0, "summary": None,
                "erased_epoch": None,
            }  # fmt: skip
            vids = []
            for begin in range(0, count, 10_000):
                part = [{**row, "capsule": f"{root}.{i}"} for i in range(begin, min(begin + 10_000, count))]
                returning = insert(t.version).returning(t.version.c.vid, sort_by_parameter_order=True)
                vids += connection.execute(returning, part).scalars()
            above = {"wide": lambda i: first, "tree": lambda i: first if i < 10 else vids[i // 10 - 1],
                     "chain": lambda i: first if i == 0 else vids[i - 1]}[shape]  # fmt: skip
            edges = [
                {"source": above(i), "derived": vid, "tid": state.tid, "epoch": state.epoch}
                for i, vid in enumerate(vids)
            ]
            for begin in range(0, count, 10_000):
                connection.execute(insert(t.edge), edges[begin : begin + 10_000])
            event = {"tid": state.tid, "epoch": state.epoch, "operation": "import", "capsule": None, "actor": "bench",
                     "reason": "", "at": 0, "result": '{"epoch": 1, "operation": "import"}'}  # fmt: skip
            connection.execute(insert(t.event), event)

        self.catalogue.database.write(work)


def main(arguments: list[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", action="store_true", help="use the URL in SOLARJAX_TEST_POSTGRES")
    parser.add_argument("--repeats", type=int, default=300, help="of the small corrections")
    parser.add_argument("--dependants", type=int, default=100_000)
    parser.add_argument("--cascades", type=int, default=3, help="repeats of each large cascade")
    given = parser.parse_args(arguments)
    database = "postgresql" if given.postgres else "sqlite"

    def show(name: str, figures: dict[str, Any]) -> None:
        print(json.dumps({"database": database, "what": name, **figures}), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        if not given.postgres:
            show("forcing 4 KiB to disk", forcing(Path(folder) / "forced", given.repeats))
            catalogue = Catalogue(Database(f"{folder}/normal.db", synchronous="normal"))
            small(World(catalogue, "small"), given.repeats, show, ", synchronous normal")
            catalogue.close()
        catalogue = Catalogue(os.environ["SOLARJAX_TEST_POSTGRES"] if given.postgres else f"{folder}/plane.db")
        small(World(catalogue, "small"), given.repeats, show)
        for shape in ("wide", "tree", "chain"):
            cascade(World(catalogue, shape), shape, given.dependants, given.cascades, show)
        catalogue.close()
    return 0


def forcing(path: Path, repeats: int) -> dict[str, float]:
    """What the disk takes, whatever the database."""
    with path.open("wb", buffering=0) as file:
        return measure(lambda i: (file.write(bytes(4096)), os.fsync(file.fileno())), repeats)


def small(world: World, repeats: int, show: Callable[[str, dict[str, Any]], None], suffix: str = "") -> None:
    """A fact, a summary of it and a plan from both: corrected, admitted, fenced."""

    def family(i: int) -> None:
        world.create(f"fact{i}")
        world.create(f"summary{i}", f"fact{i}@1")
        world.create(f"plan{i}", f"fact{i}@1", f"summary{i}@1")

    for i in range(20):  # statements compiled, pages cached
        family(10**6 + i)
        world.correct(f"fact{10**6 + i}", 1)
    three = measure(lambda i: world.correct(f"fact{i}", 1), repeats, family)
    show(f"correction that ends 3 versions{suffix}", three)
    show(f"correction of a leaf{suffix}", measure(lambda i: world.correct(f"fact{i}", 2), repeats))
    if suffix:
        return
    same = measure(lambda i: world.correct("fact0", 3 + i), repeats)
    show(f"correction of one capsule {repeats} times over", same)
    gate = Gate(world.catalogue.database, world.catalogue.clock)
    wanted = [f"fact{i}" for i in range(1, 4)]
    show("admission of 3 capsules", measure(lambda i: gate.admit(world.name, wanted), repeats))
    admission = gate.admit(world.name, wanted)
    show("fence", measure(lambda i: gate.fence(world.name, admission), repeats))


def cascade(
    world: World, shape: str, dependants: int, repeats: int, show: Callable[[str, dict[str, Any]], None]
) -> None:
    """One correction that ends very many versions."""
    ended = []

    def prepare(i: int) -> None:
        world.create(f"root{i}")
        world.derive_many(f"root{i}", dependants, shape)

    figures = measure(lambda i: ended.append(world.correct(f"root{i}", 1)), repeats, prepare)
    assert ended == [dependants + 1] * repeats, ended
    show(f"cascade over {dependants} dependants, {shape}", figures)
