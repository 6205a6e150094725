"""What a replay asks: dialogues with questions, or recorded requests, as one kind of session.

Four sources, one shape. LoCoMo and DialSim come through `solarjax.traces`, so evidence and categories mean the same as
in the retrieval experiments. JSON lines are those of `traces.jsonl`: items are the corpus, queries the questions.
A request log (`replay.requests`) has its own file.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from solarjax.replay.errors import ReplayError
from solarjax.replay.scoring import LOCOMO_RULES
from solarjax.traces import dialsim, locomo
from solarjax.traces.conversation import Conversation
from solarjax.traces.items import dialogue_items
from solarjax.traces.jsonl_records import Entry, Label, parse


class TraceProblem(ReplayError, ValueError):
    """A file or a choice of sessions that cannot be replayed; the message names it."""


@dataclass(frozen=True)
class Asked:
    """One question.

    id: unique in its session.   text: the bare question.   golds: accepted answers, at least one unless the rule is
      `unanswerable`.   category: its name.   rule: how it is scored, a key of `scoring.RULES`.
    evidence: what the answer rests on, any hashable labels; questions that share one help each other.
    """

    id: str
    text: str
    golds: tuple[str, ...]
    category: str
    rule: str
    evidence: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ReplaySession:
    """One dialogue (or user): a read-only corpus, and the questions about it.

    name: label.   corpus: texts in the order of the dialogue, possibly none.   questions: in the file's order.
    dropped: questions of the file that cannot be asked (without evidence, say), by reason.
    """

    name: str
    corpus: tuple[str, ...]
    questions: tuple[Asked, ...]
    dropped: tuple[tuple[str, int], ...] = ()

    def identity(self) -> str:
        """sha256 of everything that decides prompts and scores."""
        parts = [
            self.name,
            self.corpus,
            [(q.id, q.text, q.golds, q.category, q.rule, sorted(q.evidence)) for q in self.questions],
        ]
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def relevant(self) -> list[frozenset[int]]:
        """Per question, the other questions whose experience shares evidence with it (`traces.items`, protocol P3)."""
        about: dict[str, set[int]] = {}
        for i, question in enumerate(self.questions):
            for label in question.evidence:
                about.setdefault(label, set()).add(i)
        return [
            frozenset(set().union(*(about[label] for label in q.evidence)) - {i}) if q.evidence else frozenset()
            for i, q in enumerate(self.questions)
        ]


def load_locomo(path: Path) -> list[ReplaySession]:
    """Every conversation of `locomo10.json`. Raises `TraceError`, see `traces.locomo.load`."""
    return [_dialogue(conversation, LOCOMO_RULES) for conversation in locomo.load(path)]


def load_dialsim(corpus: Path, qa: Path) -> list[ReplaySession]:
    """One DialSim script with its questions, in the layout that `traces.dialsim` describes. Raises `TraceError`."""
    return [_dialogue(conversation, {}) for conversation in dialsim.load(corpus, qa)]


def load_jsonl(path: Path) -> list[ReplaySession]:
    """JSON lines in the schema of `traces.jsonl`: items are the corpus, queries with an `answer` are asked.

    Relevant item ids are the evidence. Embeddings, steps and modes are not used: the replay embeds texts itself, and
    decides the order. Queries without an answer cannot be scored; they are left out and counted.

    Raises:
      TraceError: a line is malformed.   TraceProblem: a record without text, or nothing to ask.
    """
    records = parse(path)
    entries = [record for record in records if isinstance(record, Entry)]
    name = next((record.name for record in records if isinstance(record, Label)), path.stem)
    for entry in entries:
        if entry.text is None:
            raise TraceProblem(f"{entry.at}: a replay needs the text of every {entry.kind}, not only its embedding")
    queries = [entry for entry in entries if entry.kind == "query"]
    asked = tuple(
        Asked(q.id, q.text or "", (q.answer,), q.category or "all", "single", frozenset(q.relevant))
        for q in queries
        if q.answer
    )
    if not asked:
        raise TraceProblem(f"{path}: no query has an answer, so nothing can be scored")
    corpus = tuple(entry.text or "" for entry in entries if entry.kind == "item")
    return [ReplaySession(name, corpus, asked, (("without answer", len(queries) - len(asked)),))]


def choose(sessions: Sequence[ReplaySession], names: Sequence[str] | None, limit: int | None) -> list[ReplaySession]:
    """The named sessions (default: all), each with at most `limit` questions spread evenly over the file's order.

    Raises:
      TraceProblem: a name is unknown, or the limit is not positive.
    """
    known = {session.name: session for session in sessions}
    for name in names or ():
        if name not in known:
            raise TraceProblem(f"session {name!r} is not in this trace; it holds {', '.join(known)}")
    if limit is not None and limit < 1:
        raise TraceProblem(f"limit {limit} is out of range; allowed are whole numbers from 1")
    picked = [known[name] for name in names] if names else list(sessions)
    if limit is None:
        return picked
    cut = []
    for session in picked:
        n = len(session.questions)
        # Evenly, not the first ones: LoCoMo's files list questions by topic and put adversarial ones last.
        rows = range(n) if n <= limit else sorted({i * n // limit for i in range(limit)})
        questions = tuple(session.questions[i] for i in rows)
        cut.append(ReplaySession(session.name, session.corpus, questions, session.dropped))
    return cut


def left_out(sessions: Sequence[ReplaySession]) -> dict[str, int]:
    """Questions of the files that are not asked, by reason, over all sessions; reasons without any are not listed."""
    counts: Counter[str] = Counter()
    for session in sessions:
        counts.update(dict(session.dropped))
    return {reason: number for reason, number in counts.items() if number}


def _dialogue(conversation: Conversation, rules: dict[str, str]) -> ReplaySession:
    # F1 needs no evidence, but the hit does: a replay asks the questions that the retrieval experiments ask, so that
    # figures with and without a model are about the same ones. The others are counted.
    items = dialogue_items(conversation, "turns", 1, "dated")
    questions = []
    for question in conversation.usable:
        category = conversation.category_names[question.category]
        rule = rules.get(category, "single") if question.answerable else "unanswerable"
        evidence = frozenset(conversation.turns[turn].id for turn in question.evidence)
        questions.append(Asked(question.id, question.text, question.answers, category, rule, evidence))
    if not questions:
        raise TraceProblem(f"{conversation.name}: no question has evidence, so nothing can be asked")
    without = len(conversation.questions) - len(questions)
    return ReplaySession(conversation.name, items.text, tuple(questions), (("without evidence", without),))
