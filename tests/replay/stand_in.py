"""A scripted stand-in for a model server: for faults that a real one cannot be made to show, and for measuring what
the client itself costs. It proves nothing about models; tests/vllm asks a real server.

It speaks the dialect that vLLM 0.32 was seen to speak: chunked server-sent events, a role chunk first, usage in the
last chunk, error objects, `[DONE]` even after a fault. Answers are a function of the prompt. Tokens are words. A prefix
cache of blocks is simulated, so `cached_tokens` follows from the order of the requests.

    async with StandIn(faults={2: Fault("cut")}) as server:
        ...  # server.url, server.asked

or, for callers that are no coroutines, `with in_thread(StandIn()) as server:`; or as a program, with seconds a token of
the answer, seconds a token of the prompt and words of the answer: `python -m tests.replay.stand_in 0.045 0.0009 32`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

MODEL = "stand-in"
BLOCK = 16

FAULTS = (
    "status",  # an error status, `status`, with `retry_after`
    "close",  # the connection is closed before a status
    "hang",  # nothing is ever sent
    "stall",  # a beginning is sent, then nothing
    "cut",  # the connection breaks after `after` pieces
    "early_done",  # [DONE] after `after` pieces, without finish reason and usage
    "error_object",  # vLLM when its engine dies: an error object, then [DONE]
    "bad_utf8",  # bytes that are no UTF-8, in the middle of the text
    "bad_json",  # an event that is no JSON
    "bad_chunk",  # JSON, but no completion chunk
    "no_usage",  # complete, but without token counts
    "empty_chunk",  # harmless: empty events and comments between the pieces
    "split",  # harmless: the bytes arrive one by one
    "not_stream",  # a plain JSON answer
    "linger",  # complete, but the connection stays open
)


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request."""

    kind: str
    status: int = 500
    retry_after: str | None = None
    after: int = 2
    body: bytes | None = None

    def __post_init__(self) -> None:
        assert self.kind in FAULTS, self.kind


@dataclass
class Asked:
    """One request for a completion, as it came in."""

    body: dict[str, Any]
    headers: dict[str, str]
    prompt: str
    cached_tokens: int


def words_of(prompt: str) -> str:
    """The default answer: up to six words of the prompt, chosen by its hash."""
    words = prompt.split()
    digest = hashlib.sha256(prompt.encode()).digest()
    return " ".join(words[byte % len(words)] for byte in digest[: 1 + digest[-1] % 6])


