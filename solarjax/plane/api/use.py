"""Routes for whoever uses capsules: search, admission and its fence, events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from solarjax.plane.admission import Admission, Fence
from solarjax.plane.api import parts as p
from solarjax.plane.api.doorbell import Doorbell, Subscription
from solarjax.plane.artifacts import Artifact
from solarjax.plane.capsules import ID_PATTERN, MAX_EPOCH
from solarjax.plane.results import Event, Impact
from solarjax.plane.retriever import Found
from solarjax.plane.retriever import Query as Search

router = APIRouter(responses=p.ERRORS)
_BATCH = 100


@router.get("/state", tags=["use"])
def state(caller: p.Caller, plane: p.Plane) -> p.StateBody:
    """The tenant's counters."""
    now = plane.catalogue.state(caller.tenant)
    return p.StateBody(tenant=caller.tenant, epoch=now.epoch, purge_epoch=now.purge_epoch)


@router.post("/search", tags=["use"])
def search(body: Search, caller: p.Caller, plane: p.Plane) -> Found:
    """What holds at an instant, ranked by words and, with an encoder, by meaning."""
    return plane.retriever.search(caller.tenant, body)


@router.post("/admissions", tags=["use"])
def admit(body: p.AdmitBody, caller: p.Caller, plane: p.Plane) -> Admission:
    """The versions in force of these capsules and the epoch they belong to, from one snapshot."""
    return plane.gate.admit(caller.tenant, body.capsules)


@router.post("/admissions/check", tags=["use"])
def check(body: p.CheckBody, caller: p.Caller, plane: p.Plane) -> Fence:
    """The fence: does everything that was admitted still hold?"""
    fence = plane.gate.check(caller.tenant, body.epoch, body.capsules)
    plane.metrics.fences.labels(str(fence.passed).lower()).inc()
    return fence


@router.get("/events", tags=["events"])
def list_events(
    caller: p.Caller,
    plane: p.Plane,
    limit: p.Limit = 100,
    cursor: p.Cursor = None,
    capsule: Annotated[str | None, Query(pattern=ID_PATTERN)] = None,
) -> p.Page[Event]:
    """The audit trail, oldest first."""
    after = p.position(cursor)
    return p.page(
        plane.audit.events(caller.tenant, after=after, limit=limit + 1, capsule=capsule), limit, lambda e: e.epoch
    )


@router.get("/events/{epoch}", tags=["events"])
def get_event(epoch: p.EpochPath, caller: p.Caller, plane: p.Plane) -> Event:
    """One entry of the audit trail."""
    return plane.audit.event(caller.tenant, epoch)


@router.get("/events/{epoch}/ended", tags=["events"])
def list_ended(
    epoch: p.EpochPath, caller: p.Caller, plane: p.Plane, limit: p.Limit = 100, cursor: p.Cursor = None
) -> p.Page[Impact]:
    """All versions that an event ended, nearest first, each with the version it was derived from."""
    after = p.position(cursor)
    found = plane.audit.ended_by(caller.tenant, epoch, after=after, limit=limit + 1)
    kept = found[:limit]
    return p.Page(items=kept, next=str(after + len(kept)) if len(found) > limit else None)


@router.get("/events/{epoch}/artifacts", tags=["events"])
def list_ended_artifacts(
    epoch: p.EpochPath, caller: p.Caller, plane: p.Plane, limit: p.Limit = 100, cursor: p.Cursor = None
) -> p.Page[Artifact]:
    """Artifacts that lost a source in an event: what an engine-side index has to drop."""
    plane.audit.event(caller.tenant, epoch)
    found = plane.artifacts.ended_at(caller.tenant, epoch, after=p.position(cursor), limit=limit + 1)
    return p.page(found, limit, lambda artifact: artifact.id)


def bell(request: Request) -> Doorbell:
    """The application's doorbell."""
    return request.app.state.doorbell


Bell = Annotated[Doorbell, Depends(bell)]


async def place(caller: p.Caller, doorbell: Bell) -> AsyncIterator[Subscription]:
    """A place among the streams, taken before the answer begins: later, a refusal would be a 200 that breaks off."""
    with doorbell.subscribe() as subscription:
        yield subscription


@router.get("/stream", tags=["events"], response_class=EventSourceResponse)
async def stream(
    caller: p.Caller,
    plane: p.Plane,
    doorbell: Bell,
    subscription: Annotated[Subscription, Depends(place)],
    after: Annotated[int | None, Query(ge=0, le=MAX_EPOCH, description="Epoch to go on after, default now.")] = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=MAX_EPOCH, description="Sent when reconnecting.")] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events: every write as it commits, with its epoch as id. Nothing is skipped on reconnection."""
    position = last_event_id if last_event_id is not None else after
    if position is None:
        position = (await run_in_threadpool(plane.catalogue.state, caller.tenant)).epoch
    while not doorbell.closed:
        subscription.clear()
        events = await run_in_threadpool(plane.audit.events, caller.tenant, after=position, limit=_BATCH)
        for event in events:
            yield ServerSentEvent(raw_data=event.model_dump_json(), id=str(event.epoch), event=event.operation)
            position = event.epoch
        if not events:
            await subscription.wait()
