"""Importer of FriendsQA: scenes of a television series with questions answered by spans of their utterances.

Reference: Yang and Choi, "FriendsQA: Open-Domain Question Answering on TV Show Transcripts", SIGDIAL 2019;
files `friendsqa_dev.json` and `friendsqa_tst.json` of the authors' release.

A file is a set of scenes in random order. Here each file becomes ONE stream: its scenes sorted by season,
episode and scene, each a session. The corpus has no dates, so its turns carry none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from solarjax.core.trace import TraceError
from solarjax.traces.conversation import Conversation, ImportReport, Question, Session, Turn
from solarjax.traces.files import read_json, take

CATEGORY_NAMES = ("what", "who", "when", "where", "why", "how")
"""The question word each question was asked for, taken from its id; paraphrases keep the word of their
original."""

PARAPHRASED = "_Paraphrased"
"""Ending of a question's id that marks it as a second wording of the question before."""


def load(path: str | Path) -> tuple[Conversation, ...]:
    """Reads one FriendsQA file as one conversation, named after the file (`friendsqa-dev`, `friendsqa-tst`).

    Evidence of a question is every utterance that holds one of its annotated answers (also where the answer
    is the speaker's name). Several speakers of one utterance are joined by `, `; stage notes keep the
    corpus's `#NOTE#`.

    Args:
      path: one file of the release.

    Returns:
      A tuple of one conversation.

    Raises:
      TraceError: if the file is not JSON of this layout; names the file, scene, field and record.
    """
    path = Path(path)
    scenes = take(read_json(path), "data", list, str(path))
    titles = [take(scene, "title", str, f"{path}: scene {i}") for i, scene in enumerate(scenes)]
    sessions: list[Session] = []
    turns: list[Turn] = []
    questions: list[Question] = []
    unknown: list[str] = []
    for index in sorted(range(len(scenes)), key=lambda i: titles[i]):
        where = f"{path}: {titles[index]}"
        for paragraph in take(scenes[index], "paragraphs", list, where):
            turn_of = _add_turns(paragraph, titles[index], len(sessions), turns, where)
            for record in take(paragraph, "qas", list, where):
                questions.append(_question(record, turn_of, unknown, where))
            sessions.append(Session(titles[index], "", None))
    report = ImportReport(
        source=path.name,
        unknown=tuple(unknown),
        unusable=tuple(question.id for question in questions if not question.evidence),
        notes={"paraphrased_questions": sum(question.id.endswith(PARAPHRASED) for question in questions)},
    )
    name = path.stem.replace("_", "-")
    return (Conversation(name, tuple(sessions), tuple(turns), tuple(questions), CATEGORY_NAMES, report),)


def _add_turns(paragraph: Any, title: str, session: int, turns: list[Turn], where: str) -> dict[int, int]:
    # The release spells the key with a colon inside the quotes.
    key = "utterances:" if isinstance(paragraph, dict) and "utterances:" in paragraph else "utterances"
    turn_of: dict[int, int] = {}
    for record in take(paragraph, key, list, where):
        uid = take(record, "uid", int, where)
        if uid in turn_of:
            raise TraceError(f"{where}: utterance id {uid} occurs twice")
        turn_of[uid] = len(turns)
        speakers = ", ".join(map(str, take(record, "speakers", list, where)))
        turns.append(Turn(f"{title}/u{uid}", session, speakers, take(record, "utterance", str, where)))
    return turn_of


def _question(record: Any, turn_of: dict[int, int], unknown: list[str], where: str) -> Question:
    id = take(record, "id", str, where)
    where = f"{where} question {id}"
    word = id.removesuffix(PARAPHRASED).rsplit("_", 1)[-1].lower()
    if word not in CATEGORY_NAMES:
        raise TraceError(f"{where}: the id must end in one of {', '.join(CATEGORY_NAMES)}, got {word!r}")
    evidence: set[int] = set()
    answers: list[str] = []
    for answer in take(record, "answers", list, where):
        text = take(answer, "answer_text", str, where)
        if text not in answers:
            answers.append(text)
        uid = take(answer, "utterance_id", int, where)
        if uid in turn_of:
            evidence.add(turn_of[uid])
        else:
            unknown.append(f"{id}: utterance {uid}")
    if not answers:
        raise TraceError(f"{where}: the list of answers is empty")
    return Question(
        id=id,
        text=take(record, "question", str, where),
        answers=tuple(answers),
        category=CATEGORY_NAMES.index(word),
        evidence=tuple(sorted(evidence)),
    )
