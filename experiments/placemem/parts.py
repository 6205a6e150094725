"""The parts of the benchmark: what each runs, on which nodes, and which figures it gives."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from experiments.placemem import controls, crashes, engines, loop, routing, table
from experiments.placemem.errors import BenchError
from experiments.placemem.frontend import Frontend
from experiments.placemem.loop import Plan, Say
from experiments.placemem.pool import Pool
from scripts.plane import databases
from solarjax.core.params import suggest
from solarjax.replay.journal import Journal

Backend = Literal["standin", "vllm", "none"]
BLOCKS = (1400, 1400)
"""KV blocks of the two nodes of a comparison: room for all that its conditions keep."""
UNEQUAL, EQUAL = (96, 1400), (96, 96)
"""And of a routing study. In this order one server at a time is started anew, see pool.py."""
BASELINES = ("text_cache", "text_hash")
"""What can be had without a plane; no table of conditions should lack them."""
SMALL = routing.Load("small", 6, 48)
LARGE = routing.Load("large", 24, 96)


@dataclass(frozen=True)
class Part:
    """One part.

    id: its name and that of its files.  what: in words.  backend: nodes it needs.  claims: rows of the ledger.
    plan: of a comparison; None for the others.
    """

    id: str
    what: str
    backend: Backend
    claims: tuple[str, ...]
    plan: Plan | None = None
    quick: Plan | None = None


LONG_TRACE: dict[str, Any] = {"corrections": 4, "first": 20, "focus": 0.5, "derived": 0.25, "background": 30}
SELDOM: dict[str, Any] = {"answered": 0.0, "answered_after": 0.25}
"""A token of an answer costs a CPU as much as a cached prompt; what answers say is the probe's subject."""
DEPLOYED = (*BASELINES, "full")
PARTS: dict[str, Part] = {
    part.id: part
    for part in (
        Part("pilot", "the pilot: one correction a family, scripted engines", "standin", ("P01", "P02"),
             Plan(), Plan(turns=24, first=3)),
        Part("trace", "a long trace with derived memory, scripted engines", "standin", ("P02",),
             Plan(turns=340, repeats=3, **LONG_TRACE), Plan(turns=60, **(LONG_TRACE | {"first": 8}))),
        Part("probe", "the correction-follow probe, the pilot's turns on vLLM", "vllm",
             ("P01", "P04", "P05"), Plan(repeats=3, answered=0.25, answered_after=0.5, choose=True),
             Plan(turns=24, first=3, answered=0.0, answered_after=0.0, choose=True)),
        Part("deployment", "the long trace through the plane on vLLM", "vllm", ("P06",),
             Plan(turns=340, repeats=3, conditions=DEPLOYED, **SELDOM, **LONG_TRACE),
             Plan(turns=60, conditions=DEPLOYED, **SELDOM, **(LONG_TRACE | {"first": 8}))),
        Part("invalidation", "a correction with 0 to 100,000 dependants", "none", ("P03",)),
        Part("concurrency", "clients that admit on two paths while corrections commit; two controls", "none", ("P07",)),
        Part("crash", "writers killed at random while they write", "none", ()),
        Part("routing-standin", "four rules, equal and unequal nodes, scripted engines", "standin", ()),
        Part("routing-vllm", "four rules, equal and unequal nodes, vLLM", "vllm", ()),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """How much to run. None: what the part says.

    quick: the small sizes.  minutes: wall time for the turns, after which a part stops and can be continued.
    background: sentences of a family's long document.
    requests: of the large routing load; the small one has half as many.
    """

    quick: bool = False
    turns: int | None = None
    repeats: int | None = None
    conditions: tuple[str, ...] | None = None
    minutes: float | None = None
    background: int | None = None
    requests: int | None = None

    def plan(self, part: Part) -> Plan:
        """The plan of a comparison with these sizes. Raises `BenchError` for sizes that cannot be."""
        plan = part.quick if self.quick else part.plan
        assert plan is not None
        plan = replace(
            plan, turns=plan.turns if self.turns is None else self.turns,
            repeats=plan.repeats if self.repeats is None else self.repeats,
            conditions=plan.conditions if self.conditions is None else self.conditions,
            background=plan.background if self.background is None else self.background,
        )  # fmt: skip
        share = plan.turns // 3
        return plan if plan.first < share else replace(plan, first=max(share // 3, 1))


@dataclass(frozen=True)
class Outcome:
    """What a part gave.

    records: the journal's lines; one of type `note` holds a remark for the report.  complete: nothing is missing.
    seconds: of this run.  ran: whether anything had to be run.
    """

    part: Part
    config: dict[str, Any]
    records: list[dict[str, Any]]
    rows: list[table.Row]
    complete: bool
    seconds: float = 0.0
    ran: bool = True


def get(name: str) -> Part:
    """The part of that name. Raises `BenchError` naming the known ones."""
    if name not in PARTS:
        raise BenchError(f"unknown part {name!r}{suggest(name, PARTS)} (known: {', '.join(PARTS)})")
    return PARTS[name]


def run(part: Part, options: Options, work: Path, pool: Pool | None, say: Say = print) -> Outcome:
    """Runs what is missing of a part.

    Args:
      work: folder of journals.  pool: where real servers come from; parts with scripted engines or none need no pool.

    Raises:
      BenchError, ReplayError: a node failed or could not be started; what was answered is kept.
    """
    begin, before = time.monotonic(), _lines(work)
    if part.plan is not None:
        found = _comparison(part, options, work, pool, say)
    elif part.id.startswith("routing"):
        found = _routing(part, options, work, pool, say)
    else:
        found = _control(part, options, work, say)
    return replace(found, seconds=time.monotonic() - begin, ran=_lines(work) != before)


def _lines(work: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in work.glob("*.jsonl")}


def _nodes(part: Part, blocks: tuple[int, ...], pool: Pool | None) -> AbstractContextManager[engines.Nodes]:
    if part.backend == "standin":
        return engines.standin(blocks)
    assert pool is not None, "a part with real servers needs a pool"
    return nullcontext(pool.nodes(blocks))


def _comparison(part: Part, options: Options, work: Path, pool: Pool | None, say: Say) -> Outcome:
    plan = options.plan(part)
    config: dict[str, Any] = {"part": part.id, "backend": part.backend, "blocks": list(BLOCKS), **asdict(plan)}
    config = {name: list(value) if isinstance(value, tuple) else value for name, value in config.items()}
    with loop.open_journal(work, part.id, config) as journal:
        wanted = plan.turns * plan.repeats * len(plan.conditions)
        complete = sum(r["type"] == "turn" for r in journal.records) >= wanted
        if not complete:
            with _nodes(part, BLOCKS, pool) as nodes, _frontend(nodes) as front:
                _note(journal, nodes)
                until = None if options.minutes is None else time.monotonic() + 60 * options.minutes
                complete = loop.execute(plan, front, journal, until=until, say=lambda t: say(f"{part.id}: {t}"))
        records = list(journal.records)
    return Outcome(part, config, records, table.rows(part.id, records, part.backend == "standin"), complete)


def _routing(part: Part, options: Options, work: Path, pool: Pool | None, say: Say) -> Outcome:
    count = options.requests or (24 if options.quick else LARGE.requests)
    loads = replace(LARGE, requests=count), replace(SMALL, requests=count // 2)
    complete = True
    repeats = options.repeats or 1
    config: dict[str, Any] = {
        "part": part.id, "backend": part.backend, "equal": list(EQUAL), "unequal": list(UNEQUAL),
        "loads": [asdict(load) for load in loads], "repeats": repeats,
    }  # fmt: skip
    with loop.open_journal(work, part.id, config) as journal:
        for capacity, blocks in (("unequal", UNEQUAL), ("equal", EQUAL)):
            cells = {routing.cell(r) for r in journal.records if r.get("last") and r["capacity"] == capacity}
            if len(cells) < len(loads) * len(routing.RULES) * repeats:
                with _nodes(part, blocks, pool) as nodes, _frontend(nodes) as front:
                    _note(journal, nodes)
                    until = None if options.minutes is None else time.monotonic() + 60 * options.minutes
                    complete &= routing.execute(front, capacity, loads, repeats, journal, until=until, say=say)
        records = list(journal.records)
    return Outcome(part, config, records, routing.rows(part.id, records), complete)


def _control(part: Part, options: Options, work: Path, say: Say) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="pm") as name:
        folder = Path(name)
        if part.id == "invalidation":
            sizes = controls.DEPENDANTS[:4] if options.quick else controls.DEPENDANTS
            repeats = options.repeats or 5
            config: dict[str, Any] = {"part": part.id, "dependants": list(sizes), "repeats": repeats}
            with loop.open_journal(work, part.id, config) as journal:
                controls.invalidation(folder, sizes, repeats, journal, say)
                records = list(journal.records)
            return Outcome(part, config, records, controls.invalidation_rows(part.id, records), True)
        if part.id == "crash":
            return _crash(part, crashes.FEW if options.quick else crashes.KILLS, folder, work, say)
        sizes_: tuple[int, float, float] = (16, 2.0, 20.0) if options.quick else (64, 60.0, 20.0)
        clients, seconds, rate = sizes_
        if options.minutes is not None:
            seconds = min(seconds, 60 * options.minutes)
        on = databases.available()
        config = {"part": part.id, "databases": list(on), "clients": clients, "seconds": seconds, "rate": rate}
        config |= _durability(on)
        with loop.open_journal(work, part.id, config) as journal:
            controls.concurrency(folder, on, clients, seconds, rate, journal, say)
            records = list(journal.records)
        return Outcome(part, config, records, controls.concurrency_rows(part.id, records), True)


def _crash(part: Part, kills: int, folder: Path, work: Path, say: Say) -> Outcome:
    on = databases.available()
    config: dict[str, Any] = {"part": part.id, "databases": list(on), "kills": kills, **_durability(on)}
    with loop.open_journal(work, part.id, config) as journal:
        crashes.crashes(folder, on, kills, journal, say)
        records = list(journal.records)
    records += crashes.notes() + crashes.problems(records)
    return Outcome(part, config, records, crashes.crash_rows(part.id, records), True)


def _durability(on: Sequence[str]) -> dict[str, str]:
    return {"postgresql_fsync": "on" if databases.forces_commits() else "off"} if "postgresql" in on else {}


def _note(journal: Journal, nodes: engines.Nodes) -> None:
    """What answered is part of the journal: a run that continues may find other servers."""
    line = {"type": "nodes", **nodes.facts}
    if line not in journal.records:
        journal.append(line)


@contextmanager
def _frontend(nodes: engines.Nodes) -> Iterator[Frontend]:
    """A plane whose database lies in a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="pm") as folder, Frontend(nodes, Path(folder)) as front:
        yield front
