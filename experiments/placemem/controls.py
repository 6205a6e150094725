"""What a correction costs as its cascade grows, and whether a request can slip past one. Neither needs an engine.

The first corrects capsules with 0 to 10^5 dependants. The second lets clients admit while corrections commit, by the
gate and by the sidecar's hot path, and gives the log to a checker that shares no code with the plane
(`scripts/plane/checker.py`); two ways to admit that look right and are not must be caught by it.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from experiments.placemem.loop import Say
from experiments.placemem.table import Row, mean
from scripts.plane import databases, stress
from scripts.plane.bench_corrections import World
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.database import Database, Synchronous
from solarjax.replay.journal import Journal

DEPENDANTS = (0, 1, 10, 100, 1_000, 10_000, 100_000)

STRESSED = {
    "snapshot": ("snapshot", "gate"), "hot": ("snapshot", "hot"),
    "ttl": ("ttl", "gate"), "two_reads": ("two_reads", "gate"),
}  # fmt: skip
"""Condition -> mode and path of `scripts.plane.stress`."""
SYNCHRONOUS: tuple[Synchronous, ...] = ("full", "normal")
SMALL = 1_000
"""Dependants up to which a correction takes milliseconds: those are repeated more often, in both durabilities."""
SMALL_REPEATS = 8


def invalidation(folder: Path, dependants: Sequence[int], repeats: int, journal: Journal, say: Say = print) -> None:
    """Corrects capsules with so many dependants; the first correction of a size is not counted.

    repeats: of the large sizes; small ones have `SMALL_REPEATS` times as many.
    """
    for synchronous in SYNCHRONOUS:
        sizes = [count for count in dependants if synchronous == "full" or count <= SMALL]
        catalogue = Catalogue(Database(folder / f"{synchronous}.db", synchronous=synchronous))
        try:
            _cascades(catalogue, synchronous, sizes, repeats, journal, say)
        finally:
            catalogue.close()


def _cascades(
    catalogue: Catalogue, synchronous: Synchronous, sizes: Sequence[int], repeats: int, journal: Journal, say: Say
) -> None:
    done = {(r["synchronous"], r["dependants"], r["nth"]) for r in journal.records}
    for count in sizes:
        times = repeats * SMALL_REPEATS if count <= SMALL else repeats
        if all((synchronous, count, nth) in done for nth in range(times)):
            continue
        world = World(catalogue, f"cascade-{count}")
        for nth in range(-1, times):
            root = f"root{nth + 1}"
            world.create(root)
            if count:
                world.derive_many(root, count, "wide")
            wall, cpu = time.perf_counter(), time.thread_time()
            ended = world.correct(root, 1)
            spent = (time.perf_counter() - wall) * 1e3, (time.thread_time() - cpu) * 1e3
            if nth >= 0 and (synchronous, count, nth) not in done:
                journal.append(
                    {"type": "cascade", "synchronous": synchronous, "dependants": count, "nth": nth, "ended": ended,
                     "wall_ms": round(spent[0], 4), "cpu_ms": round(spent[1], 4)}
                )  # fmt: skip
        say(f"invalidation: {count} dependants done, synchronous {synchronous}")


def invalidation_rows(table: str, records: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Figures by number of dependants (in `condition`, with the durability unless it is full)."""
    sizes: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for record in records:
        sizes.setdefault((record["synchronous"], int(record["dependants"])), []).append(record)
    found = []
    for (synchronous, count), mine in sorted(sizes.items()):
        condition = f"{count} dependants" + ("" if synchronous == "full" else f", synchronous {synchronous}")
        for name, field in (("correction ms", "wall_ms"), ("correction CPU ms", "cpu_ms"), ("versions ended", "ended")):
            found.append(Row(table, "all", condition, name, *mean([r[field] for r in mine]), len(mine)))
        middle = float(median(r["wall_ms"] for r in mine))
        found.append(Row(table, "all", condition, "median correction ms", middle, None, None, len(mine)))
    return found


def concurrency(
    folder: Path, on: Sequence[str], clients: int, seconds: float, rate: float, journal: Journal, say: Say = print
) -> None:
    """The plane on both paths and both controls under the same stress; a control may stop once it has been caught.

    on: databases, see `scripts.plane.databases`.
    """
    done = {(r["database"], r["mode"]) for r in journal.records}
    for database, name in itertools.product(on, STRESSED):
        if (database, name) in done:
            continue
        mode, path = STRESSED[name]
        length = seconds if mode == "snapshot" else min(seconds, 5.0)
        with databases.empty(database, folder) as url:
            verdict, facts = stress.run(
                url, mode=mode, path=path, threads=clients, seconds=length, rate=rate, pause=0.5
            )  # fmt: skip
        kinds = Counter(violation.split(":")[0] for violation in verdict.violations)
        journal.append(
            {"type": "stress", "database": database, "mode": name, "clients": clients, "violations": dict(kinds),
             **facts, **{k: v for k, v in verdict._asdict().items() if k != "violations"}}
        )  # fmt: skip
        say(f"concurrency: {database}, {name}: {sum(kinds.values())} violations in {verdict.admissions} admissions")


def concurrency_rows(table: str, records: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Counts by way of admission (in `condition`, with the database unless it is SQLite)."""
    found = []
    names = ("admissions", "corrections", "close", "fenced", "refused", "lost_races", "corrections_per_s", "seconds",
             "kept", "readmitted")  # fmt: skip
    for record in records:
        condition = record["mode"] + ("" if record["database"] == "sqlite" else f", {record['database']}")
        counts = {"violations": sum(record["violations"].values())} | {name: record[name] for name in names}
        found += [
            Row(table, "all", condition, name.replace("_", " "), float(value), None, None, int(record["admissions"]))
            for name, value in counts.items()
        ]
    return found
