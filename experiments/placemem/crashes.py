"""Whether a killed writer loses what it acknowledged, or leaves a write half done. Needs no engine.

`scripts/plane/crash.py` kills and checks. It forks, so it runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.placemem.errors import BenchError
from experiments.placemem.loop import Say
from experiments.placemem.table import Row
from scripts.plane import databases
from scripts.plane.crash_check import CHECKED
from solarjax.replay.journal import Journal

KILLS, FEW = 200, 20
SHOWN = 3
"""Problems that a note names; all are counted."""
_ROOT = Path(__file__).resolve().parents[2]


def crashes(folder: Path, on: Sequence[str], kills: int, journal: Journal, say: Say = print) -> None:
    """Kills writers on each database that the journal lacks.

    Raises:
      BenchError: the command gave no result.
    """
    done = {r["database"] for r in journal.records if r["type"] == "crash"}
    for database in on:
        if database in done:
            continue
        with databases.empty(database, folder) as url:
            command = [sys.executable, "-m", "scripts.plane.crash", "--kills", str(kills), "--url", url]
            given = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT)
        try:
            result = json.loads(given.stdout)
        except ValueError:
            last = given.stderr.strip().rsplit("\n", 1)[-1]
            raise BenchError(f"the kills on {database} gave no result (exit code {given.returncode}): {last}") from None
        journal.append({"type": "crash", "database": database, **result})
        say(f"crash: {database}: {result['kills']} kills, {len(result['problems'])} problems")


def notes() -> list[dict[str, str]]:
    """What the report says of the part."""
    return [
        {"type": "note", "text": f"After every kill it was checked that these hold: {'; '.join(CHECKED)}."},
        {"type": "note", "text": "Killed is the process that writes; a PostgreSQL server goes on."},
    ]  # fmt: skip


def problems(records: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Notes that name the first problems found on each database."""
    return [
        {"type": "note", "text": f"On {r['database']}: {'; '.join(r['problems'][:SHOWN])}."}
        for r in records if r["type"] == "crash" and r["problems"]
    ]  # fmt: skip


def crash_rows(table: str, records: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Counts by database (in `condition`); n: kills."""
    found = []
    for record in records:
        if record["type"] == "crash":
            counts = {
                "problems": len(record["problems"]), "kills": record["kills"],
                "acknowledged writes": record["acknowledged"],
                "committed, not acknowledged": record["committed_unacknowledged"],
                **{f"{name}, acknowledged": count for name, count in sorted(record["operations"].items())},
            }  # fmt: skip
            found += [
                Row(table, "all", record["database"], name, float(count), None, None, int(record["kills"]))
                for name, count in counts.items()
            ]  # fmt: skip
    return found
