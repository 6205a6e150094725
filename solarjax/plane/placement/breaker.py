"""Circuit breaker of one node: after some failures in a row it is left alone for a while, then tried with one request.

closed --FAILURES in a row--> open --after the pause--> half-open --success--> closed
                               ^------- failure: the pause doubles ---'
"""

from __future__ import annotations

from typing import Literal

FAILURES = 3
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
State = Literal["closed", "open", "half_open"]


class Breaker:
    """State of one node; instants are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._failures = 0
        self._pause = FIRST_PAUSE
        self._until: float | None = None
        self._trying_since: float | None = None

    def state(self, now: float) -> State:
        """For people; `allows` decides."""
        if self._until is None:
            return "closed"
        return "open" if now < self._until else "half_open"

    def allows(self, now: float) -> bool:
        """True if a request may be sent; does not reserve the one try of the half-open state."""
        if self._until is None:
            return True
        # A try that never came to an end (its client left) does not keep the node closed for ever.
        free = self._trying_since is None or now - self._trying_since > LONGEST_PAUSE
        return now >= self._until and free

    def sent(self, now: float) -> None:
        """A request is on its way."""
        if self._until is not None:
            self._trying_since = now

    def succeeded(self) -> None:
        """The node answered as a healthy one does; an error of the client's making counts as that."""
        self._failures, self._pause, self._until, self._trying_since = 0, FIRST_PAUSE, None, None

    def abandoned(self) -> None:
        """The request ended without telling anything about the node."""
        self._trying_since = None

    def failed(self, now: float) -> None:
        """It could not be reached, was silent for too long, or broke down."""
        self._failures += 1
        self._trying_since = None
        if self._until is not None:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if self._until is not None or self._failures >= FAILURES:
            self._until = now + self._pause
