"""How many items a stream of queries needs at a time: the working set, carried over to semantic retrieval.

References:
  Denning. The working set model for program behavior. CACM 11(5), 1968.
  Chvatal. A greedy heuristic for the set-covering problem. Mathematics of Operations Research 4(3), 1979.
"""

from __future__ import annotations

import numpy as np

from solarjax.analysis.summary import AnalysisError


def greedy_cover(answers: np.ndarray) -> int:
    """Items that greedy set cover takes to answer every row of `answers [Q, M] bool` that any item answers.

    At each turn the item that answers most of the open queries is taken; within a factor of 1 + ln Q of the optimum.
    """
    left = answers[answers.any(axis=1)]
    taken = 0
    while len(left):
        left = left[~left[:, int(left.sum(axis=0).argmax())]]
        taken += 1
    return taken


def working_set_size(relevance: np.ndarray, queries: np.ndarray, window: int) -> float:
    """Mean size of a cover of `window` consecutive queries: slots with which no query of a window need miss.

    Denning counts the different pages of a window. Here several items answer one query, so what is counted is the
    smallest set of items that answers all of them, by greedy cover. Windows overlap by half.

    Args:
      relevance: `[Q, M]`, above 0 where item m answers query q.
      queries: `[T] int`, query of each step in order, negative where nothing is asked.
      window: queries in a window; the whole stream if it is shorter.

    Returns:
      Items.

    Raises:
      AnalysisError: a window below 1, or no query at all.
    """
    asked = np.asarray(queries)[np.asarray(queries) >= 0]
    if window < 1:
        raise AnalysisError(f"window = {window} must be at least 1 query")
    if len(asked) == 0:
        raise AnalysisError("the stream asks nothing, so it has no working set")
    answers = np.asarray(relevance)[asked] > 0
    window = min(window, len(asked))
    starts = range(0, len(asked) - window + 1, max(1, window // 2))
    return float(np.mean([greedy_cover(answers[at : at + window]) for at in starts]))
