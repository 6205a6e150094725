"""Python client of the control plane.

Errors come back as the exceptions of errors.py, by the answer's status. Reads are tried again while the plane is
unavailable; writes only if they carry an idempotency key, which this client adds by itself.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Self

import httpx2
from pydantic import TypeAdapter

from solarjax.plane import errors
from solarjax.plane.admission import Admission, Fence
from solarjax.plane.artifacts import Artifact, ArtifactDraft
from solarjax.plane.capsules import Capsule, CapsuleContent, CapsuleDraft, VersionRef
from solarjax.plane.placement.views import HotView, NodeView, Placement, PlacementBody, RequestView
from solarjax.plane.results import Ending, Event, Impact, Preview, WriteResult
from solarjax.plane.retriever import Found, Query

DEFAULT_URL = "http://127.0.0.1:8765"
_KINDS: tuple[type[errors.PlaneError], ...] = (
    errors.Invalid, errors.NotFound, errors.Conflict, errors.Unauthorized, errors.TooLarge, errors.HeadersTooLarge,
    errors.Unavailable, errors.Forbidden, errors.Unsupported, errors.Upstream, errors.UpstreamSilent,
)  # fmt: skip
_BY_STATUS = {kind.status: kind for kind in _KINDS}
_ATTEMPTS = 4
_NODES: TypeAdapter[list[NodeView]] = TypeAdapter(list[NodeView])
_REQUESTS: TypeAdapter[list[RequestView]] = TypeAdapter(list[RequestView])
_ENDINGS: TypeAdapter[list[Ending]] = TypeAdapter(list[Ending])


class PlaneClient:
    """One tenant's view of a plane; use it as a context manager.

    Args:
      token: bearer token.
      url: of the plane, without the path.
      timeout: seconds for each try of a request.
      transport: for tests.

    Every method raises the classes of errors.py; Unavailable also if the plane cannot be reached.
    """

    def __init__(
        self,
        token: str,
        url: str = DEFAULT_URL,
        *,
        timeout: float = 10.0,
        transport: httpx2.BaseTransport | None = None,
    ):
        # trust_env off: a proxy meant for the internet must not see tokens for a local service.
        self._http = httpx2.Client(
            base_url=url.rstrip("/") + "/plane/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=timeout,
            transport=transport, trust_env=False,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def create(self, draft: CapsuleDraft, reason: str = "") -> WriteResult:
        """See `Catalogue.create`."""
        return self._write("capsules", {"capsule": draft, "reason": reason})

    def correct(self, ref: VersionRef, content: CapsuleContent, reason: str = "") -> WriteResult:
        """See `Catalogue.correct`."""
        return self._write(f"capsules/{ref.id}/correct", _change(ref, content, reason))

    def supersede(self, ref: VersionRef, content: CapsuleContent, reason: str = "") -> WriteResult:
        """See `Catalogue.supersede`."""
        return self._write(f"capsules/{ref.id}/supersede", _change(ref, content, reason))

    def expire(self, ref: VersionRef, at: datetime | None = None, reason: str = "") -> WriteResult:
        """See `Catalogue.expire`."""
        return self._write(f"capsules/{ref.id}/expire", {"version": ref.version, "at": at, "reason": reason})

    def restore(self, ref: VersionRef, reason: str = "") -> WriteResult:
        """See `Catalogue.restore`."""
        return self._write(f"capsules/{ref.id}/restore", {"version": ref.version, "reason": reason})

    def delete(
        self, capsule: str, *, expected: int | None = None, erase: bool = False, reason: str = ""
    ) -> WriteResult:
        """See `Catalogue.delete`."""
        params = {"version": expected, "erase": str(erase).lower(), "reason": reason}
        found = self._send("DELETE", f"capsules/{capsule}", params=params, headers=_key())
        return WriteResult.model_validate_json(found.content)

    def link(self, source: VersionRef, derived: VersionRef, reason: str = "") -> WriteResult:
        """See `Catalogue.link`."""
        return self._write("dependencies", {"source": source, "derived": derived, "reason": reason})

    def attach(self, artifact: ArtifactDraft, reason: str = "") -> WriteResult:
        """See `Catalogue.attach`."""
        return self._write("artifacts", {"artifact": artifact, "reason": reason})

    def get(self, capsule: str, *, version: int | None = None, as_of: datetime | None = None) -> Capsule:
        """See `Catalogue.get`."""
        path = f"capsules/{capsule}" if version is None else f"capsules/{capsule}/versions/{version}"
        params = {"as_of": None if as_of is None or version is not None else as_of.isoformat()}
        return Capsule.model_validate_json(self._send("GET", path, params=params).content)

    def capsules(self, **filters: Any) -> Iterator[Capsule]:
        """All capsules in force, page by page; `filters` as the route's: kind, entity, as_of, epoch."""
        return (Capsule.model_validate(item) for item in self._pages("capsules", filters))

    def history(self, capsule: str) -> Iterator[Capsule]:
        """All versions of a capsule, oldest first."""
        return (Capsule.model_validate(item) for item in self._pages(f"capsules/{capsule}/versions", {}))

    def preview(self, ref: VersionRef, *, at: datetime | None = None, limit: int = 100) -> Preview:
        """See `Catalogue.preview`."""
        params = {"limit": limit, "at": None if at is None else at.isoformat()}
        found = self._send("GET", f"capsules/{ref.id}/versions/{ref.version}/impact", params=params)
        return Preview.model_validate_json(found.content)

    def why(self, ref: VersionRef) -> list[Ending]:
        """See `Audit.why`."""
        return _ENDINGS.validate_json(self._send("GET", f"capsules/{ref.id}/versions/{ref.version}/why").content)

    def artifacts(self, capsule: str) -> Iterator[Artifact]:
        """Artifacts made from any version of a capsule."""
        return (Artifact.model_validate(item) for item in self._pages(f"capsules/{capsule}/artifacts", {}))

    def search(self, query: Query) -> Found:
        """See `Retriever.search`."""
        return Found.model_validate_json(self._send("POST", "search", body=query).content)

    def admit(self, capsules: Sequence[str]) -> Admission:
        """See `Gate.admit`."""
        return Admission.model_validate_json(self._send("POST", "admissions", body={"capsules": capsules}).content)

    def fence(self, admission: Admission) -> Fence:
        """See `Gate.fence`."""
        body = {"epoch": admission.epoch, "capsules": admission.refs}
        return Fence.model_validate_json(self._send("POST", "admissions/check", body=body).content)

    def events(self, *, capsule: str | None = None, after: int = 0) -> Iterator[Event]:
        """The audit trail from an epoch on, page by page."""
        pages = self._pages("events", {"capsule": capsule, "cursor": str(after)})
        return (Event.model_validate(item) for item in pages)

    def ended_by(self, epoch: int) -> Iterator[Impact]:
        """All versions that an event ended."""
        return (Impact.model_validate(item) for item in self._pages(f"events/{epoch}/ended", {}))

    def nodes(self) -> list[NodeView]:
        """The engine nodes, and which of this tenant's capsules each holds."""
        return _NODES.validate_json(self._send("GET", "nodes").content)

    def hot(self) -> HotView:
        """The tenant's hot capsules."""
        return HotView.model_validate_json(self._send("GET", "hot").content)

    def requests(self, limit: int = 100) -> list[RequestView]:
        """The tenant's latest requests through the sidecar, newest first."""
        return _REQUESTS.validate_json(self._send("GET", "requests", params={"limit": limit}).content)

    def place(self, request: PlacementBody) -> Placement:
        """Where a request should run, and why; nothing is sent."""
        return Placement.model_validate_json(self._send("POST", "placements", body=request).content)

    def stream(self, after: int | None = None) -> Iterator[Event]:
        """Events as they commit; ends when the plane stops or the connection breaks."""
        with self._http.stream("GET", "stream", params=_given({"after": after}), timeout=None) as answer:
            if answer.status_code >= 400:
                answer.read()
                raise _error(answer)
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    yield Event.model_validate_json(line[5:].strip())

    def _write(self, path: str, body: dict[str, Any]) -> WriteResult:
        return WriteResult.model_validate_json(self._send("POST", path, body=body, headers=_key()).content)

    def _pages(self, path: str, params: dict[str, Any]) -> Iterator[Any]:
        while True:
            page = self._send("GET", path, params=params).json()
            yield from page["items"]
            if page["next"] is None:
                return
            params = {**params, "cursor": page["next"]}

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx2.Response:
        content = None if body is None else _ANY.dump_json(body)
        sent = {**(headers or {}), **({} if content is None else {"Content-Type": "application/json"})}
        for attempt in range(_ATTEMPTS):
            try:
                answer = self._http.request(method, path, content=content, params=_given(params or {}), headers=sent)
                problem = None if answer.status_code < 400 else _error(answer)
            except httpx2.HTTPError as error:
                problem = errors.Unavailable(f"the plane at {self._http.base_url} cannot be reached: {error}")
            if problem is None:
                return answer
            if not isinstance(problem, errors.Unavailable | errors.UpstreamBusy) or attempt == _ATTEMPTS - 1:
                raise problem
            time.sleep(0.05 * 4**attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")


_ANY: TypeAdapter[Any] = TypeAdapter(Any)


def _change(ref: VersionRef, content: CapsuleContent, reason: str) -> dict[str, Any]:
    return {"version": ref.version, "content": content, "reason": reason}


def _key() -> dict[str, str]:
    return {"Idempotency-Key": uuid.uuid4().hex}


def _given(params: dict[str, Any]) -> dict[str, Any]:
    plain = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in params.items()}
    return {k: v for k, v in plain.items() if v is not None}


def _error(answer: httpx2.Response) -> errors.PlaneError:
    try:
        problem = answer.json()["error"]
        message, param = str(problem["message"]), problem.get("param")
    except (ValueError, KeyError, TypeError):
        message, param = f"HTTP {answer.status_code}", None
    return _BY_STATUS.get(answer.status_code, errors.PlaneError)(message, param)
