"""Token recall of the gold answer in a text: an LLM-free upper bound on answering from one retrieved item.

Tokens follow LoCoMo's scoring (Maharana et al. 2024, `task_eval`): lower case, punctuation removed, the words
a, an, the, and dropped. Differs from it on purpose: no Porter stemming, so `paint` does not match `painting`.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from solarjax.traces.conversation import Question

_STOP_WORDS = frozenset(("a", "an", "the", "and"))
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def tokens(text: str) -> list[str]:
    """Words of a text as LoCoMo's scorer compares them, unstemmed."""
    return [word for word in text.lower().translate(_NO_PUNCTUATION).split() if word not in _STOP_WORDS]


def recall_table(questions: Sequence[Question], texts: Sequence[str]) -> np.ndarray:
    """How much of each gold answer each text holds.

    The recall of an answer with token counts c in a text with counts d is sum(min(c, d)) / sum(c); of several
    accepted answers the best counts. Questions that are not `answerable`, and answers without any token, get
    0.

    Args:
      questions: Q questions.
      texts: M item texts.

    Returns:
      `[Q, M] f32` in [0, 1].
    """
    gold = [[Counter(tokens(answer)) for answer in q.answers] if q.answerable else [] for q in questions]
    vocabulary = {word: i for i, word in enumerate(sorted({w for answers in gold for c in answers for w in c}))}
    # Counts of the gold vocabulary only: a few thousand words, so the dense table stays small.
    counts = np.zeros((len(vocabulary), len(texts)), np.uint16)
    for m, text in enumerate(texts):
        for word, n in Counter(tokens(text)).items():
            if word in vocabulary:
                counts[vocabulary[word], m] = min(n, np.iinfo(np.uint16).max)
    table = np.zeros((len(questions), len(texts)), np.float32)
    for row, answers in zip(table, gold, strict=True):
        for answer in answers:
            if not answer:
                continue
            rows = [vocabulary[word] for word in answer]
            wanted = np.array([[n] for n in answer.values()], np.uint16)
            found = np.minimum(counts[rows], wanted).sum(axis=0, dtype=np.int64)
            np.maximum(row, (found / answer.total()).astype(np.float32), out=row)
    return table
