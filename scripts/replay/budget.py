"""How long a full replay may go on asking."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Budget:
    """ends: on the clock of `time.monotonic`, in seconds; infinite if there is no limit."""

    ends: float = float("inf")

    @classmethod
    def of(cls, minutes: float | None, until: str | None, now: datetime) -> Budget:
        """The earlier of two limits.

        Args:
          minutes: from now on.   until: `HH:MM` in the time zone of `now`; one that is past is tomorrow's.

        Raises:
          ValueError: minutes that are not positive, or no time of the day.
        """
        seconds = float("inf")
        if minutes is not None:
            if not minutes > 0:
                raise ValueError(f"--budget-minutes {minutes:g} is out of range; allowed are numbers above 0")
            seconds = 60 * minutes
        if until is not None:
            found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", until)
            if not found:
                raise ValueError(f"--until {until!r} is no time of the day; write HH:MM")
            end = now.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
            end += timedelta(days=end <= now)
            seconds = min(seconds, (end - now).total_seconds())
        return cls(time.monotonic() + seconds)

    def left_s(self) -> float:
        """Seconds, 0 once it has ended."""
        return max(0.0, self.ends - time.monotonic())

    async def within(self, work: Awaitable[T]) -> T | None:
        """The result of the work, or None if it had to be stopped at the end; it is cancelled then, and awaited."""
        end = asyncio.timeout(None if self.ends == float("inf") else self.left_s())
        try:
            async with end:
                return await work
        except TimeoutError:
            if not end.expired():
                raise
            return None
