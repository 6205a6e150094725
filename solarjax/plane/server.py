"""Runs the control plane under uvicorn until it is told to stop."""

from __future__ import annotations

from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from solarjax.plane.settings import Settings


class Server(uvicorn.Server):
    """A server whose event streams end when it is told to stop, so that it need not wait for their subscribers."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """First signal: finish what is running, up to `shutdown_seconds`. Second: stop at once."""
        self.config.app.state.doorbell.close()  # type: ignore[union-attr]
        super().handle_exit(sig, frame)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol over the llhttp parser, a third of the price of h11, with two things that it has not.

    A bound: headers, trailers and chunk extensions that do not end are cut off. What is held is at most
    `h11_max_incomplete_event_size` bytes and one read of the socket; the middleware (api/limits.py) is exact.

    Trailers are dropped. uvicorn would add them to the headers, where they could replace what whoever stands before
    this server has judged, a token first of all.
    """

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._in_head, self._went_on, self._held = False, False, 0

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head = self._went_on = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Its headers have ended."""
        self._in_head, self._went_on = False, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of its body."""
        self._went_on = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """It has ended."""
        self._went_on = True
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Bytes of the client's."""
        self._went_on = False
        super().data_received(data)
        self._held = 0 if self._went_on else self._held + len(data)
        if self._held > (self.config.h11_max_incomplete_event_size or 0) and not self.transport.is_closing():
            self.send_400_response("Invalid HTTP request received.")


def make_server(app: FastAPI, settings: Settings) -> Server:
    """A server that is not running yet."""
    return Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=int(settings.shutdown_seconds) or 1,
            server_header=False,
            http=BoundedProtocol,
            h11_max_incomplete_event_size=settings.max_header_bytes + 4096,
        )  # fmt: skip
    )
