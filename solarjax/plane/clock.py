"""Time and identities, injected so that tests own them.

Instants are integer microseconds since 1970 UTC: exact in both databases, and totally ordered. Wall time decides
validity windows only; what happened before what is decided by epochs.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

ALWAYS = -(2**62)
"""Lower bound of every instant: an open start of a window."""
FOREVER = 2**62
"""Upper bound of every instant: an open end of a window."""

Clock = Callable[[], int]
"""Now, in microseconds."""
NewId = Callable[[], str]
"""A fresh capsule identity."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def system_clock() -> int:
    """Wall-clock microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def random_id() -> str:
    """`cap_` and 128 random bits in hex."""
    return f"cap_{uuid.uuid4().hex}"


def to_micros(moment: datetime | None, missing: int) -> int:
    """An aware datetime as microseconds; `missing` for None.

    Raises:
      ValueError: if the datetime has no timezone.
    """
    if moment is None:
        return missing
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no timezone")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def to_datetime(micros: int) -> datetime:
    """The UTC datetime of an instant."""
    return _EPOCH + timedelta(microseconds=micros)


def to_end(micros: int) -> datetime | None:
    """The UTC datetime of one end of a window; None if it is open."""
    return None if micros in (ALWAYS, FOREVER) else to_datetime(micros)
