"""One node's event log: puts batches in order, notices what is missing, and believes only what it can prove.

Batches carry sequence numbers that begin at 0 with every start of the engine, so a number alone proves nothing: the
engine may have restarted and counted past us. After any doubt (a gap, a number that should not come, a broken
connection) the log asks the engine to repeat from the last batch that it applied. Only if that batch comes back byte
for byte (its time of making is in it) was there no restart, and what follows continues the counts. Otherwise they are
dropped and begin again from whatever the engine can still repeat, which can only make them too low (residency.py).

While it waits for proof the log answers "unknown". There is no input or output here; feed.py does that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from solarjax.plane.errors import Invalid
from solarjax.plane.placement.events import decode, timestamp
from solarjax.plane.placement.residency import ResidentIndex

MAX_PENDING = 10_000
"""Batches kept while a replay is under way; if there are more the replay is asked for again."""
Numbered = tuple[int, bytes]


class EventLog:
    """State of one node's log.

    Attributes:
      index: the counts, to be believed only while `known`.
      known: True while there is no doubt.
      wanted: number from which the engine is to repeat; None while there is no doubt.
      gaps, restarts, damaged: how often each happened.
    """

    def __init__(self) -> None:
        self.index = ResidentIndex()
        self.known = False
        self.wanted: int | None = 0
        self.gaps = 0
        self.restarts = 0
        self.damaged = 0
        self._next = 0
        self._last: bytes | None = None  # digest of the batch before `_next`
        self._made = float("-inf")  # when that batch was made
        self._pending: dict[int, bytes] = {}

    @property
    def position(self) -> int:
        """Number of the batch that is expected next."""
        return self._next

    def prefix(self, chain: Sequence[int]) -> int | None:
        """Leading blocks of a chain that are resident; None while that is not known."""
        return self.index.prefix(chain) if self.known and self.index.supported else None

    def offer(self, number: int, payload: bytes) -> None:
        """A batch from the live socket."""
        try:
            made = timestamp(payload)
        except Invalid:
            made = self._made
        if number < self._next and made <= self._made:
            return  # seen before, or older than where the counts began: it concerns none of them
        if self.wanted is None and number == self._next and made >= self._made:
            self._apply(number, payload)
            return
        if self.wanted is None:
            self.gaps += 1
            self.doubt()
        if len(self._pending) < MAX_PENDING:
            self._pending[number] = payload

    def doubt(self) -> None:
        """Something may have been missed."""
        self.known = False
        self.wanted = max(self._next - 1, 0)

    def restarted(self) -> None:
        """The engine is known to have started anew: all before is void."""
        self.restarts += 1
        self._forget()
        self._pending.clear()

    def emptied(self) -> None:
        """The cache is known to be empty, though an idle engine publishes that only with its next step."""
        self.index.clear()

    def request(self) -> int:
        """The number to ask for, at the moment of asking.

        What came before is dropped: if it is the same engine's, the answer has it, and if not it must not be used.
        """
        self._pending.clear()
        return self.wanted or 0

    def replayed(self, answer: Sequence[Numbered]) -> None:
        """All that the engine still has from `wanted` on, in order; empty if it cannot repeat."""
        if self.wanted is None:
            return
        asked = self.wanted
        if self._last is not None:
            if answer and answer[0][0] == self._next - 1 and _digest(answer[0][1]) == self._last:
                answer = answer[1:]
            else:
                # Another engine, or the batch is no longer in its buffer; either way the counts are void.
                self.restarts += 1
                self._forget()
                if asked > 0:
                    return  # what lies before `asked` may still be had
        if self._last is None:
            first = [number for number, _ in answer[:1]] or sorted(self._pending)[:1]
            self._next = first[0] if first else 0
        self.wanted, self.known = None, True
        for number, payload in answer:
            if number > self._next:  # a hole in the engine's own buffer
                self.index.clear()
                self._next = number
            self._apply(number, payload)
        pending, self._pending = self._pending, {}
        for number in sorted(pending):
            self.offer(number, pending[number])

    def _apply(self, number: int, payload: bytes) -> None:
        try:
            self._made = timestamp(payload)
            events = decode(payload)
        except Invalid:
            # What it said is lost. Counts from nothing are safe, and the batches after it are whole again.
            self.damaged += 1
            self.index.clear()
            events = []
        for event in events:
            self.index.apply(event)
        self._next = number + 1
        self._last = _digest(payload)

    def _forget(self) -> None:
        self.index.clear()
        self.known = False
        self.wanted = 0
        self._next = 0
        self._last = None


def _digest(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()
