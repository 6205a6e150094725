"""Runs workloads under several conditions side by side, one journal line for each answered turn and each correction.

Conditions take turns: all answer turn 1, then all turn 2, in an order that rotates. What else the machine does then
falls on all of them alike, and every comparison is paired by turn.

A run that was stopped continues. Turns that are in the journal are asked again, for one token and unrecorded, because
the caches they left behind are part of what the next turn is measured in; corrections are applied again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.placemem import workload as w
from experiments.placemem.conditions import CONDITIONS, MAX_TOKENS, Condition, Given, is_stale
from experiments.placemem.errors import BenchError
from experiments.placemem.families import mixed
from experiments.placemem.frontend import Frontend
from solarjax.replay.journal import Journal

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to run.

    turns: of one repeat, all families together.  corrections: of each family.  first: turns of a family before the
    first.  focus, derived, answered, answered_after, background: see `workload.Sizes`.  conditions: names.  repeats:
    each a key.  choose: after a correction, also ask which of the two values, the old and the new, it is.
    """

    turns: int = 48
    repeats: int = 1
    conditions: tuple[str, ...] = tuple(CONDITIONS)
    corrections: int = 1
    first: int = 7
    focus: float = 1.0
    derived: float = 0.0
    answered: float = 1.0
    answered_after: float = 1.0
    background: int = 66
    choose: bool = False

    def __post_init__(self) -> None:
        unknown = [name for name in self.conditions if name not in CONDITIONS]
        if unknown or not self.conditions:
            raise BenchError(f"unknown condition {', '.join(unknown) or 'none'} (known: {', '.join(CONDITIONS)})")
        for name in ("turns", "repeats", "corrections", "first", "background"):
            if getattr(self, name) < 1:
                raise BenchError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def trace(self, repeat: int) -> w.Trace:
        """The workload of one repeat."""
        return mixed(
            repeat, self.turns, corrections=self.corrections, first=self.first, focus=self.focus,
            derived=self.derived, answered=self.answered, answered_after=self.answered_after,
            background=self.background,
        )  # fmt: skip


def execute(plan: Plan, front: Frontend, journal: Journal, *, until: float | None = None, say: Say = print) -> bool:
    """Runs what the journal lacks.

    Args:
      until: monotonic time at which to stop, between two turns; None for no limit.

    Returns:
      Whether everything is done.

    Raises:
      BenchError: a node failed; what was answered is kept.
    """
    done = {key(record): record for record in journal.records if record["type"] in ("turn", "correction")}
    for repeat in range(plan.repeats):
        trace = plan.trace(repeat)
        wanted = {(repeat, t.family, t.number, c) for t in trace.turns for c in plan.conditions}
        if wanted <= set(done):
            continue
        front.empty_caches()
        if not _repeat(plan, repeat, trace, front, journal, done, until):
            say(f"stopped by the time limit in repeat {repeat + 1} of {plan.repeats}")
            return False
        say(f"repeat {repeat + 1} of {plan.repeats} done")
    return True


def key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a journal line unique."""
    if record["type"] == "turn":
        return record["repeat"], record["family"], record["number"], record["condition"]
    return record["type"], record["repeat"], record["family"], record["nth"], record["condition"]


def _repeat(
    plan: Plan,
    repeat: int,
    trace: w.Trace,
    front: Frontend,
    journal: Journal,
    done: Mapping[tuple[Any, ...], Any],
    until: float | None,
) -> bool:
    # Named alike in every run: consistent hashing looks at the tenant's name too.
    made = [CONDITIONS[name](name, front, f"{name}-{repeat}") for name in plan.conditions]
    for condition in made:
        for document in trace.documents:
            condition.learn(document)
    wrong: dict[str, str] = {}
    count: dict[str, int] = {}
    for position, event in enumerate(trace.events):
        if isinstance(event, w.Correction):
            wrong[event.old] = event.subject
            nth = count[event.family] = count.get(event.family, 0) + 1
            for condition in made:
                line = _correct(condition, event, repeat, nth)
                if line is not None and key(line) not in done:
                    journal.append(line)
            continue
        if until is not None and time.monotonic() > until:
            return False
        for condition in _rotated(made, position):
            known = (repeat, event.family, event.number, condition.name) in done
            given = condition.ask(event, 1 if known or not event.answer else MAX_TOKENS)
            if not known:
                said = condition.choose(event, given.answer.node) if plan.choose and event.after else None
                journal.append(turn_record(repeat, event, condition.name, given, wrong, said))
    return True


def _rotated(made: Sequence[Condition], position: int) -> Iterator[Condition]:
    begin = position % len(made)
    yield from made[begin:]
    yield from made[:begin]


def _correct(condition: Condition, event: w.Correction, repeat: int, nth: int) -> dict[str, Any] | None:
    cost = condition.correct(event)
    if cost is None:
        return None
    return {
        "type": "correction", "repeat": repeat, "family": event.family, "nth": nth, "condition": condition.name,
        **{name: round(value, 4) for name, value in asdict(cost).items()},
    }  # fmt: skip


def turn_record(
    repeat: int, turn: w.Turn, condition: str, given: Given, wrong: Mapping[str, str], chosen: str | None = None
) -> dict[str, Any]:
    """One journal line.

    right, old: whether the answer has the expected identifier, and whether it has one that was corrected; None if the
    answer was not looked at.  follows: whether, given the old and the new value to choose from, the model chose the new
    one; None if it was not asked.  stale: whether a text that was used has one; None where corrected statements stand
    beside their corrections by design.
    """
    answer = given.answer
    looked = turn.answer
    return {
        "type": "turn", "repeat": repeat, "family": turn.family, "number": turn.number, "condition": condition,
        "session": turn.session, "subject": turn.subject, "wants": turn.wants, "after": turn.after,
        "ttft_ms": round(answer.ttft_ms, 3), "engine_ms": _round(answer.engine_ms), "plane_ms": _round(answer.plane_ms),
        "prompt_tokens": answer.prompt_tokens, "cached": answer.cached, "predicted": answer.predicted,
        "node": answer.node, "capsules": list(answer.capsules), "answer": answer.text if looked else None,
        "right": turn.expected in answer.text if looked else None,
        "old": any(value in answer.text for value in wrong) if looked else None,
        "follows": None if chosen is None else turn.expected in chosen,
        "stale": None if condition == "prompt_only" else is_stale(given.texts, wrong),
    }  # fmt: skip


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def open_journal(work: Path, part: str, config: Mapping[str, Any]) -> Journal:
    """The journal of a part run with this configuration; another configuration has another file."""
    name = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:10]
    return Journal(work / f"{part}-{name}.jsonl", config)
