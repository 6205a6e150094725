"""The header contract between a client and the sidecar.

Request (all optional; none is passed on to an engine):

    X-PlaceMem-Capsules: id[@version], ...   use these, in the versions in force; a pinned version that is not in force
                                             is a conflict (409)
    X-PlaceMem-Retrieve: 1..64               let the retriever choose up to so many for the last user message
    X-PlaceMem-Mode: auto | text | kv | layer    see placement.planner; layer is refused (501)
    X-PlaceMem-Tenant: name                  must be the token's tenant (403 otherwise)
    X-PlaceMem-Session: key                  for session routing; without it the body's `user` is the key
    X-PlaceMem-Writeback: none | auto | id   keep the answer as a capsule derived from those used
    X-Request-Id: id                         1 to 128 letters, digits, '.', '_' or '-'; else one is made

Response:

    X-PlaceMem-Epoch, -Capsules (id@version, ... in the order of the prompt), -Mode (text | kv), -Node, -Attempts,
    -Fence (passed | readmitted=N), -Prompt-Tokens and -Predicted-Cached (a number or unknown), -Terms (of the utility,
    milliseconds), X-Request-Id; -Cached (what the engine reports) where the answer is not a stream. A stream ends with
    an SSE comment before [DONE]: `: placemem {"cached_tokens": ..., "overlapped": [...]}`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import NamedTuple, cast, get_args

from solarjax.plane.capsules import ID_PATTERN, VersionRef
from solarjax.plane.errors import Forbidden, Invalid
from solarjax.plane.placement.decision import AskedMode, Decision

MAX_CAPSULES = 64
PREFIX = "x-placemem-"
_FIELDS = frozenset({"capsules", "retrieve", "mode", "tenant", "session", "writeback"})
_ID = re.compile(ID_PATTERN)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._\-]{1,128}\Z")
_SESSION = re.compile(r"[\x21-\x7e]{1,128}\Z")
RawHeaders = Iterable[tuple[bytes, bytes]]


class Wanted(NamedTuple):
    """What the headers ask for. `pinned` maps capsule ids to versions."""

    capsules: tuple[str, ...]
    pinned: dict[str, int]
    retrieve: int
    mode: AskedMode
    tenant: str | None
    session: str
    writeback: str
    request_id: str
    token: str | None

    def check_tenant(self, tenant: str) -> None:
        """Raises Forbidden if the headers name another tenant than the token's."""
        if self.tenant is not None and self.tenant != tenant:
            raise Forbidden("the token is not one of the tenant that X-PlaceMem-Tenant names", "X-PlaceMem-Tenant")


def parse(headers: RawHeaders) -> Wanted:
    """Reads the request headers.

    Raises:
      Invalid: for a header of this contract that is unknown, given twice, or not of its form.
    """
    found: dict[str, str] = {}
    request_id, token = "", None
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        if name.startswith(PREFIX):
            field = name.removeprefix(PREFIX)
            if field not in _FIELDS:
                raise Invalid(f"header {name[:80]!r} is not part of the contract: {', '.join(sorted(_FIELDS))}", name)
            if field in found:
                raise Invalid(f"header {name!r} is given twice", name)
            found[field] = raw_value.decode("latin-1").strip()
        elif name == "x-request-id":
            request_id = raw_value.decode("latin-1")
        elif name == "authorization":
            scheme, _, rest = raw_value.decode("latin-1").partition(" ")
            token = rest.strip() if scheme.lower() == "bearer" else None
    capsules, pinned = _capsules(found.get("capsules", ""))
    return Wanted(
        capsules=capsules, pinned=pinned, retrieve=_number(found.get("retrieve")), mode=_mode(found.get("mode")),
        tenant=found.get("tenant"), session=_matching(_SESSION, found.get("session", ""), "session"),
        writeback=_writeback(found.get("writeback", "none")),
        request_id=request_id if _REQUEST_ID.match(request_id) else f"pm-{uuid.uuid4().hex}", token=token,
    )  # fmt: skip


def decided(decision: Decision) -> list[tuple[bytes, bytes]]:
    """Response headers that tell where a request went and why."""
    terms = decision.chosen
    shown = "; ".join(
        f"{name}={getattr(terms, name):.3f}"
        for name in ("utility", "reuse_ms", "saved_ms", "semantic_ms", "stale_ms", "remote_ms", "load_ms", "ttft_ms")
    )
    return [
        header("mode", decision.mode), header("node", decision.node),
        header("prompt-tokens", _known(decision.prompt_tokens)),
        header("predicted-cached", _known(decision.cached_tokens)), header("terms", shown),
    ]  # fmt: skip


def header(field: str, value: object) -> tuple[bytes, bytes]:
    """One response header; values are made here from ids and numbers, so none can hold a line break."""
    return (PREFIX + field).encode(), str(value).encode("latin-1", "replace")


def _known(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _capsules(text: str) -> tuple[tuple[str, ...], dict[str, int]]:
    names: dict[str, None] = {}
    pinned: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name = part
        if "@" in part:
            try:
                ref = VersionRef.parse(part)
            except ValueError as error:
                raise Invalid(str(error), "X-PlaceMem-Capsules") from None
            name = ref.id
            if pinned.setdefault(name, ref.version) != ref.version:
                raise Invalid(f"two versions of {name!r} are named", "X-PlaceMem-Capsules")
        elif not _ID.match(part):
            raise Invalid(f"{part[:80]!r} is not a capsule id", "X-PlaceMem-Capsules")
        names[name] = None
    if len(names) > MAX_CAPSULES:
        raise Invalid(f"{len(names)} capsules; at most {MAX_CAPSULES} can be used", "X-PlaceMem-Capsules")
    return tuple(names), pinned


def _number(text: str | None) -> int:
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_CAPSULES):
        raise Invalid(f"{text[:40]!r} is not a number from 1 to {MAX_CAPSULES}", "X-PlaceMem-Retrieve")
    return int(text)


def _mode(text: str | None) -> AskedMode:
    if text is not None and text not in get_args(AskedMode):
        raise Invalid(f"mode {text[:40]!r}; allowed are {', '.join(get_args(AskedMode))}", "X-PlaceMem-Mode")
    return cast(AskedMode, text or "auto")


def _writeback(text: str) -> str:
    if not _ID.match(text):
        raise Invalid(f"{text[:80]!r} is neither none, auto nor a capsule id", "X-PlaceMem-Writeback")
    return text


def _matching(pattern: re.Pattern[str], text: str, field: str) -> str:
    if text and not pattern.match(text):
        raise Invalid(f"{text[:40]!r} is not 1 to 128 visible characters", f"X-PlaceMem-{field.capitalize()}")
    return text
