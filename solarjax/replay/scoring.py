"""LoCoMo's category-aware score of an answer, in [0, 1].

Source: Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM Agents", ACL 2024, the rules of its
question-answering evaluation:
  words          lower case, punctuation removed, the words a, an, the and `and` dropped, Porter stems.
  single         F1 of the two bags of words (temporal, single-hop; open-domain, see below).
  first          open-domain: as `single`, of the gold answer up to its first semicolon (the rest explains it).
  several        multi-hop: both sides are lists separated by commas; for each gold part the best F1 among the predicted
                 parts, and the mean of these over the gold parts.
  unanswerable   adversarial: 1 if the answer says that the dialogue does not say, else 0. The gold answer is not read.

Deliberate differences: the stems are those of Porter's published algorithm, not of a dialect with exceptions; commas
inside numbers (`1,200`) join their digits and do not separate parts; an answer accepted in several wordings counts by
the best of them.

Reference: Porter, "An algorithm for suffix stripping", Program 14(3), 1980 (through snowballstemmer).
"""

from __future__ import annotations

import re
import string
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from solarjax.replay.errors import BadOption

LIKE_AT = 0.5
"""An answer is liked from this score on (spec 5)."""
NOT_MENTIONED = "not mentioned in the conversation"
"""What the right answer to an adversarial question says."""

_DROPPED = frozenset(("a", "an", "the", "and"))
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_IN_NUMBER = re.compile(r"(?<=\d),(?=\d{3}\b)")
_ABSTENTIONS = ("no information available", "not mentioned")
_LOCK = threading.local()


def words(text: str) -> list[str]:
    """Stems of the words that count, in order.

    Typographic quotes and dashes are not in ASCII punctuation and stay, as in LoCoMo's rules.
    """
    plain = text.lower().translate(_NO_PUNCTUATION).split()
    return [_stem(word) for word in plain if word not in _DROPPED]


def token_f1(answer: str, gold: str) -> float:
    """F1 of two bags of stems; 0 if they share none, also where one of them is empty."""
    ours, theirs = words(answer), words(gold)
    common = (Counter(ours) & Counter(theirs)).total()
    if common == 0:
        return 0.0
    precision, recall = common / len(ours), common / len(theirs)
    return 2 * precision * recall / (precision + recall)


def several_f1(answer: str, gold: str) -> float:
    """Mean over the gold parts of the best `token_f1` among the answer's parts."""
    parts, golds = _parts(answer), _parts(gold)
    if not golds:
        return 0.0
    return sum(max((token_f1(part, one) for part in parts), default=0.0) for one in golds) / len(golds)


def first_f1(answer: str, gold: str) -> float:
    """`token_f1` with the gold answer up to its first semicolon."""
    return token_f1(answer, gold.split(";")[0])


def abstains(answer: str, gold: str = "") -> float:
    """1 if the answer says that there is no information, else 0."""
    del gold
    lowered = answer.lower()
    return float(any(phrase in lowered for phrase in _ABSTENTIONS))


RULES: dict[str, Callable[[str, str], float]] = {
    "single": token_f1,
    "first": first_f1,
    "several": several_f1,
    "unanswerable": abstains,
}
LOCOMO_RULES = {
    "multi-hop": "several",
    "temporal": "single",
    "open-domain": "first",
    "single-hop": "single",
    "adversarial": "unanswerable",
}
"""Rule of each LoCoMo category (names of `traces.locomo.CATEGORY_NAMES`)."""


def score(answer: str, golds: Sequence[str], rule: str) -> float:
    """The score of an answer.

    Args:
      answer: what the model said; may be empty.
      golds: accepted gold answers; the best counts.
      rule: one of `RULES`.

    Raises:
      BadOption: unknown rule, or no gold answer where the rule reads one.
    """
    if rule not in RULES:
        raise BadOption(f"scoring rule {rule!r} is unknown; allowed are {', '.join(RULES)}")
    if rule == "unanswerable":
        return abstains(answer)
    if not golds:
        raise BadOption(f"scoring rule {rule!r} needs a gold answer")
    return max(RULES[rule](answer, gold) for gold in golds)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in _IN_NUMBER.sub("", text).split(",") if part.strip()]


def _stemmer() -> Any:
    """One stemmer per thread: it keeps its position in the word as state."""
    if not hasattr(_LOCK, "stemmer"):
        try:
            import snowballstemmer
        except ImportError as error:
            raise BadOption(f"scoring needs {error.name}: pip install solarjax[replay]") from None
        _LOCK.stemmer = snowballstemmer.stemmer("porter")
    return _LOCK.stemmer


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    return _stemmer().stemWord(word)
