"""Server-sent events, as far as completion streams use them: `data:` lines, strictly UTF-8.

httpx2 ships a reader too, but it decodes leniently: a broken byte would become a replacement character inside an
answer, where nobody could tell it from text of the model.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from solarjax.replay.errors import MalformedStream

DONE = "[DONE]"
MAX_EVENT_BYTES = 4 * 2**20  # a server that never ends a line must not fill the memory


async def data_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """Yields the data of each event, in order, without empty ones (keep-alives).

    Chunks may be cut anywhere, inside a line or a character. An event that the end of the stream leaves unfinished is
    not delivered, as the standard asks.

    Raises:
      MalformedStream: a line is not UTF-8, or an event is longer than MAX_EVENT_BYTES.
    """
    pending = bytearray()
    data: list[str] = []
    size = 0
    async for chunk in chunks:
        pending += chunk
        if b"\n" not in chunk:
            if size + len(pending) > MAX_EVENT_BYTES:
                raise MalformedStream(f"the server sent an event of more than {MAX_EVENT_BYTES} bytes")
            continue
        *lines, rest = pending.split(b"\n")
        pending = bytearray(rest)
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if not line:
                text = "\n".join(data)
                data, size = [], 0
                if text.strip():
                    yield text
            elif line.startswith(b"data:"):
                size += len(line)
                if size > MAX_EVENT_BYTES:
                    raise MalformedStream(f"the server sent an event of more than {MAX_EVENT_BYTES} bytes")
                try:
                    data.append(bytes(line[5:]).decode("utf-8").removeprefix(" "))
                except UnicodeDecodeError:
                    raise MalformedStream(f"the server sent bytes that are not UTF-8: {_shown(line)}") from None


def parsed(event: str) -> dict[str, Any]:
    """The JSON object of one event.

    Raises:
      MalformedStream: it is not a JSON object.
    """
    try:
        value = json.loads(event)
    except ValueError:
        raise MalformedStream(f"the server sent something that is not JSON: {event[:80]!r}") from None
    if not isinstance(value, dict):
        raise MalformedStream(f"the server sent {type(value).__name__} where an object was expected: {event[:80]!r}")
    return value


def _shown(line: bytes | bytearray) -> str:
    return repr(bytes(line[:60]))
