"""Dates as the corpora write them, to seconds since the epoch.

Month names are matched here, not through `strptime`, whose `%B` and `%p` depend on the locale.
The corpora give no time zone; all times are read as UTC, so differences are right and absolute times nominal.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_MONTHS = ("january february march april may june july august september october november december").split()
_CLOCK_FIRST = re.compile(r"(\d{1,2}):(\d{2}) ([ap]m) on (\d{1,2}) ([a-z]+),? (\d{4})")
_MONTH_FIRST = re.compile(r"([a-z]+) (\d{1,2}), (\d{4})")


def parse_time(text: str) -> float | None:
    """Seconds since the epoch (UTC) of one date.

    Understands `1:56 pm on 8 May, 2023` (LoCoMo), `August 24, 2007` (DialSim, midnight) and ISO 8601.

    Args:
      text: the date as written.

    Returns:
      Seconds since the epoch, or None if the text is none of these or names no real day.
    """
    plain = " ".join(text.lower().split())
    try:
        if match := _CLOCK_FIRST.fullmatch(plain):
            hour, minute, half, day, month, year = match.groups()
            if not 1 <= int(hour) <= 12:
                return None
            hour24 = int(hour) % 12 + (12 if half == "pm" else 0)
            return _seconds(year, month, day, hour24, int(minute))
        if match := _MONTH_FIRST.fullmatch(plain):
            month, day, year = match.groups()
            return _seconds(year, month, day, 0, 0)
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _seconds(year: str, month: str, day: str, hour: int, minute: int) -> float:
    number = _MONTHS.index(month) + 1  # ValueError for an unknown month, as for an impossible day
    return datetime(int(year), number, int(day), hour, minute, tzinfo=UTC).timestamp()