@dataclass
class StandIn:
    """The server.

    faults: by number of the completion request, from 0, or a function of that number.
    answer: text for a prompt; a chat's prompt is `role: content` lines.
    key: the API key it wants, if any.  context: most tokens.  token_s: seconds for each token made.
    prefill_s: seconds for each token of the prompt that is not cached.
    """

    faults: Mapping[int, Fault] | Callable[[int], Fault | None] = field(default_factory=dict)
    answer: Callable[[str], str] = words_of
    key: str | None = None
    context: int = 4096
    token_s: float = 0.0
    prefill_s: float = 0.0
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    connections: int = 0
    served_s: float = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._blocks: set[bytes] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serves one request; False if the connection is to be closed."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if self.key is not None and given != self.key:
            return _plain(writer, 401, _error(f"Incorrect API key provided: {given}", "auth", "invalid_api_key"))
        if path == "/health":
            return _plain(writer, 200, b"")
        if path == "/stats":
            return _plain(writer, 200, json.dumps({"served_s": self.served_s, "asked": len(self.asked)}).encode())
        if path == "/version":
            return _plain(writer, 200, b'{"version": "stand-in 1"}')
        if path == "/v1/models":
            return _plain(writer, 200, json.dumps({"object": "list", "data": [{"id": MODEL}]}).encode())
        if method != "POST" or path not in ("/v1/chat/completions", "/v1/completions"):
            return _plain(writer, 404, b'{"detail": "Not Found"}')
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._complete(writer, json.loads(body), headers, chat="chat" in path)
        finally:
            self.in_flight -= 1

    async def _complete(self, writer: Any, body: dict[str, Any], headers: dict[str, str], chat: bool) -> bool:
        began = asyncio.get_running_loop().time()
        number = len(self.asked)
        fault = self.faults(number) if callable(self.faults) else self.faults.get(number)
        prompt = "\n".join(f"{m['role']}: {m['content']}" for m in body["messages"]) if chat else body["prompt"]
        tokens = prompt.split()
        cached = self._cached(tokens)
        self.asked.append(Asked(body, headers, prompt, cached))
        if body["model"] != MODEL:
            said = f"The model `{body['model']}` does not exist."
            return _plain(writer, 404, _error(said, "NotFoundError", 404))
        if len(tokens) > self.context:
            said = f"This model's maximum context length is {self.context} tokens, your prompt has {len(tokens)}."
            return _plain(writer, 400, _error(said, "BadRequestError", 400))
        kind = fault.kind if fault else ""
        if fault and kind == "status":
            extra = {"Retry-After": fault.retry_after} if fault.retry_after is not None else {}
            return _plain(writer, fault.status, fault.body or _error("scripted", "Scripted", fault.status), extra)
        if kind == "close":
            return False
        if kind == "hang":
            await asyncio.sleep(3600)
        said = self.answer(prompt)
        if kind == "not_stream":
            return _plain(writer, 200, json.dumps({"choices": [{"message": {"content": said}}]}).encode())
        await asyncio.sleep(self.prefill_s * (len(tokens) - cached))
        pieces = [f"{' ' if i else ''}{word}" for i, word in enumerate(said.split())][: body["max_tokens"]]
        stream = _Stream(writer, chat, one_by_one=kind == "split")
        stream.start()
        if chat:
            await stream.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for i, piece in enumerate(pieces):
            if (
                fault
                and i == min(fault.after, len(pieces) - 1)
                and (done := await self._break(stream, fault)) is not None
            ):
                return done
            if kind == "empty_chunk":
                await stream.raw(b"data:\n\n: keep-alive\n\n")
            await asyncio.sleep(self.token_s)
            await stream.piece(piece)
        whole = len(pieces) == len(said.split())
        await stream.piece("", "stop" if whole else "length")
        if kind != "no_usage":
            usage = {"prompt_tokens": len(tokens), "completion_tokens": len(pieces)}
            usage |= {"prompt_tokens_details": {"cached_tokens": cached}}
            await stream.event({"choices": [], "usage": usage})
        await stream.raw(b"data: [DONE]\n\n")
        if kind == "linger":
            await asyncio.sleep(3600)
        await stream.end()
        self.served_s += asyncio.get_running_loop().time() - began
        return True

    async def _break(self, stream: _Stream, fault: Fault) -> bool | None:
        """Applies a fault in the middle of an answer; None if the answer goes on."""
        if fault.kind == "stall":
            await asyncio.sleep(3600)
        if fault.kind == "cut":
            return False
        if fault.kind == "bad_utf8":
            await stream.raw(b'data: {"choices": [{"index": 0, "delta": {"content": "\xff\xfe"}}]}\n\n')
        if fault.kind == "bad_json":
            await stream.raw(b'data: {"choices": [{"index\n\n')
        if fault.kind == "bad_chunk":
            await stream.event({"object": "something else"})
        if fault.kind in ("early_done", "error_object"):
            if fault.kind == "error_object":
                await stream.raw(
                    b"data: " + _error("EngineCore encountered an issue", "InternalServerError", 500) + b"\n\n"
                )
            await stream.raw(b"data: [DONE]\n\n")
            await stream.end()
            return True
        return None

    def _cached(self, tokens: list[str]) -> int:
        """Tokens of the longest prefix of whole blocks that was seen before, the last token never among them."""
        chain, found, unbroken = b"", 0, True
        for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
            chain = hashlib.sha256(chain + " ".join(tokens[start : start + BLOCK]).encode()).digest()
            unbroken = unbroken and chain in self._blocks
            if unbroken and start + BLOCK < len(tokens):
                found = start + BLOCK
            self._blocks.add(chain)
        return found


class _Stream:
    """A chunked body of server-sent events."""

    def __init__(self, writer: asyncio.StreamWriter, chat: bool, one_by_one: bool):
        self._writer, self._chat, self._one_by_one = writer, chat, one_by_one

    def start(self) -> None:
        self._writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n")
        self._writer.write(b"Transfer-Encoding: chunked\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        for part in [data[i : i + 1] for i in range(len(data))] if self._one_by_one else [data]:
            self._writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            await self._writer.drain()
            if self._one_by_one:
                await asyncio.sleep(0)

    async def event(self, value: dict[str, Any]) -> None:
        await self.raw(b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n")

    async def piece(self, text: str, finish: str | None = None) -> None:
        said = {"delta": {"content": text} if text else {}} if self._chat else {"text": text}
        await self.event({"choices": [{"index": 0, **said, "finish_reason": finish}]})

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()


def _error(message: str, kind: str, code: Any) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


def _plain(writer: asyncio.StreamWriter, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bool:
    lines = [f"HTTP/1.1 {status} Scripted", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
    return True


@contextmanager
def in_thread(server: StandIn) -> Iterator[StandIn]:
    """Runs a stand-in in a thread of its own, for callers that are no coroutines."""
    started, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with server:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


async def _serve_forever() -> None:
    token_s, prefill_s, words = (float(value) for value in sys.argv[1:4])
    answer = " ".join(f"word{i}" for i in range(int(words)))
    async with StandIn(answer=lambda prompt: answer, token_s=token_s, prefill_s=prefill_s) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(_serve_forever())
    except KeyboardInterrupt:
        pass
