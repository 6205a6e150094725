"""Importer of LoCoMo: ten long two-person dialogues over many dated sessions, with annotated questions.

Reference: Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM Agents", ACL 2024
(arXiv 2402.17753); file `locomo10.json` of the authors' release.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from solarjax.core.trace import TraceError
from solarjax.traces.conversation import Conversation, ImportReport, Question, Session, Turn, first_duplicate
from solarjax.traces.dates import parse_time
from solarjax.traces.files import read_json, take

CATEGORY_NAMES = ("multi-hop", "temporal", "open-domain", "single-hop", "adversarial")
"""Names of LoCoMo's categories 1..5, in that order (index = category - 1)."""
ADVERSARIAL = 5
"""The category whose questions the dialogue does not answer."""

_SESSION = re.compile(r"session_(\d+)")
_SESSION_DATE = re.compile(r"session_(\d+)_date_time")
# `D8:6`, also with leading zeros (`D30:05`) or a stray colon (`D:11:26`); several may share one string.
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")


def load(path: str | Path) -> tuple[Conversation, ...]:
    """Reads every conversation of a LoCoMo file.

    A turn's text is the utterance plus ` [shared: {caption}]` where the speaker sent a picture. Evidence is
    every `D<session>:<turn>` found in an evidence string; ids that no turn has are dropped and listed in the
    report. Adversarial questions without an `answer` carry their `adversarial_answer`.

    Args:
      path: `locomo10.json`.

    Returns:
      The conversations in file order, named by their `sample_id`.

    Raises:
      TraceError: if the file is not JSON of this layout; names the file, conversation, field and record.
    """
    path = Path(path)
    samples = read_json(path)
    if not isinstance(samples, list) or not samples:
        raise TraceError(f"{path}: expected a non-empty JSON list of conversations")
    loaded = tuple(_conversation(path, index, sample) for index, sample in enumerate(samples))
    if duplicate := first_duplicate([conversation.name for conversation in loaded]):
        raise TraceError(f"{path}: sample_id {duplicate!r} occurs twice")
    return loaded


def _conversation(path: Path, index: int, sample: Any) -> Conversation:
    where = f"{path}: conversation {index}"
    name = take(sample, "sample_id", str, where)
    where = f"{path}: {name}"
    dialogue = take(sample, "conversation", dict, where)
    numbers = sorted(int(m.group(1)) for key in dialogue if (m := _SESSION.fullmatch(key)))
    dated = {int(m.group(1)) for key in dialogue if (m := _SESSION_DATE.fullmatch(key))}
    sessions: list[Session] = []
    turns: list[Turn] = []
    for number in numbers:
        date = take(dialogue, f"session_{number}_date_time", str, where) if number in dated else ""
        for position, turn in enumerate(take(dialogue, f"session_{number}", list, where)):
            turns.append(_turn(turn, len(sessions), f"{where} session_{number}[{position}]"))
        sessions.append(Session(f"session_{number}", date, parse_time(date)))

    turn_index = {turn.id: i for i, turn in enumerate(turns)}
    malformed: list[str] = []
    unknown: list[str] = []
    questions = [
        _question(record, f"{name}/q{i}", turn_index, malformed, unknown, f"{where} qa[{i}]")
        for i, record in enumerate(take(sample, "qa", list, where))
    ]
    notes = {
        "dates_without_session": len(dated - set(numbers)),
        "sessions_without_time": sum(session.time is None for session in sessions),
    }
    report = ImportReport(
        source=path.name,
        malformed=tuple(malformed),
        unknown=tuple(unknown),
        unusable=tuple(question.id for question in questions if not question.evidence),
        notes=notes,
    )
    return Conversation(name, tuple(sessions), tuple(turns), tuple(questions), CATEGORY_NAMES, report)


def _turn(record: Any, session: int, where: str) -> Turn:
    text = take(record, "text", str, where)
    if caption := record.get("blip_caption"):
        text = f"{text} [shared: {caption}]"
    return Turn(take(record, "dia_id", str, where), session, take(record, "speaker", str, where), text)


def _question(
    record: Any, id: str, turn_index: dict[str, int], malformed: list[str], unknown: list[str], where: str
) -> Question:
    category = take(record, "category", int, where)
    if not 1 <= category <= len(CATEGORY_NAMES):
        raise TraceError(f"{where}: category is {category}; allowed are 1..{len(CATEGORY_NAMES)}")
    key = "adversarial_answer" if category == ADVERSARIAL and "answer" not in record else "answer"
    evidence: set[int] = set()
    for text in take(record, "evidence", list, where):
        if not isinstance(text, str):
            raise TraceError(f"{where}: evidence must be strings, got {text!r}")
        if text not in turn_index:
            malformed.append(f"{id}: {text!r}")
        for session, turn in _EVIDENCE.findall(text):
            turn_id = f"D{int(session)}:{int(turn)}"
            if turn_id in turn_index:
                evidence.add(turn_index[turn_id])
            else:
                unknown.append(f"{id}: {turn_id}")
    return Question(
        id=id,
        text=take(record, "question", str, where),
        answers=(str(take(record, key, (str, int, float), where)),),
        category=category - 1,
        evidence=tuple(sorted(evidence)),
        answerable=category != ADVERSARIAL,
    )
