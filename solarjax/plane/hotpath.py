"""Who calls, and what may be used, at the price of one indexed row: for the sidecar, which asks it on every request.

Exact, not approximate: what is kept from an earlier admission is used only if the tenant's epoch, read now, is still
the one it belongs to, and no window has come to an end. A cache with a time to live would be wrong here
(`scripts/plane/controls.py` shows it).
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from solarjax.plane.access import NOBODY, TOKEN, Principal, digest_of
from solarjax.plane.admission import Admission, Fence, Gate
from solarjax.plane.clock import FOREVER, Clock, to_micros
from solarjax.plane.database import Database
from solarjax.plane.errors import Unauthorized
from solarjax.plane.retriever import Found, Query, Retriever

_KEPT = 4096
_CALLER = (
    "SELECT k.digest, k.actor, k.revoked_at, t.name, t.tid, t.epoch, t.purge_epoch FROM token k "
    "JOIN tenant t ON t.tid = k.tid WHERE k.id = :id"
)
_EPOCH = "SELECT epoch FROM tenant WHERE tid = :tid"


class Ticket(NamedTuple):
    """An authenticated caller and the tenant's counters at that moment."""

    principal: Principal
    tid: int
    epoch: int
    purge_epoch: int


class _Kept(NamedTuple):
    admission: Admission
    horizon: int


class HotPath:
    """Authentication, admission and fence for an event loop.

    Args:
      database: the catalogue's.
      clock: its clock.
      gate, retriever: what to ask when nothing kept can be used.
    """

    def __init__(self, database: Database, clock: Clock, gate: Gate, retriever: Retriever):
        self._database = database
        self._clock = clock
        self._gate = gate
        self._retriever = retriever
        self._kept: OrderedDict[tuple[int, tuple[str, ...]], _Kept] = OrderedDict()

    async def authenticate(self, token: str | None) -> Ticket:
        """See `Access.authenticate`; a revoked token ends at once here too."""
        match = TOKEN.match(token or "")
        if match is None:
            raise Unauthorized("a valid bearer token is needed")
        row = await self._look(_CALLER, {"id": match[1]})
        fits = hmac.compare_digest(digest_of(match[2]), row[0] if row else NOBODY)
        if row is None or not fits or row[2] is not None:
            raise Unauthorized("a valid bearer token is needed")
        return Ticket(Principal(row[3], row[1], match[1]), row[4], row[5], row[6])

    async def admit(self, ticket: Ticket, capsules: Sequence[str], *, again: bool = False) -> Admission:
        """See `Gate.admit`.

        Args:
          again: True if this is a second try, so the epoch in the ticket is of the past.
        """
        key = (ticket.tid, tuple(capsules))
        kept = self._kept.get(key)
        if kept is not None and not again and kept.admission.epoch == ticket.epoch and self._clock() < kept.horizon:
            self._kept.move_to_end(key)
            return kept.admission
        admission = await run_in_threadpool(self._gate.admit, ticket.principal.tenant, key[1])
        self._kept[key] = _Kept(admission, _horizon(admission))
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return admission

    async def search(self, ticket: Ticket, text: str, limit: int) -> Found:
        """See `Retriever.search`; what it finds belongs to the epoch it returns."""
        return await run_in_threadpool(self._retriever.search, ticket.principal.tenant, Query(text=text, limit=limit))

    async def fence(self, ticket: Ticket, admission: Admission) -> Fence:
        """See `Gate.fence`: does all that was admitted still hold?"""
        row = await self._look(_EPOCH, {"tid": ticket.tid})
        if row is not None and row[0] == admission.epoch and self._clock() < _horizon(admission):
            return Fence(epoch=admission.epoch, passed=True)
        return await run_in_threadpool(self._gate.fence, ticket.principal.tenant, admission)

    async def _look(self, statement: str, values: dict[str, object]) -> tuple | None:
        if self._database.is_sqlite:
            return self._database.look(statement, values)
        return await run_in_threadpool(self._database.look, statement, values)


def _horizon(admission: Admission) -> int:
    return min((to_micros(c.ends_at, FOREVER) for c in admission.capsules), default=FOREVER)
