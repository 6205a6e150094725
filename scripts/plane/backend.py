"""A stand-in for an engine in a process of its own: answers at once or after a while, and costs as little as it can.

    python -m scripts.plane.backend --chunks 4 --interval 0.0 --first 0.0

Prints its URL and serves until its input ends. It speaks the part of the OpenAI dialect that the sidecar needs, counts
what it serves (`/stats`), and reports every prompt as not cached.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from typing import Any

import uvicorn

BLOCK = 16
_NUMBER = re.compile(rb"Question (\d+):")
_GOLDEN = (5**0.5 - 1) / 2  # multiples of it fill the unit interval evenly
_JSON = [(b"content-type", b"application/json")]


class Backend:
    """ASGI application.

    Args:
      chunks: content chunks of a stream. interval: seconds before each.
      first: seconds before the first, on average: question n takes 0.5 to 1.5 times as long, always the same. If all
        took the same time, clients that began together would stay in step, and wait for each other each time.
    """

    def __init__(self, chunks: int, interval: float, first: float):
        self._interval, self._first = interval, first
        head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
        self._chunks = [
            _event({**head, "choices": [{"index": 0, "delta": {"content": f"word{i} "}, "finish_reason": None}]})
            for i in range(chunks)
        ]
        usage = {"prompt_tokens": 64, "completion_tokens": chunks, "total_tokens": 64 + chunks,
                 "prompt_tokens_details": {"cached_tokens": 0}}  # fmt: skip
        stop = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        self._end = _event(stop) + _event({**head, "choices": [], "usage": usage}) + b"data: [DONE]\n\n"
        text = "".join(f"word{i} " for i in range(chunks))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        answer = {**head, "object": "chat.completion", "usage": usage, "choices": [choice]}
        self._answer = json.dumps(answer).encode()
        self._running = self.most = self.served = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            return
        if scope["path"] == "/metrics":
            config = f'block_size="{BLOCK}",num_gpu_blocks="4096"'
            text = f"process_start_time_seconds 1\nvllm:cache_config_info{{{config}}} 1.0\n"
            await _answer(send, text.encode(), [(b"content-type", b"text/plain")])
        elif scope["path"] == "/stats":
            await _answer(send, json.dumps({"served": self.served, "most": self.most}).encode(), _JSON)
        else:
            self._running += 1
            self.most = max(self.most, self._running)
            try:
                await self._generate(receive, send)
                self.served += 1
            finally:
                self._running -= 1

    async def _generate(self, receive: Any, send: Any) -> None:
        raw, more = b"", True
        while more:
            message = await receive()
            raw, more = raw + message.get("body", b""), message.get("more_body", False)
        if self._first:
            number = _NUMBER.search(raw)
            await asyncio.sleep(self._first * (0.5 + (int(number[1]) * _GOLDEN % 1.0 if number else 0.5)))
        if not json.loads(raw).get("stream"):
            await _answer(send, self._answer, _JSON)
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for chunk in self._chunks:
            if self._interval:
                await asyncio.sleep(self._interval)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": self._end})


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


async def _answer(send: Any, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers + length})
    await send({"type": "http.response.body", "body": body})


async def _serve(app: Backend) -> None:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", access_log=False, lifespan="off"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)  # whoever started it has gone, or closed the pipe
    server.should_exit = True
    await task


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=4)
    parser.add_argument("--interval", type=float, default=0.0)
    parser.add_argument("--first", type=float, default=0.0)
    given = parser.parse_args()
    asyncio.run(_serve(Backend(given.chunks, given.interval, given.first)))


if __name__ == "__main__":
    main()
