"""Reads one node's KV events over ZeroMQ: live batches from its PUB socket, repetitions from its ROUTER socket.

Endpoints should be `ipc://`: events carry prompt tokens, `tcp://*` listens to everybody, and an engine silently does
not bind `tcp://127.0.0.1:PORT` (placemem-notes.md, section 2).

A replay is a DEALER exchange: we send [empty, first number as 8 bytes], the engine answers one message a batch,
[empty, topic, number, payload], and ends with the number -1. (A REQ socket would get the first answer only.)
"""

from __future__ import annotations

import asyncio
import contextlib

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from solarjax.plane.placement.eventlog import EventLog, Numbered

REPLAY_SECONDS = 5.0
RETRY_SECONDS = 0.5
_END = -1


class Feed:
    """Keeps an `EventLog` current until it is stopped.

    Args:
      log: the state to keep.
      events: endpoint of the engine's PUB socket.
      replay: endpoint of its replay socket; None if it has none, then every gap empties the counts.
      topic: prefix of the topic.
      context: ZeroMQ context; the process-wide one by default.
    """

    def __init__(
        self, log: EventLog, events: str, replay: str | None, *, topic: str = "", context: zmq.Context | None = None
    ):
        self._log = log
        self._events = events
        self._replay = replay
        self._topic = topic.encode()
        self._context = zmq.asyncio.Context.shadow(context or zmq.Context.instance())
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Call after the log was put in doubt from outside, so that it is cleared up at once."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        socket = self._context.socket(zmq.SUB)
        socket.linger = 0
        socket.rcvhwm = 0  # a dropped batch would be a gap; memory is bounded by the log's own limit
        socket.subscribe(self._topic)
        monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            socket.connect(self._events)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch(monitor))
                tasks.create_task(self._read(socket, monitor))
                tasks.create_task(self._repair())
        finally:
            monitor.close()
            socket.disable_monitor()
            socket.close()

    async def _read(self, socket: zmq.asyncio.Socket, monitor: zmq.asyncio.Socket) -> None:
        while True:
            parts = await socket.recv_multipart()
            # A broken connection is told on another socket: look there before believing that this batch continues.
            while await monitor.poll(0):
                await self._broken(monitor)
            if len(parts) == 3 and len(parts[1]) == 8:
                self._log.offer(int.from_bytes(parts[1], "big", signed=True), parts[2])
            else:
                self._log.doubt()
            if self._log.wanted is not None:
                self._wake.set()

    async def _watch(self, monitor: zmq.asyncio.Socket) -> None:
        while True:
            await monitor.poll()
            while await monitor.poll(0):
                await self._broken(monitor)

    async def _broken(self, monitor: zmq.asyncio.Socket) -> None:
        with contextlib.suppress(zmq.Again):
            parse_monitor_message(await monitor.recv_multipart(zmq.NOBLOCK))
            self._log.doubt()
            self._wake.set()

    async def _repair(self) -> None:
        while True:
            if self._log.wanted is None:
                await self._wake.wait()
            self._wake.clear()
            if self._log.wanted is None:
                continue
            if self._replay is None:
                self._log.replayed([])
                continue
            answer = await self._ask(self._log.request())
            if answer is None:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._log.replayed(answer)

    async def _ask(self, start: int) -> list[Numbered] | None:
        """The engine's answer, None if it gives none in time."""
        socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        socket.rcvhwm = 0
        try:
            socket.connect(self._replay or "")
            async with asyncio.timeout(REPLAY_SECONDS):
                await socket.send_multipart([b"", start.to_bytes(8, "big")])
                answer: list[Numbered] = []
                while True:
                    parts = await socket.recv_multipart()
                    number = int.from_bytes(parts[-2], "big", signed=True)
                    if number == _END:
                        return answer
                    answer.append((number, parts[-1]))
        except (TimeoutError, zmq.ZMQError):
            return None
        finally:
            socket.close()
