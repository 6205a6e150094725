"""Item streams of a conversation: its turns, chunks of turns, or sessions, and experiences of questions.

Text views. They matter: on LoCoMo an unlimited cache hits .31 with date and speaker, .28 with the speaker.
  dated    `{session date} {speaker}: {text}`; a chunk or session is the date, then its turns as `{speaker}:
           {text}`, one a line. Corpora without dates have no date part.
  speaker  the same without the date.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solarjax.traces.conversation import Conversation, Question

GRANULARITIES = ("turns", "chunks", "sessions")
VIEWS = ("dated", "speaker")


@dataclass(frozen=True)
class ItemStream:
    """The dialogue cut into M items, in order.

    text: M item texts.
    time: `[M] f64` seconds since the epoch of each item's session, None if any is undated.
    last_turn: `[M] i64` index of the item's last turn, strictly increasing. The item arrives with that turn.
    item_of_turn: `[n] i64` which item holds a turn.
    """

    text: tuple[str, ...]
    time: np.ndarray | None
    last_turn: np.ndarray
    item_of_turn: np.ndarray

    def evidence(self, question: Question) -> np.ndarray:
        """The items that hold the question's evidence, increasing, `[k] i64`."""
        return np.unique(self.item_of_turn[list(question.evidence)])

    def available_from(self, question: Question) -> int:
        """Time in turns from which all evidence has arrived: one after the last evidence item's last turn."""
        return int(self.last_turn[self.evidence(question)[-1]]) + 1


def dialogue_items(conversation: Conversation, granularity: str, chunk_size: int, view: str) -> ItemStream:
    """Cuts a dialogue into items; no item crosses a session.

    Args:
      conversation: the dialogue.
      granularity: one of `GRANULARITIES`.
      chunk_size: turns per item for `chunks` (the last chunk of a session may be shorter).
      view: one of `VIEWS`.

    Returns:
      The items in order of the dialogue.
    """
    size = {"turns": 1, "chunks": chunk_size, "sessions": len(conversation.turns)}[granularity]
    texts: list[str] = []
    last_turn: list[int] = []
    item_of_turn = np.empty(len(conversation.turns), np.int64)
    begin = 0
    while begin < len(conversation.turns):
        session = conversation.turns[begin].session
        end = begin + 1
        while end < len(conversation.turns) and end - begin < size and conversation.turns[end].session == session:
            end += 1
        item_of_turn[begin:end] = len(texts)
        lines = "\n".join(f"{turn.speaker}: {turn.text}" for turn in conversation.turns[begin:end])
        date = conversation.sessions[session].date if view == "dated" else ""
        texts.append(f"{date} {lines}" if date else lines)
        last_turn.append(end - 1)
        begin = end
    times = [conversation.sessions[conversation.turns[i].session].time for i in last_turn]
    dated = np.array(times, np.float64) if None not in times else None
    return ItemStream(tuple(texts), dated, np.array(last_turn, np.int64), item_of_turn)


def experience(question: Question, with_answer: bool = True) -> str:
    """Text of the exchange about a question, with the gold answer or with the question alone."""
    asked = f"user: {question.text}"
    return f"{asked} assistant: {question.answers[0]}" if with_answer else asked


def experience_relevance(questions: tuple[Question, ...]) -> list[np.ndarray]:
    """Which questions' experiences help each question: those of OTHER questions that share evidence with it.

    A question's own experience is left out. It is stored after the question was asked, and no question is
    asked twice, so it can never be retrieved; counting it would only lower every recall.

    Returns:
      Per question, the indices of the relevant questions, increasing, `[k] i64` (possibly none).
    """
    about: dict[int, set[int]] = {}
    for i, question in enumerate(questions):
        for turn in question.evidence:
            about.setdefault(turn, set()).add(i)
    return [
        np.array(sorted(set().union(*(about[turn] for turn in question.evidence)) - {i}), np.int64)
        for i, question in enumerate(questions)
    ]
