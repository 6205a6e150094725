"""What a correction costs as its cascade grows, and whether a request can slip past one. Neither needs an engine.

The first corrects capsules with 0 to 10^5 dependants. The second lets clients admit while corrections commit, and gives
the log to a checker that shares no code with the plane (`scripts/plane/checker.py`); two ways to admit that look right
and are not must be caught by it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.placemem.loop import Say
from experiments.placemem.table import Row, mean
from scripts.plane import stress
from scripts.plane.bench_corrections import World
from solarjax.plane.catalogue import Catalogue
from solarjax.replay.journal import Journal

DEPENDANTS = (0, 1, 10, 100, 1_000, 10_000, 100_000)


def invalidation(folder: Path, dependants: Sequence[int], repeats: int, journal: Journal, say: Say = print) -> None:
    """Corrects capsules with so many dependants, `repeats` times; the first correction of a size is not counted."""
    done = {(r["dependants"], r["nth"]) for r in journal.records}
    catalogue = Catalogue(folder / "cascade.db")
    try:
        for count in dependants:
            if all((count, nth) in done for nth in range(repeats)):
                continue
            world = World(catalogue, f"cascade-{count}")
            for nth in range(-1, repeats):
                root = f"root{nth + 1}"
                world.create(root)
                if count:
                    world.derive_many(root, count, "wide")
                wall, cpu = time.perf_counter(), time.thread_time()
                ended = world.correct(root, 1)
                spent = (time.perf_counter() - wall) * 1e3, (time.thread_time() - cpu) * 1e3
                if nth >= 0 and (count, nth) not in done:
                    journal.append(
                        {"type": "cascade", "dependants": count, "nth": nth, "ended": ended,
                         "wall_ms": round(spent[0], 4), "cpu_ms": round(spent[1], 4)}
                    )  # fmt: skip
            say(f"invalidation: {count} dependants done")
    finally:
        catalogue.close()


def invalidation_rows(table: str, records: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Figures by number of dependants (in `condition`)."""
    sizes: dict[int, list[Mapping[str, Any]]] = {}
    for record in records:
        sizes.setdefault(int(record["dependants"]), []).append(record)
    return [
        Row(table, "all", f"{count} dependants", name, *mean([r[field] for r in mine]), len(mine))
        for count, mine in sorted(sizes.items())
        for name, field in (("correction ms", "wall_ms"), ("correction CPU ms", "cpu_ms"), ("versions ended", "ended"))
    ]


def concurrency(folder: Path, clients: int, seconds: float, rate: float, journal: Journal, say: Say = print) -> None:
    """The plane and both controls under the same stress; a control may stop once it has been caught."""
    done = {r["mode"] for r in journal.records}
    for mode in stress.MODES:
        if mode in done:
            continue
        length = seconds if mode == "snapshot" else min(seconds, 5.0)
        verdict, facts = stress.run(
            str(folder / f"{mode}.db"), mode=mode, threads=clients, seconds=length, rate=rate, pause=0.5,
        )  # fmt: skip
        kinds = Counter(violation.split(":")[0] for violation in verdict.violations)
        journal.append(
            {"type": "stress", "mode": mode, "clients": clients, "violations": dict(kinds),
             **facts, **{k: v for k, v in verdict._asdict().items() if k != "violations"}}
        )  # fmt: skip
        say(f"concurrency: {mode}: {sum(kinds.values())} violations in {verdict.admissions} admissions")


def concurrency_rows(table: str, records: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Counts by mode (in `condition`)."""
    found = []
    for record in records:
        counts = {"violations": sum(record["violations"].values())}
        counts |= {name: record[name] for name in ("admissions", "corrections", "close", "fenced", "refused")}
        found += [
            Row(table, "all", record["mode"], name, float(value), None, None, int(record["admissions"]))
            for name, value in counts.items()
        ]
    return found
