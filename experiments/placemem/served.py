"""An ASGI application on a free loopback port, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import uvicorn

START_S = 60.0


class Served:
    """Runs until `close`.

    Attributes:
      url: where it answers.  loop: its event loop, for coroutines from other threads.

    Raises:
      RuntimeError: it did not start.
    """

    def __init__(self, app: Any):
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="warning", access_log=False, lifespan="on",
            timeout_graceful_shutdown=2,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self.loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("the server did not start")
            time.sleep(0.005)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def _run(self) -> None:
        async def serve() -> None:
            self.loop = asyncio.get_running_loop()
            await self._server.serve()

        asyncio.run(serve())

    def close(self) -> None:
        """Stops it and waits; may be called more than once."""
        self._server.should_exit = True
        self._thread.join(timeout=30)
