"""Server-sent events of an engine, cut at their borders and looked into only as far as needed."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import msgspec

from solarjax.plane.errors import PlaneError

MAX_EVENT = 4_000_000
_BORDER = re.compile(rb"\r\n\r\n|\n\n|\r\r")
DONE = b"data: [DONE]\n\n"


class Malformed(PlaneError):
    """An engine sent something that is not a stream of events."""

    status = 502
    type = "upstream"


class Splitter:
    """Cuts chunks of bytes, however they are divided, into whole events (border included)."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that are whole now.

        Raises:
          Malformed: if an event is larger than `MAX_EVENT` bytes.
        """
        data = self._rest + chunk if self._rest else chunk
        events, begin = [], 0
        for border in _BORDER.finditer(data):
            events.append(data[begin : border.end()])
            begin = border.end()
        self._rest = data[begin:]
        # Also of those that are whole: how the bytes were divided must not decide.
        if len(self._rest) > MAX_EVENT or (len(data) > MAX_EVENT and any(len(event) > MAX_EVENT for event in events)):
            raise Malformed(f"an event of the engine's stream is larger than {MAX_EVENT} bytes")
        return events

    @property
    def rest(self) -> bytes:
        """Bytes of an event that is not whole."""
        return self._rest


class Look(NamedTuple):
    """What an event is: the end, an error, usage (with the chunk that only carries it), content."""

    done: bool = False
    error: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    only_usage: bool = False
    text: str = ""
    content: bool = False


def look(event: bytes) -> Look:
    """Reads one event.

    Raises:
      Malformed: if it has data that is neither [DONE] nor a JSON object.
    """
    data = _data(event)
    if not data:
        return Look()  # a comment, or a field that we have no use for
    if data.strip() == b"[DONE]":
        return Look(done=True)
    found = _parsed(data)
    if not isinstance(found, dict):
        raise Malformed("an event of the engine's stream is not JSON")
    if found.get("error"):
        error = found["error"]
        return Look(error=error if isinstance(error, dict) else {"message": str(error)})
    choices = found.get("choices")
    usage = found.get("usage") if isinstance(found.get("usage"), dict) else None
    if not isinstance(choices, list) or not choices:
        return Look(usage=usage, only_usage=usage is not None)
    text, content = "", False
    for choice in choices:
        if not isinstance(choice, dict):
            continue
        found_delta = choice.get("delta")
        delta = found_delta if isinstance(found_delta, dict) else {}
        piece = choice.get("text") or delta.get("content") or ""
        if choice.get("index", 0) == 0 and isinstance(piece, str):
            text += piece
        # A stream may consist of nothing but a finish reason: that is content too, nothing else will come.
        others = (delta.get("tool_calls"), delta.get("reasoning_content"), delta.get("reasoning"))
        content = content or bool(piece) or any(others) or choice.get("finish_reason") is not None
    return Look(usage=usage, text=text, content=content)


def _data(event: bytes) -> bytes:
    if event.startswith(b"data:") and event.find(b"\n") == len(event) - 2 and b"\r" not in event:
        return event[5:-2].lstrip(b" ")  # one line, as engines write them
    lines = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"\n".join(line[5:].lstrip(b" ") for line in lines if line.startswith(b"data:"))


def _parsed(data: bytes) -> Any:
    """The JSON value, or None. The compiled reader is stricter than Python's (about NaN, say), so that one is asked
    before anything is called malformed."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None


def answer(raw: bytes) -> dict[str, Any]:
    """A whole answer, of an engine that was not asked for a stream.

    Raises:
      Malformed: if it is not a JSON object.
    """
    found = _parsed(raw)
    if not isinstance(found, dict):
        raise Malformed("the engine's answer is not a JSON object")
    return found


def error_event(message: str, kind: str = "upstream", code: int = 502) -> bytes:
    """An event that ends a broken stream; no [DONE] follows, so that nobody takes it for a success."""
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def comment(report: dict[str, Any]) -> bytes:
    """A comment line, which clients pass over."""
    return b": placemem " + json.dumps(report, separators=(",", ":")).encode() + b"\n\n"
