"""Request bodies on their way to an engine: what may not come from a client is taken out, what we need is put in."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from solarjax.plane.errors import PlaneError

_LONGEST_USER = 128
_OURS = ("cache_salt", "session_id", "kv_transfer_params", "request_id", "priority")
"""Fields that decide about isolation, identity or order between tenants. A salt of a client's choosing would reach
another tenant's blocks."""


class Body(NamedTuple):
    """A parsed request. `asked_usage`: the client wants the usage chunk of a stream itself. `user`: OpenAI's field of
    that name, empty if it is none; routing by session falls back on it."""

    fields: dict[str, Any]
    stream: bool
    asked_usage: bool
    user: str = ""


def parse(raw: bytes) -> Body:
    """Reads a body.

    Raises:
      PlaneError: (400) if it is not a JSON object with a model, has text that is not Unicode (lone surrogates, which
        only escapes can hold), or `stream` is not a boolean.
    """
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        raise PlaneError("the body is not JSON") from None
    if b"\\u" in raw and not _unicode(fields):
        raise PlaneError("the body has text with lone surrogates")
    if not isinstance(fields, dict) or not isinstance(fields.get("model"), str):
        raise PlaneError("the body is not an object with a `model`", "model")
    for name in _OURS:
        fields.pop(name, None)
    if isinstance(fields.get("vllm_xargs"), dict):
        # Announces cached blocks again and would break the counting of residency.
        fields["vllm_xargs"].pop("kv_cache_report_mode", None)
    stream = fields.get("stream") or False
    if not isinstance(stream, bool):
        raise PlaneError("`stream` is neither true nor false", "stream")
    options = fields.get("stream_options")
    asked = stream and isinstance(options, dict) and bool(options.get("include_usage"))
    if stream:
        # Its last chunk is the only place where a stream tells how much of the prompt was cached.
        fields["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    user = fields.get("user")
    return Body(fields, stream, asked, user[:_LONGEST_USER] if isinstance(user, str) else "")


def encode(fields: dict[str, Any], salt: str) -> bytes:
    """The bytes for an engine."""
    return json.dumps({**fields, "cache_salt": salt}, ensure_ascii=False, separators=(",", ":")).encode()


def _unicode(fields: Any) -> bool:
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
