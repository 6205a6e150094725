"""When to try again: exponential backoff with full jitter, and the wait that a server asked for.

Full jitter (a uniform draw between 0 and the bound) spreads clients that failed together; see Brooker, "Exponential
Backoff And Jitter", AWS Architecture Blog 2015. Two differences: a floor of a tenth of the bound, so that a draw near 0
does not hammer a server that just fell over, and `Retry-After`, which is a minimum and gets jitter on top.
"""

from __future__ import annotations

import email.utils
import random
import time

from solarjax.replay.errors import ReplayError, ServerTimeout

BASE_S, CAP_S = 0.5, 20.0
MAX_RETRY_AFTER_S = 300.0
# A request that ran into its time limit has already cost all of it; a hung server seldom recovers by being asked again.
TIMEOUT_RETRIES = 1


def wait_s(failures: int, error: ReplayError, draw: random.Random) -> float:
    """Seconds to wait after the `failures`-th failure in a row (1 is the first)."""
    bound = min(CAP_S, BASE_S * 2 ** (failures - 1))
    jitter = draw.uniform(bound / 10, bound)
    if error.retry_after_s is not None:
        return min(error.retry_after_s, MAX_RETRY_AFTER_S) + jitter
    return jitter


def may_retry(error: ReplayError, failures: int, timeouts: int, retries: int) -> bool:
    """Whether another try is allowed after `failures` failures, `timeouts` of them time-outs."""
    if not error.transient or failures > retries:
        return False
    return not (isinstance(error, ServerTimeout) and timeouts > TIMEOUT_RETRIES)


def parse_retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header (RFC 9110: seconds or a date); None if absent or not understood."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return float(value)
    try:
        at = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, at.timestamp() - time.time())
