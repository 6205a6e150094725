"""What a workload is made of: documents known at the start, then turns and corrections in one order. Data only.

Every fact and everything derived from it carries an identifier in double quotes, drawn anew for each key. So an answer
shows which version it was given, and whether a text is stale can be judged from the text alone, without asking the
system under test.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Wants = Literal["fact", "derived"]
_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"
_IDENTIFIER = re.compile(r'"([A-Z]{3}-\d{4})"')


@dataclass(frozen=True)
class Document:
    """One capsule as it is first written.

    stability: as the plane's capsules have it.  subject: whose identifier it carries, '' for none.
    source: id of the document that it was derived from, '' for none.
    """

    id: str
    text: str
    stability: Literal["stable", "normal", "volatile"] = "normal"
    kind: str = "fact"
    subject: str = ""
    source: str = ""


@dataclass(frozen=True)
class Turn:
    """One question.

    number: within its family.  session: who asks.  subject: what about.  wants: answered by the fact itself or by
    what was derived from it.  capsules: documents to use, background first, what decides the answer last.
    after: True once the subject was corrected.  expected: the right identifier.  old: the one before, '' if none.
    answer: whether the model's answer is looked at (else one token is enough to measure the time to the first).
    """

    family: str
    number: int
    session: str
    subject: str
    wants: Wants
    capsules: tuple[str, ...]
    question: str
    after: bool
    expected: str
    old: str
    answer: bool = True


@dataclass(frozen=True)
class Correction:
    """A fact was wrong. text: of the new version.  derived: new texts of what has to be derived from it again."""

    family: str
    document: str
    subject: str
    old: str
    new: str
    text: str
    derived: Mapping[str, str] = field(default_factory=dict)


Event = Turn | Correction


@dataclass(frozen=True)
class Trace:
    """A workload: what is known at the start, and what happens."""

    documents: tuple[Document, ...]
    events: tuple[Event, ...]

    @property
    def turns(self) -> list[Turn]:
        """The questions, in order."""
        return [event for event in self.events if isinstance(event, Turn)]


@dataclass(frozen=True)
class Sizes:
    """How large one family's workload is.

    turns: questions.  corrections: spread over them, each after `first` turns or more.  first: turns before the first.
    focus: share of the questions that concern the subject corrected last.  derived: share that use what was derived.
    answered, answered_after: share whose answer is looked at, of those before a correction and of those after one.
    background: sentences of the family's long document.
    """

    turns: int
    corrections: int = 1
    first: int = 1
    focus: float = 1.0
    derived: float = 0.0
    answered: float = 1.0
    answered_after: float = 1.0
    background: int = 66


def identifier(draw: random.Random) -> str:
    """Such as `QTR-4071`."""
    return f"{''.join(draw.choices(_LETTERS, k=3))}-{draw.randrange(1000, 10_000)}"


def identifiers(text: str) -> list[str]:
    """All identifiers that a text quotes, in order."""
    return _IDENTIFIER.findall(text)


def statement(label: str, value: str) -> str:
    """The sentence that carries an identifier."""
    return f'The current {label} identifier is "{value}".'


def question(label: str) -> str:
    """The question whose answer is the identifier; the wording is the one a small model follows (placemem-notes, 6)."""
    return f"Read the memory and copy the identifier.\n\nQuestion: What is the current {label} identifier?\nAnswer:"


def correction_turns(sizes: Sizes) -> list[int]:
    """Before which turns the corrections happen: evenly from `first` on."""
    span = max(sizes.turns - sizes.first, 1)
    return [sizes.first + span * i // max(sizes.corrections, 1) for i in range(sizes.corrections)]


def interleave(traces: Sequence[Trace]) -> Trace:
    """Several workloads at once, one turn of each in turn; a correction comes before the turn that it preceded."""
    groups: list[list[list[Event]]] = []
    for trace in traces:
        group: list[list[Event]] = [[]]
        for event in trace.events:
            group[-1].append(event)
            if isinstance(event, Turn):
                group.append([])
        groups.append(group)
    longest = max((len(group) for group in groups), default=0)
    events = [e for i in range(longest) for group in groups if i < len(group) for e in group[i]]
    return Trace(tuple(d for trace in traces for d in trace.documents), tuple(events))
