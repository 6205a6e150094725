"""The HTTP client for engines: one pool of connections for prompts, metrics and resets.

aiohttp, because its parser is compiled: a request through it costs a fraction of what a client in Python costs, and the
sidecar is on the way of every prompt. No proxy of the environment is used (one meant for the internet must not see
prompts), nothing is redirected, no cookie is kept, and bodies come as the engine sent them.
"""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Mapping

import aiohttp

UpstreamError = aiohttp.ClientError
Response = aiohttp.ClientResponse
_IDLE_SECONDS = 4.0
"""An unused connection is kept so long: less than vLLM (uvicorn) keeps it."""
_STALE_SECONDS = 1.0
_BEAT_SECONDS = 0.1
_BEHIND_SECONDS = 0.25
"""A task that wakes so much later than it asked for tells that this process is behind: busy, or not let run."""
_INLINE_BYTES = 2**20
"""Larger bodies are handed over as a file, which the client writes in parts; it would warn otherwise."""


class Upstream:
    """Connections to the nodes; an async context manager, usable inside its block only.

    Args:
      connections: most at a time; further requests wait.
      connect_seconds: to open one. pool_seconds: to get one, if all are in use.
    """

    def __init__(self, connections: int, connect_seconds: float, pool_seconds: float):
        self._connections, self._connect_seconds = connections, connect_seconds
        self._late_at, self._beat_at = -math.inf, math.inf
        self._beat: asyncio.Task[None] | None = None
        # No timeout of the library's for reads: a long prefill is no fault, and the sidecar has limits for each phase.
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_seconds + pool_seconds, sock_connect=connect_seconds, sock_read=None
        )
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Upstream:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False, timeout=self._timeout,
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
        )  # fmt: skip
        self._beat = asyncio.create_task(self._beats(), name="heartbeat")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._beat is not None:
            self._beat.cancel()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def post(self, url: str, content: bytes = b"", headers: Mapping[str, str] | None = None) -> Response:
        """Sends; returns when the headers have come. The caller reads the body, and releases or closes the response.

        Raises:
          UpstreamError: if that fails.
        """
        loop = asyncio.get_running_loop()
        stale = False
        while True:
            begin = loop.time()
            body = content if len(content) < _INLINE_BYTES else io.BytesIO(content)
            try:
                return await self._open.post(url, data=body, headers=headers, allow_redirects=False)
            except aiohttp.ConnectionTimeoutError:
                # Nothing was sent yet, so it may be tried again; the caller's own limit ends it.
                if not self.behind(self._connect_seconds):
                    raise
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                # A kept connection that the engine was closing as it was used: once more, on another one.
                if stale or loop.time() - begin > _STALE_SECONDS:
                    raise
                stale = True

    async def get(self, url: str, headers: Mapping[str, str], seconds: float) -> str:
        """The text of an answer with status 200.

        Raises:
          UpstreamError: for any other, and if there is none. TimeoutError: after `seconds`.
        """
        limit = aiohttp.ClientTimeout(total=seconds)
        async with self._open.get(url, headers=headers, allow_redirects=False, timeout=limit) as response:
            if response.status != 200:
                raise UpstreamError(f"{url} answered {response.status}")
            return await response.text(errors="replace")

    def behind(self, seconds: float) -> bool:
        """True if this process was late in the last so many seconds: then an answer that seems missing may lie there
        unread, and the node is not to blame."""
        now = asyncio.get_running_loop().time()
        return now - self._late_at < seconds or now - self._beat_at > _BEAT_SECONDS + _BEHIND_SECONDS

    async def _beats(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _BEAT_SECONDS
            await asyncio.sleep(_BEAT_SECONDS)
            self._beat_at = loop.time()
            if self._beat_at - due > _BEHIND_SECONDS:
                self._late_at = self._beat_at

    @property
    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the client is used outside its block")
        return self._session
