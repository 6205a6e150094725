"""The read-only part of a prompt: the dialogue's texts closest to each question, the same for every policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from solarjax.replay.traces import ReplaySession

Encode = Callable[[Sequence[str]], np.ndarray]
"""Texts to unit rows `[n, D] f32`."""


class Corpus:
    """A session's corpus and questions, embedded once.

    questions: `[Q, D] f32` unit rows.   texts: the corpus.
    top: `[Q, k] i32` indices of the closest texts, best first; ties to the earlier text.
    """

    def __init__(self, session: ReplaySession, k: int, encode: Encode):
        self.texts = session.corpus
        self.questions = encode([question.text for question in session.questions])
        depth = min(k, len(session.corpus))
        self.top = np.zeros((len(session.questions), depth), np.int32)
        if depth:
            cosine = self.questions @ encode(list(session.corpus)).T
            self.top = np.argsort(-cosine, axis=1, kind="stable")[:, :depth].astype(np.int32)

    def shown(self, question: int) -> list[tuple[int, str]]:
        """(rank, text) of the closest texts in the order of the dialogue: dates then read forward, and the block is
        one prefix whatever the policy."""
        ranked = [(int(text), rank) for rank, text in enumerate(self.top[question])]
        return [(rank, self.texts[text]) for text, rank in sorted(ranked)]
