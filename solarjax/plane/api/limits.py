"""ASGI middleware that refuses oversized headers and bodies before anything reads them."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from solarjax.plane.api.problems import of
from solarjax.plane.errors import HeadersTooLarge, Invalid, PlaneError, TooLarge


class Limits:
    """See the module.

    Args:
      app: the application behind.
      max_body_bytes, max_header_bytes: sizes allowed; a body is counted as it arrives, whatever its header claims.
    """

    def __init__(self, app: ASGIApp, max_body_bytes: int, max_header_bytes: int):
        self._app = app
        self._body = max_body_bytes
        self._headers = max_header_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers 431, 413 or 422 itself, or passes on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await of(refusal)(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._body:
                # The framework's own class: it passes through whatever is reading the body.
                raise HTTPException(TooLarge.status, f"the body is larger than {self._body} bytes")
            return message

        await self._app(scope, counted, send)

    def _refusal(self, scope: Scope) -> PlaneError | None:
        headers = scope["headers"]
        if sum(len(name) + len(value) + 4 for name, value in headers) > self._headers:
            return HeadersTooLarge(f"the headers are larger than {self._headers} bytes")
        lengths = [value for name, value in headers if name == b"content-length"]
        if lengths and not all(value.isdigit() for value in lengths):
            return Invalid("content-length is not a number", "content-length")
        if lengths and max(map(int, lengths)) > self._body:
            return TooLarge(f"the body is larger than {self._body} bytes")
        return None
