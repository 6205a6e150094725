"""Clients that admit while corrections commit, with a log for the independent checker.

    python -m scripts.plane.stress                                        # 64 clients, 20 corrections/s, 60 s, SQLite
    scripts/with_postgres python -m scripts.plane.stress --postgres
    python -m scripts.plane.stress --path hot                             # as the sidecar admits, see clients.py
    python -m scripts.plane.stress --mode ttl --seconds 10                # a control: the checker must object

World: facts, a summary of each, and a plan from each two neighbouring summaries. A round picks a fact; two correctors
race for it with the same expected version, so that one of them must lose; the winner writes the summary and the plans
anew. Prints one JSON line; exit code 1 if the checker objects (with --mode snapshot) or does not (with a control).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scripts.plane.checker import Verdict, check
from scripts.plane.clients import FACTS, MODES, PATHS, TENANT, clients
from solarjax.plane.capsules import CapsuleContent, CapsuleDraft, Provenance, VersionRef
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.commit import Intent
from solarjax.plane.errors import Conflict
from solarjax.plane.results import WriteResult

_SOURCE = Provenance(source="stress")
_INTENT = Intent(TENANT, "stress")


class Writers:
    """The correctors and what they log."""

    def __init__(self, catalogue: Catalogue):
        self.catalogue = catalogue
        self.log: list[dict[str, Any]] = []
        self.lost_races = 0
        self._lock = threading.Lock()
        self._facts = [self._make(f"fact{i}", ()) for i in range(FACTS)]
        self._summaries = [self._make(f"summary{i}", (ref,)) for i, ref in enumerate(self._facts)]
        self._plans = [self._plan(i) for i in range(FACTS)]

    def round(self, rng: random.Random, pool: ThreadPoolExecutor) -> None:
        """One correction, raced for by two writers, and what has to be derived again."""
        i = rng.randrange(FACTS)
        ref = self._facts[i]
        outcomes = list(pool.map(lambda _: self._correct(ref), range(2)))
        winners = [made for made in outcomes if made is not None]
        self.lost_races += len(outcomes) - len(winners)
        self._facts[i] = winners[0]
        self._summaries[i] = self._make(f"summary{i}", (winners[0],))
        for j in (i, (i - 1) % FACTS):
            self._plans[j] = self._plan(j)

    def _plan(self, i: int) -> VersionRef:
        return self._make(f"plan{i}", (self._summaries[i], self._summaries[(i + 1) % FACTS]))

    def _make(self, name: str, sources: tuple[VersionRef, ...]) -> VersionRef:
        draft = CapsuleDraft(id=name, text=f"{name} at {time.monotonic_ns()}", provenance=_SOURCE, depends_on=sources)
        return self._logged(None, sources, lambda: self.catalogue.create(_INTENT, draft))

    def _correct(self, ref: VersionRef) -> VersionRef | None:
        content = CapsuleContent(text=f"{ref.id} at {time.monotonic_ns()}", provenance=_SOURCE)
        try:
            return self._logged(ref, (), lambda: self.catalogue.correct(_INTENT, ref, content))
        except Conflict:
            return None

    def _logged(self, target: VersionRef | None, sources: tuple[VersionRef, ...], write: Any) -> VersionRef:
        started = time.monotonic_ns()
        result: WriteResult = write()
        acked = time.monotonic_ns()
        made = result.ref
        with self._lock:
            self.log.append(
                {
                    "type": "write", "epoch": result.epoch, "started": started, "acked": acked,
                    "target": target and [target.id, target.version], "made": [made.id, made.version],
                    "sources": [[s.id, s.version] for s in sources],
                }
            )  # fmt: skip
        return made


def run(
    url: str, *, mode: str = "snapshot", path: str = "gate", threads: int = 64, seconds: float = 60.0,
    rate: float = 20.0, processes: int = 1, seed: int = 0, min_rounds: int = 0, think: float = 0.02,
    pause: float = 0.0,
) -> tuple[Verdict, dict[str, Any]]:  # fmt: skip
    """Runs clients and correctors against an empty catalogue and checks the log.

    Args:
      mode: `snapshot`, or a control, which knows no other path than `gate`.
      path: of the admissions, see clients.py.
      seconds: how long at least; rate: corrections per second wanted.
      think: longest time between admission and fence, seconds; pause: and between two requests of a client.
      min_rounds: goes on until there were so many corrections, however slow the machine (one process only).

    Returns:
      The verdict, and facts: `kept` counts admissions that the hot path had kept, `readmitted` those after a refusal.
    """
    if path != "gate" and mode != "snapshot":
        raise ValueError(f"path {path!r} with the control {mode!r}: controls know the path 'gate' only")
    catalogue = Catalogue(url)
    catalogue.add_tenant(TENANT)
    writers = Writers(catalogue)
    begin = time.monotonic_ns()
    until = begin + int(seconds * 1e9)
    done = threading.Event()
    if processes > 1:
        pool: Any = multiprocessing.get_context("spawn").Pool(processes)
        share = threads // processes
        jobs = [
            pool.apply_async(clients, (url, mode, path, share, until, seed + n, think, pause)).get
            for n in range(processes)
        ]
    else:
        pool = ThreadPoolExecutor(1)
        jobs = [pool.submit(clients, url, mode, path, threads, done.is_set, seed, think, pause).result]
    rounds, rng = 0, random.Random(seed)
    with ThreadPoolExecutor(2) as racers:
        while time.monotonic_ns() < until or rounds < min_rounds:
            due = begin + int(rounds / rate * 1e9)
            time.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))
            writers.round(rng, racers)
            rounds += 1
    took = (time.monotonic_ns() - begin) / 1e9
    done.set()
    log = writers.log + [entry for result in jobs for entry in result()]
    if processes > 1:
        pool.close()
        pool.join()
    else:
        pool.shutdown()
    catalogue.close()
    facts = {"seconds": round(took, 1), "corrections": rounds, "corrections_per_s": round(rounds / took, 1)}
    kept, again = (sum(entry.get(name, False) for entry in log) for name in ("kept", "again"))
    return check(log), {**facts, "lost_races": writers.lost_races, "kept": kept, "readmitted": again}


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=MODES, default="snapshot")
    parser.add_argument("--path", choices=PATHS, default="gate")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=20.0, help="corrections per second")
    parser.add_argument("--pause", type=float, default=0.5, help="longest pause of a client between requests, seconds")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--postgres", action="store_true", help="use the URL in SOLARJAX_TEST_POSTGRES")
    given = parser.parse_args()
    if given.path != "gate" and given.mode != "snapshot":
        parser.error("a control knows the path gate only")
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ["SOLARJAX_TEST_POSTGRES"] if given.postgres else f"{folder}/plane.db"
        verdict, facts = run(
            url, mode=given.mode, path=given.path, threads=given.clients, seconds=given.seconds, rate=given.rate,
            processes=given.processes, pause=given.pause,
        )  # fmt: skip
    kinds: dict[str, int] = {}
    for violation in verdict.violations:
        kind = violation.split(":")[0]
        kinds[kind] = kinds.get(kind, 0) + 1
    database = "postgresql" if given.postgres else "sqlite"
    shown = {"database": database, "mode": given.mode, "path": given.path, "clients": given.clients, **facts}
    print(json.dumps({**shown, **verdict._asdict(), "violations": kinds}))
    for violation in verdict.violations[:5]:
        print("  " + violation, file=sys.stderr)
    return int(bool(verdict.violations) == (given.mode == "snapshot"))


if __name__ == "__main__":
    sys.exit(main())
