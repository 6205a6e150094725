"""A dialogue with questions about it: what every importer produces and the protocols consume.

Axes: n turns, in order; sessions are contiguous runs of turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from solarjax.core.trace import TraceError


@dataclass(frozen=True)
class Session:
    """A run of turns at one date.

    label: the corpus's own name.   date: as the corpus writes it, "" if undated.
    time: seconds since the epoch, None if undated or not understood.
    """

    label: str
    date: str
    time: float | None


@dataclass(frozen=True)
class Turn:
    """One utterance. id: the corpus's own; session: index into `Conversation.sessions`; text: without
    speaker."""

    id: str
    session: int
    speaker: str
    text: str


@dataclass(frozen=True)
class Question:
    """One question about the dialogue.

    id: unique in its conversation.        text: the bare question.
    answers: accepted gold answers, the first is the one quoted; category: index into `category_names`.
    evidence: turn indices, increasing, no duplicates; empty means no protocol can use the question.
    answerable: False for adversarial questions, whose gold answer is not in the dialogue.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    category: int
    evidence: tuple[int, ...]
    answerable: bool = True


@dataclass(frozen=True)
class ImportReport:
    """What an importer met and what it had to drop; nothing is lost without an entry here.

    source: the file read.
    malformed: evidence strings that are not literally the id of a turn (their ids are still read where
      possible).
    unknown: evidence ids that no turn has, dropped.
    unusable: ids of questions left without any evidence.
    notes: other counts, by name (joined lines, dates without a session ...).
    """

    source: str
    malformed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Conversation:
    """One dialogue, its questions and the report of its import.

    Raises:
      TraceError: on construction, if an index is out of range, turns are not grouped by session, or an id
        repeats.
    """

    name: str
    sessions: tuple[Session, ...]
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    category_names: tuple[str, ...]
    report: ImportReport

    def __post_init__(self) -> None:
        if not self.turns:
            raise TraceError(f"{self.name}: the conversation has no turns")
        at = [turn.session for turn in self.turns]
        if at[0] < 0 or at[-1] >= len(self.sessions) or sorted(at) != at:
            raise TraceError(
                f"{self.name}: turns must be grouped by session, with indices 0..{len(self.sessions) - 1} in order"
            )
        for label, ids in (
            ("turn", [t.id for t in self.turns]),
            ("question", [q.id for q in self.questions]),
        ):
            if duplicate := first_duplicate(ids):
                raise TraceError(f"{self.name}: {label} id {duplicate!r} occurs twice")
        for question in self.questions:
            if not 0 <= question.category < len(self.category_names):
                raise TraceError(
                    f"{self.name}: question {question.id} has category {question.category}; "
                    f"allowed are 0..{len(self.category_names) - 1}"
                )
            evidence = question.evidence
            if list(evidence) != sorted(set(evidence)) or (evidence and not 0 <= evidence[0] <= evidence[-1] < len(at)):
                raise TraceError(
                    f"{self.name}: evidence of question {question.id} must be increasing turn indices "
                    f"in 0..{len(at) - 1}, got {evidence}"
                )
            if not question.answers:
                raise TraceError(f"{self.name}: question {question.id} has no answer")

    @property
    def usable(self) -> tuple[Question, ...]:
        """The questions with evidence, in order: the ones protocols ask."""
        return tuple(question for question in self.questions if question.evidence)

    def summary(self) -> dict[str, Any]:
        """Counts for reports, JSON-able."""
        return {
            "source": self.report.source,
            "sessions": len(self.sessions),
            "turns": len(self.turns),
            "questions": len(self.questions),
            "usable_questions": len(self.usable),
            "malformed_evidence": len(self.report.malformed),
            "unknown_evidence": len(self.report.unknown),
            "questions_without_evidence": len(self.report.unusable),
            **dict(self.report.notes),
        }


def first_duplicate(ids: list[str]) -> str | None:
    """The first id that repeats an earlier one, or None."""
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            return one
        seen.add(one)
    return None
