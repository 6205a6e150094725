"""What the control plane tells of nodes, requests and placements: data only, shared by server and client."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from solarjax.plane.capsules import CapsuleId, Strict, Text, VersionRef
from solarjax.plane.placement.decision import AskedMode, Decision


class NodeView(BaseModel):
    """One engine node. What is not known is null.

    Attributes:
      health: up, suspect, down, unknown. breaker: closed, open, half_open.
      residency_known: False while its events leave a doubt; then it is treated as cold.
      resident_blocks: distinct blocks that it holds. resident_capsules: of the caller's tenant, whole ones.
      ttft_base_ms, ttft_ms_per_1000_tokens, ttft_ms_per_token_squared: the fitted curve over uncached tokens;
        `measured` says whether it rests on observations.
    """

    name: str
    model: str
    health: str
    breaker: str
    incarnation: float | None
    block_size: int | None
    blocks: int | None
    residency_known: bool
    resident_blocks: int | None
    resident_capsules: list[str]
    event_position: int
    event_gaps: int
    restarts: int
    running: int | None
    waiting: int | None
    in_flight: int
    queue_ms: float
    ttft_base_ms: float
    ttft_ms_per_1000_tokens: float
    ttft_ms_per_token_squared: float
    measured: bool
    decode_ms: float | None
    prefix_queries: float | None
    prefix_hits: float | None


class RequestView(BaseModel):
    """One request that the sidecar served; see sidecar.records.Record."""

    id: str
    model: str
    stream: bool
    at: int
    epoch: int | None
    capsules: list[str]
    mode: str | None
    node: str | None
    attempts: list[str]
    readmitted: int
    fenced_at: int | None
    overlapped: list[str]
    predicted: int | None
    cached: int | None
    prompt_tokens: int | None
    ttft_ms: float | None
    plane_ms: float | None
    total_ms: float
    status: int
    outcome: str


class HotView(BaseModel):
    """The tenant's hot capsules, `id@version`, in the order of the cache's slots; see sidecar.hot. `policy` and
    `capacity` are those of the configuration, null if it has none."""

    policy: str | None = None
    capacity: int | None = None
    capsules: list[str] = []


class PlacementBody(Strict):
    """A request to be placed: the model, its prompt, and the capsules that it wants to use."""

    model: Annotated[Text, Field(min_length=1, max_length=200)]
    messages: list[dict[str, Any]] | None = None
    prompt: Text | None = None
    capsules: Annotated[tuple[CapsuleId, ...], Field(max_length=64)] = ()
    mode: AskedMode = "auto"
    session: Annotated[Text, Field(max_length=128)] = ""


class Placement(BaseModel):
    """Where it should run and why, and the admission that this rests on: it can be fenced like any other.

    capsules: in the order in which the prompt should hold them.
    """

    epoch: int
    capsules: tuple[VersionRef, ...]
    decision: Decision
