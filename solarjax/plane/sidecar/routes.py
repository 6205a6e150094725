"""The OpenAI-compatible routes. They are plain ASGI: nothing between the engine and the client collects a body."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from solarjax.plane.api import problems
from solarjax.plane.errors import PlaneError, UpstreamBusy
from solarjax.plane.sidecar import body as bodies
from solarjax.plane.sidecar import contract
from solarjax.plane.sidecar.exchange import Exchange
from solarjax.plane.sidecar.records import Record
from solarjax.plane.sidecar.serving import Serving

_LOG = logging.getLogger("solarjax.plane.sidecar")


class _Gone(Exception):
    """The client left before it had sent its request."""


def routes(serving: Serving) -> list[Route]:
    """`/v1/chat/completions`, `/v1/completions`, `/v1/models`."""
    return [
        Route("/v1/chat/completions", Generate(serving, "/v1/chat/completions"), methods=["POST"]),
        Route("/v1/completions", Generate(serving, "/v1/completions"), methods=["POST"]),
        Route("/v1/models", Models(serving), methods=["GET"]),
    ]


class Models:
    """The models that the nodes serve."""

    def __init__(self, serving: Serving):
        self._serving = serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        try:
            wanted = contract.parse(scope["headers"])
            ticket = await self._serving.hot.authenticate(wanted.token)
            wanted.check_tenant(ticket.principal.tenant)
            names = dict.fromkeys(node.config.model for node in self._serving.nodes)
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "solarjax"} for name in names]
            response: Response = JSONResponse({"object": "list", "data": data})
        except PlaneError as error:
            response = problems.of(error)
        await response(scope, receive, send)


class Generate:
    """One of the two generating routes."""

    def __init__(self, serving: Serving, path: str):
        self._serving = serving
        self.path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI; a client that leaves cancels everything, the engine's work included."""
        serving = self._serving
        scope["route"] = self  # what the metrics call this request
        if serving.in_flight >= serving.settings.max_in_flight:
            await problems.of(UpstreamBusy("too many requests are under way"))(scope, receive, send)
            return
        serving.in_flight += 1
        answer = _Answer(send)
        try:
            await self._serve(scope, receive, answer)
        except _Gone:
            return
        except HTTPException as error:
            if answer.begun:
                raise
            await problems.of_framework(error)(scope, receive, answer)
        except Exception as error:
            if not answer.begun:
                await problems.of_unexpected(scope["method"], scope["path"], error)(scope, receive, answer)
            raise
        finally:
            serving.in_flight -= 1

    async def _serve(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        begin = time.monotonic()
        record: Record | None = None
        exchange: Exchange | None = None
        try:
            wanted = contract.parse(scope["headers"])
            ticket = await self._serving.hot.authenticate(wanted.token)
            wanted.check_tenant(ticket.principal.tenant)
            body = bodies.parse(await _read(receive))
            record = Record(wanted.request_id, ticket.principal.tenant, body.fields["model"], body.stream)
            exchange = Exchange(self._serving, ticket, wanted, body, self.path, record, answer)
            if not await _unless_gone(exchange.run(), receive, answer):
                record.outcome = "cancelled"
        except PlaneError as error:
            if record is not None:
                record.status = error.status
                record.outcome = "refused" if error.status < 500 else "failed"
            if exchange is not None and exchange.started:
                _LOG.warning("a stream could not be finished: %s", error)
                raise
            await problems.of(error)(scope, receive, answer)
        except (asyncio.CancelledError, _Gone):
            if record is not None:
                record.outcome = "cancelled"
            raise
        finally:
            if record is not None:
                record.total_ms = (time.monotonic() - begin) * 1e3
                self._serving.records.add(record)


async def _read(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


class _Answer:
    """Passes an answer on to the server. `begun`: its head, `complete`: its last part has been handed over."""

    def __init__(self, send: Send):
        self._send = send
        self.begun = False
        self.complete = False

    async def __call__(self, message: Message) -> None:
        """As the `send` of ASGI."""
        if message["type"] == "http.response.start":
            self.begun = True
        elif not message.get("more_body"):
            self.complete = True
        await self._send(message)


async def _unless_gone(work: Coroutine[Any, Any, None], receive: Receive, answer: _Answer) -> bool:
    """Runs `work` to its end, or cancels it when the client disconnects; True if it ended.

    Servers report a disconnect also once an answer is complete. What is still to be done then, such as reading the
    engine's last bytes, is not the client's to cancel.
    """
    this = asyncio.current_task()
    assert this is not None
    gone = False

    async def watch() -> None:
        nonlocal gone
        with contextlib.suppress(Exception):  # a connection that cannot be read is as good as gone
            await _until_gone(receive)
        if not answer.complete:
            gone = True
            this.cancel()

    watching = asyncio.create_task(watch())
    try:
        await work
        return True
    except asyncio.CancelledError:
        if not gone:  # the server's wish
            raise
        return False
    finally:
        watching.cancel()
        if gone:
            this.uncancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
