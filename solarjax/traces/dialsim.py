"""Importer of DialSim corpora: the scripts of three television series as dated sessions of utterances.

Reference: Kim et al., "DialSim: A Real-Time Simulator for Evaluating Long-Term Multi-Party Dialogue
Understanding of Conversational Agents" (arXiv 2406.13144). A corpus file is text: a header
`[Date: September 22, 1994, Session #1]`, then one utterance a line, `Speaker: text`.

The questions of the release are pickles, which are never loaded here. They are read from a JSON file instead,
a list of objects with the release's own field names (`questions`, `answer`, `options`) and its own history
labels as evidence:

```
[{"questions": {"default": "Who ...?", "Monica": "Who ... with me?"},   or  "question": "Who ...?"
  "answer": "Ross",
  "type": "ans_w_time",             optional; the question type, becomes the category ("unspecified" without)
  "options": ["Ross", ...],         optional; not used
  "answerable": true,               optional; without it, false where the type contains "unans"
  "id": "s1-e1-17",                 optional; without it, the position in the list
  "evidence": ["[Date: September 22, 1994, Session #1]",
               "[Date: September 22, 1994, Session #1, Utterance #3]",
               "September 22, 1994"]}]
```

A session label means all its utterances, a date all sessions of that date, `Utterance #` counts from 1.
Of several wordings, `default` is asked, else the first.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from solarjax.core.trace import TraceError
from solarjax.traces.conversation import Conversation, ImportReport, Question, Session, Turn
from solarjax.traces.dates import parse_time
from solarjax.traces.files import read_json, read_text, take

_HEADER = re.compile(r"\[Date: (?P<date>[^\]]+?), Session #(?P<number>\d+)\]")
_LABEL = re.compile(r"\[Date: (?P<date>[^\]]+?), Session #(?P<number>\d+)(?:, Utterance #(?P<utterance>\d+))?\]")
_LONGEST_SPEAKER = 60
"""Text before the first colon counts as a speaker up to this length; longer, the colon belongs to the
sentence."""


def load(corpus: str | Path, qa: str | Path | None = None) -> tuple[Conversation, ...]:
    """Reads one corpus and, where given, the questions about it.

    Lines without a speaker (song lyrics, mostly) continue the utterance before; they are joined by a line
    break and counted. Utterances without text are kept, so that `Utterance #` keeps its meaning, and counted.
    Sessions stay in file order, which is the order of broadcast: dates go back in flashbacks.

    Args:
      corpus: `dialsim_corpus_<show>.txt`; the show gives the name, `dialsim-<show>`.
      qa: JSON file of questions in the layout above, or None for the corpus alone.

    Returns:
      A tuple of one conversation; without `qa` it has no questions.

    Raises:
      TraceError: if a file does not have this layout; names the file and the line or record.
    """
    corpus = Path(corpus)
    sessions, turns, notes = _read_corpus(corpus)
    questions: tuple[Question, ...] = ()
    categories: tuple[str, ...] = ()
    malformed: list[str] = []
    unknown: list[str] = []
    if qa is not None:
        questions, categories = _read_questions(Path(qa), sessions, turns, malformed, unknown)
    report = ImportReport(
        source=corpus.name if qa is None else f"{corpus.name} + {Path(qa).name}",
        malformed=tuple(malformed),
        unknown=tuple(unknown),
        unusable=tuple(question.id for question in questions if not question.evidence),
        notes=notes,
    )
    name = "dialsim-" + corpus.stem.removeprefix("dialsim_corpus_")
    return (Conversation(name, tuple(sessions), tuple(turns), questions, categories, report),)


def _read_corpus(path: Path) -> tuple[list[Session], list[Turn], dict[str, int]]:
    sessions: list[Session] = []
    turns: list[Turn] = []
    seen: set[tuple[str, int]] = set()
    joined = empty = 0
    utterance = 0
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        line = line.strip()
        if not line:
            continue
        if match := _HEADER.fullmatch(line):
            label = (match["date"], int(match["number"]))
            if label in seen:
                raise TraceError(f"{path}:{number}: session {line} occurs twice")
            seen.add(label)
            sessions.append(Session(f"Session #{label[1]}", label[0], parse_time(label[0])))
            utterance = 0
            continue
        if line.startswith("[Date:") or not sessions:
            raise TraceError(
                f"{path}:{number}: expected a header like '[Date: May 4, 1995, Session #1]', got {line!r:.60}"
            )
        speaker, colon, text = line.partition(":")
        if not colon or not speaker or len(speaker) > _LONGEST_SPEAKER:
            if utterance == 0:
                raise TraceError(f"{path}:{number}: the first line of a session needs a speaker, got {line!r:.60}")
            joined += 1
            last = turns[-1]
            turns[-1] = Turn(last.id, last.session, last.speaker, f"{last.text}\n{line}")
            continue
        utterance += 1
        text = text.strip()
        empty += not text
        at = len(sessions) - 1
        turns.append(Turn(f"{sessions[at].label}, Utterance #{utterance}", at, speaker.strip(), text))
    notes = {
        "joined_lines": joined,
        "empty_utterances": empty,
        "sessions_without_time": sum(session.time is None for session in sessions),
    }
    return sessions, turns, notes


def _read_questions(
    path: Path, sessions: list[Session], turns: list[Turn], malformed: list[str], unknown: list[str]
) -> tuple[tuple[Question, ...], tuple[str, ...]]:
    records = read_json(path)
    if not isinstance(records, list):
        raise TraceError(f"{path}: expected a JSON list of questions, got {type(records).__name__}")
    spans: dict[tuple[str, int], list[int]] = {}
    by_date: dict[str, list[int]] = {}
    for i, turn in enumerate(turns):
        session = sessions[turn.session]
        spans.setdefault((session.date, int(session.label.removeprefix("Session #"))), []).append(i)
        by_date.setdefault(session.date, []).append(i)

    types = [str(record.get("type", "unspecified")) if isinstance(record, dict) else "" for record in records]
    categories = tuple(sorted(set(types)))
    questions = []
    for i, record in enumerate(records):
        where = f"{path}: question {i}"
        id = str(record.get("id", i)) if isinstance(record, dict) else str(i)
        evidence: set[int] = set()
        for label in take(record, "evidence", list, where):
            found = _turns_of(str(label), spans, by_date)
            if found is None:
                malformed.append(f"{id}: {label!r}")
            elif not found:
                unknown.append(f"{id}: {label}")
            else:
                evidence.update(found)
        answerable = record.get("answerable", "unans" not in types[i])
        if not isinstance(answerable, bool):
            raise TraceError(f"{where}: field 'answerable' must be true or false, got {answerable!r}")
        questions.append(
            Question(
                id=id,
                text=_wording(record, where),
                answers=(take(record, "answer", str, where),),
                category=categories.index(types[i]),
                evidence=tuple(sorted(evidence)),
                answerable=answerable,
            )
        )
    return tuple(questions), categories


def _turns_of(label: str, spans: dict[tuple[str, int], list[int]], by_date: dict[str, list[int]]) -> list[int] | None:
    """Turn indices an evidence label names: [] if it names nothing here, None if it is no label."""
    if match := _LABEL.fullmatch(label.strip()):
        span = spans.get((match["date"], int(match["number"])), [])
        if match["utterance"] is None:
            return span
        position = int(match["utterance"]) - 1
        return [span[position]] if 0 <= position < len(span) else []
    if parse_time(label) is not None:
        return by_date.get(label.strip(), [])
    return None


def _wording(record: Any, where: str) -> str:
    if "question" in record:
        return take(record, "question", str, where)
    wordings = take(record, "questions", dict, where)
    if not wordings:
        raise TraceError(f"{where}: field 'questions' is empty")
    return take(wordings, "default" if "default" in wordings else next(iter(wordings)), str, where)
