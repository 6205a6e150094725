"""One request to one node, up to its first content byte and on from there.

Whatever goes wrong before that byte is another node's chance; after it the client has seen something, and the stream
can only be ended honestly.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from solarjax.plane.placement.monitor import authorization
from solarjax.plane.placement.nodes import Node
from solarjax.plane.placement.upstream import Response, Upstream, UpstreamError
from solarjax.plane.sidecar import sse

BUSY = frozenset({429, 503})
_LAST_BYTES_SECONDS = 0.5
_MOST_TOKENS = 1_000_000_000
_NO_HEADERS: Mapping[str, str] = {}


def tokens(said: Any) -> int | None:
    """A number of tokens as an engine reports it; None for what cannot be one."""
    return said if type(said) is int and 0 <= said <= _MOST_TOKENS else None


class Timeouts(NamedTuple):
    """Seconds. connect: to a node. first_byte: to the first content byte of a stream. chunk: between two chunks.
    answer: to the end of an answer that is not a stream."""

    connect: float
    first_byte: float
    chunk: float
    answer: float


class Failed(Exception):
    """The node gave no answer. `silent`: it let the time run out. `busy`: it said so, and is healthy."""

    def __init__(self, message: str, *, silent: bool = False, busy: bool = False):
        super().__init__(message)
        self.silent = silent
        self.busy = busy


class Attempt:
    """One try.

    Args:
      http: shared client.
      node: to ask. uncached: prompt tokens that it will have to compute, None if not known.
      timeouts: for this try.

    Attributes:
      status, content_type: of the engine's answer.
      body: of an answer that is not a stream, or of a refusal.
      answer: what `body` says, of an answer that is not a stream and no refusal; else empty.
      usage: as reported, None so far.
      ttft_ms: from sending to the first content byte.
      position: of the node's event log when it was sent.
      alone: True if nothing else was known to run on the node, so that the time measures this prompt only.
    """

    def __init__(self, http: Upstream, node: Node, uncached: int | None, timeouts: Timeouts):
        self.node = node
        self.status = 0
        self.content_type = "application/json"
        self.body = b""
        self.answer: dict[str, Any] = {}
        self.usage: dict[str, Any] | None = None
        self.ttft_ms: float | None = None
        self.alone = node.idle
        self.position = node.log.position
        self.text: list[str] = []
        self.broken: str | None = None
        self._http = http
        self._timeouts = timeouts
        self._key = node.sent(uncached)
        self._response: Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._splitter = sse.Splitter()
        self._held: list[tuple[bytes, sse.Look | None]] = []
        self._judged = False
        self._done = False
        self._first_at = 0.0

    @property
    def refused(self) -> bool:
        """The engine says that the request is wrong."""
        return 400 <= self.status < 500

    async def open(
        self, path: str, content: bytes, request_id: str, *, stream: bool, trace: Mapping[str, str] = _NO_HEADERS
    ) -> None:
        """Sends the request and waits for the first content byte, or for the whole answer.

        Args:
          trace: headers that carry the trace on to the engine.

        Raises:
          Failed: if another node may be tried.
        """
        begin = time.monotonic()
        try:
            async with asyncio.timeout(self._timeouts.first_byte if stream else self._timeouts.answer):
                await self._open(path, content, request_id, stream, trace)
        except (UpstreamError, sse.Malformed) as error:  # first: a connection that times out is a TimeoutError too
            self._judge(False)
            self.node.unreachable()
            raise Failed(f"node {self.node.name} failed: {type(error).__name__}") from None
        except TimeoutError:
            self._judge(False)
            raise Failed(f"node {self.node.name} did not begin to answer in time", silent=True) from None
        self._first_at = time.monotonic()
        self.ttft_ms = (self._first_at - begin) * 1e3
        self.node.first_byte(self._key)
        self._judge(True)

    async def _open(self, path: str, content: bytes, request_id: str, stream: bool, trace: Mapping[str, str]) -> None:
        headers = {
            "Content-Type": "application/json", "X-Request-Id": request_id, "Accept-Encoding": "identity",
            **authorization(self.node), **trace,
        }  # fmt: skip
        self._response = response = await self._http.post(self.node.config.url + path, content, headers)
        self.status = response.status
        self.content_type = response.headers.get("Content-Type", "application/json")
        if self.status in BUSY:
            self._judge(None)
            raise Failed(f"node {self.node.name} is busy", busy=True)
        if self.status >= 500 or 300 <= self.status < 400:
            self._judge(False)
            raise Failed(f"node {self.node.name} answered {self.status}")
        if not stream or self.status >= 400:
            self.body = await response.read()
            if not self.refused:
                self.answer = sse.answer(self.body)
                usage = self.answer.get("usage")
                self.usage = usage if isinstance(usage, dict) else None
            return
        self._chunks = response.content.iter_any()
        async for chunk in self._chunks:
            events = self._splitter.feed(chunk)
            for number, event in enumerate(events):
                seen = sse.look(event)
                if seen.error is not None:
                    self._judge(False)
                    raise Failed(f"node {self.node.name} failed: {str(seen.error.get('message'))[:200]}")
                self._held.append((event, seen))
                if seen.content or seen.done:
                    # Whatever follows, even in the same packet, is about a stream that has begun.
                    self._held.extend((after, None) for after in events[number + 1 :])
                    return
        raise sse.Malformed("the stream ended before it began")

    async def events(self, *, keep_text: bool, pass_usage: bool) -> AsyncIterator[bytes]:
        """The stream from its first event on, in the engine's own bytes; without [DONE], which the caller sends.

        Ends with an error event, and `broken` set, if the engine failed; so it does if the stream just stops.
        """
        held, self._held = self._held, []  # None: not looked into yet
        done = False  # said, and all before it passed on
        try:
            async with asyncio.timeout(None) as limit:
                loop = asyncio.get_running_loop()
                while not done:
                    passed = b""
                    for event, known in held:
                        try:
                            seen = known or sse.look(event)
                        except sse.Malformed:
                            if passed:
                                yield passed
                            raise
                        done = done or seen.done
                        if seen.error is not None:
                            # Engines send [DONE] after an error; a client that looks for that alone would be misled.
                            self.broken = str(seen.error.get("message"))[:500]
                            yield passed + event
                            return
                        self.usage = seen.usage or self.usage
                        if keep_text and seen.text:
                            self.text.append(seen.text)
                        if not seen.done and (pass_usage or not seen.only_usage):
                            passed += event
                    if passed:
                        yield passed
                    if done:
                        self._done = True
                        return
                    limit.reschedule(loop.time() + self._timeouts.chunk)
                    assert self._chunks is not None
                    chunk = await anext(self._chunks, None)
                    limit.reschedule(None)
                    if chunk is None:
                        self.broken = "the engine ended the stream in the middle"
                        break
                    held = [(event, None) for event in self._splitter.feed(chunk)]
        except TimeoutError:
            self.broken = "the engine went silent in the middle of the stream"
        except (UpstreamError, sse.Malformed) as error:
            self.broken = f"the engine failed in the middle of the stream: {type(error).__name__}"
        if self.broken:
            yield sse.error_event(self.broken)

    async def close(self) -> None:
        """Ends it, whatever state it is in; an engine that still generates stops when the connection goes.

        After [DONE] there is only the end of the body to come. It is waited for, shortly, because a connection whose
        answer was not read to its end cannot be used again.
        """
        self.node.finished(self._key)
        if self.broken:
            self._judged = False
            self._judge(False)
        self._judge(None)
        if self._done and self._chunks is not None and not self.broken:
            with contextlib.suppress(TimeoutError, UpstreamError):
                async with asyncio.timeout(_LAST_BYTES_SECONDS):
                    async for _ in self._chunks:
                        pass
        if self._response is not None:
            # A body that was read to its end has given its connection back already; any other is closed with it.
            self._response.close()

    def measured(self, prompt_tokens: int, cached: int) -> None:
        """Tells the node what was learnt of its speed, from an answer that had it to itself."""
        if not self.alone or self.ttft_ms is None or self.broken or self._chunks is None:
            return
        self.node.latency.observe(prompt_tokens - cached, self.ttft_ms)
        generated = tokens((self.usage or {}).get("completion_tokens"))
        if generated is not None and generated > 1:
            self.node.latency.observe_decode((time.monotonic() - self._first_at) * 1e3 / (generated - 1))

    def _judge(self, healthy: bool | None) -> None:
        if self._judged:
            return
        self._judged = True
        if healthy is None:
            self.node.breaker.abandoned()
        elif healthy:
            self.node.breaker.succeeded()
        else:
            self.node.breaker.failed(time.monotonic())
