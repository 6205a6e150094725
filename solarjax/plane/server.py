"""Runs the control plane under uvicorn until it is told to stop."""

from __future__ import annotations

from types import FrameType

import uvicorn
from fastapi import FastAPI

from solarjax.plane.settings import Settings


class Server(uvicorn.Server):
    """A server whose event streams end when it is told to stop, so that it need not wait for their subscribers."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """First signal: finish what is running, up to `shutdown_seconds`. Second: stop at once."""
        self.config.app.state.doorbell.close()  # type: ignore[union-attr]
        super().handle_exit(sig, frame)


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
            # h11 holds at most this much of a header that does not end; the middleware is exact.
            http="h11",
            h11_max_incomplete_event_size=settings.max_header_bytes + 4096,
        )  # fmt: skip
    )
