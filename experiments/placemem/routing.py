"""Where requests go: rules over two nodes, of equal and of unequal capacity, with and without eviction.

A request uses one capsule of a working set, drawn by popularity, for one of some sessions, and asks something new. All
rules see the same requests, through the whole plane. `small` sets fit on each node, `large` ones on neither.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.placemem.families import background
from experiments.placemem.frontend import Frontend
from experiments.placemem.loop import Say
from experiments.placemem.table import Row, mean, ratio_of_sums, share
from solarjax.plane.capsules import CapsuleDraft, Provenance
from solarjax.plane.commit import Intent
from solarjax.plane.placement.config import Rule
from solarjax.replay.journal import Journal

RULES: Mapping[str, Rule] = {
    "round_robin": "round_robin",
    "session_sticky": "session",
    "consistent_hash": "consistent_hash",
    "kv_aware": "utility",
}
SESSIONS = 8


@dataclass(frozen=True)
class Load:
    """A stream of requests. capsules: in the working set.  requests: how many.  sentences: length of a capsule."""

    name: str
    capsules: int
    requests: int
    sentences: int = 30


@dataclass(frozen=True)
class Request:
    """One request."""

    capsule: str
    session: str
    question: str


def requests(load: Load, key: int) -> list[Request]:
    """The stream; a capsule's popularity falls with the square root of its rank."""
    draw = random.Random(f"routing {load.name} {key}")
    weights = [(i + 1) ** -0.5 for i in range(load.capsules)]
    chosen = draw.choices(range(load.capsules), weights, k=load.requests)
    return [
        Request(f"capsule-{c}", f"session-{draw.randrange(SESSIONS)}", f"Say something about number {n}.")
        for n, c in enumerate(chosen)
    ]  # fmt: skip


def texts(load: Load, key: int) -> dict[str, str]:
    """The working set: id -> text."""
    draw = random.Random(f"routing texts {load.name} {key}")
    return {f"capsule-{i}": background(draw, f"matter {i}", load.sentences) for i in range(load.capsules)}


def execute(
    front: Frontend,
    capacity: str,
    loads: Sequence[Load],
    repeats: int,
    journal: Journal,
    *,
    until: float | None = None,
    say: Say = print,
) -> bool:
    """Every rule over every load; a cell that is complete in the journal is not run again, others begin anew.

    Args:
      capacity: name of the nodes' sizes, `equal` or `unequal`.
      until: monotonic time at which to stop, between two cells; None for no limit.

    Returns:
      Whether everything is done.

    Raises:
      BenchError: see `Frontend.ask`.
    """
    full = {cell(r) for r in journal.records if r.get("last")}
    for repeat in range(repeats):
        for load in loads:
            for rule in RULES:
                if (capacity, load.name, rule, repeat) in full:
                    continue
                if until is not None and time.monotonic() > until:
                    return False
                _cell(front, capacity, load, rule, repeat, journal)
                say(f"routing: {capacity} nodes, {load.name} working set, {rule}, repeat {repeat + 1} done")
    return True


def cell(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which run of one rule a journal line belongs to."""
    return record["capacity"], record["load"], record["rule"], record["repeat"]


def _cell(front: Frontend, capacity: str, load: Load, rule: str, repeat: int, journal: Journal) -> None:
    tenant = f"{load.name}-{capacity}-{repeat}-{rule.replace('_', '-')}"
    front.tenant(tenant)
    front.empty_caches()
    intent, source = Intent(tenant, "benchmark", "routing"), Provenance(source="benchmark")
    for name, text in texts(load, repeat).items():
        front.services.catalogue.create(intent, CapsuleDraft(id=name, text=text, provenance=source))
    stream = requests(load, repeat)
    lines = []
    for number, one in enumerate(stream):
        answer = front.ask(
            tenant, one.question, rule=RULES[rule], capsules=(one.capsule,), session=one.session
        )  # fmt: skip
        lines.append(
            {"type": "routed", "capacity": capacity, "load": load.name, "rule": rule, "repeat": repeat,
             "number": number, "capsule": one.capsule, "session": one.session, "node": answer.node,
             "ttft_ms": round(answer.ttft_ms, 3), "engine_ms": answer.engine_ms, "prompt_tokens": answer.prompt_tokens,
             "cached": answer.cached, "predicted": answer.predicted, "last": number == len(stream) - 1}
        )  # fmt: skip
    for line in lines:
        journal.append(line)


def rows(table: str, records: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Figures of every cell. family: `capacity, load`; condition: the rule."""
    cells: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    records = [r for r in records if r["type"] == "routed"]
    complete = {cell(r) for r in records if r["last"]}
    newest: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for record in records:
        if cell(record) in complete:
            newest[(*cell(record), record["number"])] = record
    for record in newest.values():
        cells.setdefault((f"{record['capacity']}, {record['load']}", record["rule"]), []).append(record)
    found = []
    for (group, rule), mine in cells.items():
        known = [r["predicted"] == r["cached"] for r in mine if r["predicted"] is not None]
        spent = [r["engine_ms"] for r in mine if r["engine_ms"] is not None]
        figures = (
            ("reuse", ratio_of_sums([r["cached"] for r in mine], [r["prompt_tokens"] for r in mine]), len(mine)),
            ("predictions exact", share(known), len(known)),
            # Without engine time the engines are scripted, and what they take says nothing.
            ("TTFT ms", mean([r["ttft_ms"] for r in mine]), len(mine) if spent else 0),
            ("engine CPU ms", mean(spent), len(spent)),
        )
        found += [Row(table, group, rule, name, *value, n) for name, value, n in figures if n]
        base = cells.get((group, "consistent_hash"))
        if base and rule != "consistent_hash":
            found.append(_against(table, group, rule, mine, base))
    return found


def _against(
    table: str, group: str, rule: str, mine: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]]
) -> Row:
    """Difference in the mean share of a prompt that was reused, paired by request."""
    other = {(r["repeat"], r["number"]): r for r in base}
    gaps = [
        r["cached"] / r["prompt_tokens"] - o["cached"] / o["prompt_tokens"]
        for r in mine
        if (o := other.get((r["repeat"], r["number"])))
    ]
    return Row(table, group, rule, "reuse difference", *mean(gaps), len(gaps), "consistent_hash")
