"""What the routes share: the caller, the idempotency key, pages, and request bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import AwareDatetime, BaseModel, Field

from solarjax.plane.access import Principal
from solarjax.plane.api.problems import ProblemBody
from solarjax.plane.artifacts import ArtifactDraft
from solarjax.plane.capsules import (
    ID_PATTERN,
    MAX_EPOCH,
    MAX_VERSION,
    CapsuleContent,
    CapsuleDraft,
    CapsuleId,
    Strict,
    Text,
    Version,
    VersionRef,
)
from solarjax.plane.commit import Intent
from solarjax.plane.errors import Invalid
from solarjax.plane.results import Edge, WriteResult
from solarjax.plane.services import Services

T = TypeVar("T")
_BEARER = HTTPBearer(auto_error=False, description="A token of `solarjax plane token`.")

Reason = Annotated[Text, Field(max_length=2000, description="Why; kept in the audit trail.")]
Epoch = Annotated[int, Field(ge=0, le=MAX_EPOCH)]
CapsulePath = Annotated[str, Path(pattern=ID_PATTERN)]
VersionPath = Annotated[int, Path(ge=1, le=MAX_VERSION)]
EpochPath = Annotated[int, Path(ge=0, le=MAX_EPOCH)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[str | None, Query(max_length=200, description="`next` of the page before.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$",
        description="A repetition with the same key and request gets the first answer; nothing is done twice.",
    ),
]  # fmt: skip

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemBody, "description": text}
    for status, text in (
        (401, "No valid bearer token"),
        (404, "Does not exist, or belongs to another tenant"),
        (409, "The catalogue is not in the expected state"),
        (413, "The body is too large"),
        (422, "The request is malformed"),
        (431, "The headers are too large"),
        (503, "The database cannot be used; nothing was written"),
    )
}


class Page(BaseModel, Generic[T]):
    """Part of a list. `next` is the cursor of the following part, null at the end."""

    items: list[T]
    next: str | None


class CreateBody(Strict):
    """A capsule to create."""

    capsule: CapsuleDraft
    reason: Reason = ""


class ChangeBody(Strict):
    """A new content for the version that the caller believes in force; another one there is a conflict."""

    version: Version
    content: CapsuleContent
    reason: Reason = ""


class ExpireBody(Strict):
    """An instant (default now) from which the version holds no longer."""

    version: Version
    at: AwareDatetime | None = None
    reason: Reason = ""


class RestoreBody(Strict):
    """The version whose content is to be written again."""

    version: Version
    reason: Reason = ""


class LinkBody(Strict):
    """A dependency learnt later: `derived` was made from `source`."""

    source: VersionRef
    derived: VersionRef
    reason: Reason = ""


class AttachBody(Strict):
    """An artifact to record."""

    artifact: ArtifactDraft
    reason: Reason = ""


class AdmitBody(Strict):
    """Capsules that a request wants to use."""

    capsules: Annotated[tuple[CapsuleId, ...], Field(min_length=1, max_length=256)]


class CheckBody(Strict):
    """What an admission gave: its epoch and the versions used."""

    epoch: Epoch
    capsules: Annotated[tuple[VersionRef, ...], Field(max_length=256)]


class EdgesBody(Strict):
    """Versions whose sources and derivatives are wanted."""

    versions: Annotated[tuple[VersionRef, ...], Field(max_length=200)]


class Edges(BaseModel):
    """Derivations, sources and derivatives that no change touched included. `more`: these are not all."""

    edges: list[Edge]
    more: bool


class StateBody(BaseModel):
    """The tenant's counters. `purge_epoch` counts erasures and restored backups; cache salts are made from it."""

    tenant: str
    epoch: int
    purge_epoch: int


def services(request: Request) -> Services:
    """The plane behind the application."""
    return request.app.state.services


Plane = Annotated[Services, Depends(services)]


def principal(plane: Plane, bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]) -> Principal:
    """The caller; raises Unauthorized."""
    return plane.access.authenticate(bearer.credentials if bearer else None)


Caller = Annotated[Principal, Depends(principal)]


class Writing(NamedTuple):
    """What every writing route takes: who writes, where, under which key, and the response to mark."""

    caller: Principal
    plane: Services
    response: Response
    key: str | None

    def intent(self, reason: str) -> Intent:
        """Who writes, why, and under which key."""
        return Intent(tenant=self.caller.tenant, actor=self.caller.actor, reason=reason, key=self.key)

    def answer(self, result: WriteResult) -> WriteResult:
        """Marks a replayed answer in the header too."""
        if result.replayed:
            self.response.headers["Idempotent-Replayed"] = "true"
        return result


def writing(caller: Caller, plane: Plane, response: Response, key: IdempotencyKey = None) -> Writing:
    """The parameters of a write."""
    return Writing(caller, plane, response, key)


Write = Annotated[Writing, Depends(writing)]


def page(items: Sequence[T], limit: int, key: Callable[[T], object]) -> Page[T]:
    """A page from one item more than asked for."""
    full = len(items) > limit
    kept = list(items[:limit])
    return Page(items=kept, next=str(key(kept[-1])) if full else None)


def position(cursor: str | None, default: int = 0) -> int:
    """A cursor that is a number.

    Raises:
      Invalid: if it is not one.
    """
    if cursor is None:
        return default
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise Invalid(f"cursor {cursor[:40]!r} is not one of this list", "cursor")
    return int(cursor)
