"""One write: epoch, idempotency, work, audit entry, in one transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select

from solarjax.plane import tables as t
from solarjax.plane import versions
from solarjax.plane.clock import Clock
from solarjax.plane.database import Database
from solarjax.plane.errors import Conflict
from solarjax.plane.results import WriteResult
from solarjax.plane.statements import inserting
from solarjax.plane.versions import TenantState

_INSERT_EVENT = inserting(t.event)
Body = Callable[[Connection, TenantState, int], WriteResult]


@dataclass(frozen=True)
class Intent:
    """Who writes for which tenant, why, and the key under which a repetition is recognised.

    actor: name of the caller, from its token. reason: free text for the audit. key: idempotency key, or None.
    """

    tenant: str
    actor: str
    reason: str = ""
    key: str | None = None


class Replayed(Exception):
    """Ends a transaction whose idempotency key is known; carries the answer given then."""

    def __init__(self, result: WriteResult):
        super().__init__("replayed")
        self.result = result


def commit(
    database: Database,
    clock: Clock,
    intent: Intent,
    operation: str,
    request: Any,
    body: Body,
    capsule: str | None = None,
) -> WriteResult:
    """Runs `body` as the tenant's next epoch.

    Args:
      request: what was asked for; a repeated idempotency key must come with the same.
      capsule: what the audit entry is about, if the result does not say it.

    Returns:
      The result, or the one given before for this idempotency key.

    Raises:
      Conflict: if the key was used for something else; and whatever `body` raises, in which case nothing is written.
    """
    # Only a key needs it, and it costs as much as a statement.
    digest = "" if intent.key is None else _digest(operation, request)

    def work(connection: Connection) -> WriteResult:
        state = versions.advance(connection, intent.tenant)
        if intent.key is not None:
            _check_key(connection, state, intent.key, digest)
        now = clock()
        result = body(connection, state, now)
        row = {
            "tid": state.tid, "epoch": state.epoch, "operation": operation, "actor": intent.actor, "at": now,
            "capsule": capsule or (result.ref.id if result.ref else None), "reason": intent.reason,
            "result": result.model_dump_json(),
        }  # fmt: skip
        _INSERT_EVENT.run(connection, row)
        if intent.key is not None:
            used = {"tid": state.tid, "key": intent.key, "request_sha256": digest, "epoch": state.epoch}
            connection.execute(insert(t.idempotency), used)
        return result

    try:
        return database.write(work)
    except Replayed as replay:
        return replay.result


def _digest(operation: str, request: Any) -> str:
    def plain(value: Any) -> Any:
        return value.model_dump(mode="json") if hasattr(value, "model_dump") else value

    content = [plain(part) for part in request] if isinstance(request, list) else plain(request)
    return hashlib.sha256(json.dumps([operation, content], sort_keys=True).encode()).hexdigest()


def _check_key(connection: Connection, state: TenantState, key: str, digest: str) -> None:
    known = select(t.idempotency.c.request_sha256, t.event.c.result).join(
        t.event, (t.event.c.tid == t.idempotency.c.tid) & (t.event.c.epoch == t.idempotency.c.epoch)
    )
    row = connection.execute(known.where(t.idempotency.c.tid == state.tid, t.idempotency.c.key == key)).one_or_none()
    if row is None:
        return
    if row.request_sha256 != digest:
        raise Conflict("the idempotency key was used before for another request", "idempotency_key")
    raise Replayed(WriteResult.model_validate_json(row.result).model_copy(update={"replayed": True}))
