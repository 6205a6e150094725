"""What a write answers with, and what the audit trail and the event stream carry."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from solarjax.plane.capsules import VersionRef

Operation = Literal[
    "create", "correct", "supersede", "expire", "delete", "restore", "link", "attach", "import"
]  # fmt: skip
SAMPLE = 100
"""At most this many ended versions are listed in a result; the audit pages through all."""


class WriteResult(BaseModel):
    """What one committed write did.

    Attributes:
      epoch: the tenant's epoch that this write made.
      ref: the version that was written (create, correct, supersede, restore) or acted on (expire, link).
      ended: number of versions that this write ended, the target included.
      ended_sample: up to `SAMPLE` of them, the target first.
      artifacts_ended: number of reusable artifacts that lost a source, by kind; `vector` counts the plane's own
        embeddings.
      artifact_id: of an attached artifact.
      erased: number of versions whose content was wiped.
      replayed: True if this is the stored answer to a repeated idempotency key.
    """

    epoch: int
    operation: Operation
    ref: VersionRef | None = None
    ended: int = 0
    ended_sample: tuple[VersionRef, ...] = ()
    artifacts_ended: dict[str, int] = {}
    artifact_id: int | None = None
    erased: int = 0
    replayed: bool = False


class Event(BaseModel):
    """One entry of the audit trail: what was done, to what, by whom, why, when."""

    epoch: int
    operation: Operation
    capsule: str | None
    actor: str
    reason: str
    at: datetime
    result: WriteResult


class Impact(BaseModel):
    """One version in the cascade of a change, and why it is there.

    depth: number of derivation steps from the change, 0 for the target. via: the version it was derived from on a
    shortest path to the target (None for the target).
    """

    ref: VersionRef
    kind: str
    depth: int
    via: VersionRef | None


class Edge(BaseModel):
    """`derived` was made from `source`."""

    source: VersionRef
    derived: VersionRef


class Preview(BaseModel):
    """What a change would end. `impacts` lists at most the number asked for, nearest first."""

    epoch: int
    ended: int
    artifacts_ended: dict[str, int]
    impacts: tuple[Impact, ...]


class Ending(BaseModel):
    """Why one version does not hold: the event, and the derivation path from what was changed down to the version."""

    event: Event
    cause: str
    ends_from: datetime | None
    path: tuple[VersionRef, ...]
