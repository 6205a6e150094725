"""Token ids of texts that begin alike, without encoding again what they share.

Prompts with the same capsules have the same beginning, and to encode it is the dearest part of placing them. Byte-level
tokenizers cut a text into pieces from left to right, by a pattern that looks at most a few characters ahead, and encode
each piece by itself. So a piece that ended well before two texts part is a piece of both, and what follows it may be
encoded alone. Whether a tokenizer is of that kind is read from its definition; any other encodes whole texts. The first
results are compared with whole ones all the same, and if one differed nothing would be shared any more.
"""

from __future__ import annotations

import json
import logging
import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from tokenizers import Encoding, Tokenizer

_KEY = 192
"""Characters by which texts that may begin alike are found: past the system message of a common template."""
_KEPT = 64
_AHEAD = 8
"""Characters that a pattern may look ahead of a piece, generously: contractions need three."""
_WORTH = 0.5
"""Share of a text that has to be known already; below it the text is encoded whole, and later ones share with that."""
_COMPARED = 32
_BACKWARD = ("(?<", "^", "\\A", "\\G", "\\b", "\\B")
"""What a pattern must not hold: with these a piece depends on what is before it."""
_LOG = logging.getLogger("solarjax.plane.placement")


class Ends(Sequence[int]):
    """Where tokens end, in characters; looked up when asked: to list all costs as much as encoding.

    Args:
      encoding: of a text, or of its last part.
      head: ends of the tokens before it. begin: character at which the part begins.
    """

    def __init__(self, encoding: Encoding, head: Sequence[int] = (), begin: int = 0):
        self._encoding, self._head, self._begin = encoding, head, begin
        self._count = len(head)

    def __len__(self) -> int:
        return self._count + len(self._encoding)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        if index < self._count:
            return self._head[index]
        span = self._encoding.token_to_chars(index - self._count)
        return self._begin + (0 if span is None else span[1])  # a token of no text, such as one that begins a prompt


class _Known(NamedTuple):
    """A text that was encoded whole: tokens, their ends, and the piece that each belongs to (-1: none)."""

    text: str
    tokens: list[int]
    ends: array[int]
    pieces: array[int]


class SharedBeginnings:
    """Encodes texts, without special tokens of its own.

    Args:
      tokenizer: truncation and padding switched off.

    Attributes:
      shares: whether beginnings are shared.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        definition = json.loads(tokenizer.to_str())
        self.shares = left_to_right(definition)
        added = (entry["content"] for entry in definition.get("added_tokens") or ())
        self._margin = _AHEAD + max(map(len, added), default=0)
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = threading.Lock()
        self._compared = 0

    def encode(self, text: str) -> tuple[list[int], Ends]:
        """Ids and ends of a text's tokens."""
        with self._lock:
            known = self._known.get(text[:_KEY]) if self.shares else None
            cut = self._cut(known, text) if known is not None else 0
            if known is not None and cut:
                self._known.move_to_end(text[:_KEY])
                begin = known.ends[cut - 1]
                rest = self._tokenizer.encode(text[begin:], add_special_tokens=False)
                tokens = known.tokens[:cut] + rest.ids
                if self._compared >= _COMPARED or self._agrees(text, tokens):
                    return tokens, Ends(rest, known.ends[:cut], begin)
            whole = self._tokenizer.encode(text, add_special_tokens=False)
            if self.shares:
                self._keep(text, whole)
            return whole.ids, Ends(whole)

    def _cut(self, known: _Known, text: str) -> int:
        """Tokens of a known text that are certain to be the first ones of this one; 0 if too few to be worth it."""
        common = _common(known.text, text)
        last = common - self._margin
        if last < _WORTH * len(text):
            return 0
        low, high = 0, len(known.ends)
        while low < high:  # the ends rise
            middle = (low + high) // 2
            low, high = (middle + 1, high) if known.ends[middle] <= last else (low, middle)
        for count in range(min(low, len(known.ends) - 1), 0, -1):
            end, before, after = known.ends[count - 1], known.pieces[count - 1], known.pieces[count]
            # A piece that ends with blanks may go on in the other text, and its recorded end may leave them out.
            if -1 not in (before, after) and before != after and not text[end - 1].isspace():
                return count if end >= _WORTH * len(text) else 0
        return 0

    def _agrees(self, text: str, tokens: list[int]) -> bool:
        self._compared += 1
        if self._tokenizer.encode(text, add_special_tokens=False).ids == tokens:
            return True
        self.shares = False
        self._known.clear()
        _LOG.warning("this tokenizer does not cut texts from left to right; prompts are encoded whole from now on")
        return False

    def _keep(self, text: str, whole: Encoding) -> None:
        ends = array("q", (end for _, end in whole.offsets))
        pieces = array("q", (-1 if word is None else word for word in whole.word_ids))
        self._known[text[:_KEY]] = _Known(text, whole.ids, ends, pieces)
        self._known.move_to_end(text[:_KEY])
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)


def left_to_right(definition: dict[str, Any]) -> bool:
    """Whether a tokenizer, given as its JSON, is known to encode pieces one by one that are cut from left to right."""
    if definition.get("normalizer") is not None or definition["model"].get("type") != "BPE":
        return False
    steps = definition.get("pre_tokenizer") or {}
    steps = steps.get("pretokenizers", []) if steps.get("type") == "Sequence" else [steps]
    return bool(steps) and all(map(_cuts_forward, steps))


def _cuts_forward(step: dict[str, Any]) -> bool:
    kind = step.get("type")
    if kind == "ByteLevel":
        return not step.get("add_prefix_space", True)
    if kind == "Split":
        pattern = step.get("pattern", {}).get("Regex")
        return pattern is not None and not any(part in pattern.replace("[^", "[") for part in _BACKWARD)
    return kind == "Digits"


def _common(a: str, b: str) -> int:
    """Length of the common beginning."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
