"""A scripted engine: speaks the dialect of vLLM over real sockets, keeps a prefix cache, publishes KV events.

Its cache is written without solarjax: a block is known by the salt and all tokens up to its end, and its 64-bit name is
computed here once more from the description in blocks.py. A token is a byte of the prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
import time
from collections import OrderedDict, deque

import msgspec
import uvicorn
import zmq
import zmq.asyncio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

BLOCK = 16
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}<assistant>"


def write_model(folder):
    """A model folder whose tokenizer makes one token of each byte."""
    folder.mkdir(exist_ok=True)
    alphabet = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteDecoder()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return folder


def cbor(value):
    """Canonical CBOR of what block names are made from (RFC 8949), by hand."""

    def head(kind, n):
        for size, code in ((1, 24), (2, 25), (4, 26), (8, 27)):
            if n < 24:
                return bytes([kind << 5 | n])
            if n < 256**size:
                return bytes([kind << 5 | code]) + n.to_bytes(size, "big")

    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    return head(4, len(value)) + b"".join(map(cbor, value))


def names(tokens, salt):
    parent = hashlib.sha256(cbor("vllm-none-hash")).digest()
    found = []
    for begin in range(0, len(tokens) - BLOCK + 1, BLOCK):
        extra = [["cache_salt", salt]] if begin == 0 and salt else None
        parent = hashlib.sha256(cbor([parent, tokens[begin : begin + BLOCK], extra])).digest()
        found.append(int.from_bytes(parent[24:], "big"))
    return found


class Left(Exception):
    """The client is gone."""


class Held:
    """One request that an engine holds back, by itself: letting it go never lets go of another."""

    def __init__(self, engine):
        self.engine = engine
        self._go = threading.Event()

    @property
    def released(self):
        return self._go.is_set()

    def release(self):
        self._go.set()


class Counted:
    """Counts the requests that an engine is at work on, to the last byte and to the last look whether it may go on."""

    def __init__(self, app, engine):
        self._app, self._engine = app, engine

    async def __call__(self, scope, receive, send):
        work = scope["type"] == "http" and scope["path"].startswith("/v1/")
        self._engine.running += work
        try:
            await self._app(scope, receive, send)
        finally:
            self._engine.running -= work


class Engine:
    """One node. `script` holds what to do with the next requests: `ok` when it is empty. `seen` holds their bodies,
    `held` those that wait to be let go and that no test has taken yet."""

    def __init__(self, folder, name="a", capacity=400, delay=0.0, port=0):
        self.name = name
        self.capacity = capacity
        self.delay = delay
        self.answer = ["Hello", " there", "!"]
        self.script = deque()
        self.seen = []
        self.headers = []
        self.ports = []
        self.cancelled = 0
        self.running = 0
        self.held = deque()
        self._waiting = set()
        self.model = write_model(folder / "model")
        self.tokenizer = Tokenizer.from_file(str(self.model / "tokenizer.json"))
        self.endpoints = [f"ipc://{folder}/{name}.{kind}" for kind in ("live", "replay")]
        self.started = time.time()
        self.cache = OrderedDict()
        self.number = 0
        self.buffer = []
        routes = [
            Route("/v1/chat/completions", self.generate, methods=["POST"]),
            Route("/v1/completions", self.generate, methods=["POST"]),
            Route("/metrics", self.metrics), Route("/reset_prefix_cache", self.reset, methods=["POST"]),
        ]  # fmt: skip
        counted = [Middleware(Counted, engine=self)]
        self.server = Served(Starlette(routes=routes, lifespan=self._events, middleware=counted), port=port)
        self.url = self.server.url

    @contextlib.asynccontextmanager
    async def _events(self, _app):
        context = zmq.asyncio.Context()
        self.live, router = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
        for socket, endpoint in zip((self.live, router), self.endpoints, strict=True):
            socket.linger = 0
            socket.bind(endpoint)

        async def serve():
            while True:
                client, _, begin = await router.recv_multipart()
                for number, payload in self.buffer:
                    if number >= int.from_bytes(begin, "big"):
                        await router.send_multipart([client, b"", b"kv", number.to_bytes(8, "big"), payload])
                await router.send_multipart([client, b"", b"", b"\xff" * 8, b""])

        task = asyncio.create_task(serve())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.live.close()
            router.close()
            context.term()

    async def publish(self, *events):
        payload = msgspec.msgpack.encode([time.time(), list(events), 0])
        number, self.number = self.number, self.number + 1  # before anything waits: no number is given twice
        self.buffer.append((number, payload))
        await self.live.send_multipart([b"kv", number.to_bytes(8, "big"), payload])

    async def metrics(self, _request):
        config = f'block_size="{BLOCK}",num_gpu_blocks="{self.capacity}"'
        return PlainTextResponse(
            f"process_start_time_seconds {self.started}\nvllm:num_requests_running 0.0\n"
            f"vllm:num_requests_waiting 0.0\nvllm:cache_config_info{{{config}}} 1.0\n"
        )

    async def reset(self, _request):
        self.cache.clear()  # and nothing is published: the next step does that
        self.pending_clear = True
        return JSONResponse({"success": True})

    pending_clear = False

    def prompt(self, body):
        if "prompt" in body:
            return body["prompt"]
        said = "".join(f"<{m['role']}>{m['content']}</{m['role']}>" for m in body["messages"])
        return said + "<assistant>"

    async def compute(self, body):
        """Puts the prompt's blocks into the cache; returns prompt tokens and how many of them were there."""
        tokens = self.tokenizer.encode(self.prompt(body), add_special_tokens=False).ids
        chain = names(tokens, body.get("cache_salt"))
        hit = 0
        while hit < min(len(chain), (len(tokens) - 1) // BLOCK) and chain[hit] in self.cache:
            hit += 1
        events = [{"type": "AllBlocksCleared"}] if self.pending_clear else []
        self.pending_clear = False
        new = [block for block in chain if block not in self.cache]
        for block in reversed(chain):  # the end of a chain is evicted first
            self.cache[block] = True
            self.cache.move_to_end(block)
        gone = []
        while len(self.cache) > self.capacity:
            gone.append(self.cache.popitem(last=False)[0])
        kind = {"medium": "GPU", "group_idx": 0}
        if new:
            events.append({"type": "BlockStored", "block_hashes": new, "token_ids": [], "block_size": BLOCK, **kind})
        if gone:
            events.append({"type": "BlockRemoved", "block_hashes": gone, **kind})
        if events:
            await self.publish(*events)
        return len(tokens), hit * BLOCK

    async def generate(self, request):
        body = await request.json()
        self.seen.append(body)
        self.headers.append(dict(request.headers))
        self.ports.append(request.client.port)
        act = self.script.popleft() if self.script else "ok"
        if act in ("400", "500", "503"):
            error = {"message": f"scripted {act}", "type": "BadRequestError", "param": None, "code": int(act)}
            return JSONResponse({"error": error}, int(act))
        if act in ("hang", "hold"):
            try:
                await self.until_released(request)
            except Left:
                self.cancelled += 1
                return Response(status_code=500)
        total, cached = await self.compute(body)
        await asyncio.sleep(self.delay * (total - cached))
        chat = "messages" in body
        usage = {"prompt_tokens": total, "completion_tokens": len(self.answer), "total_tokens": total + 3,
                 "prompt_tokens_details": {"cached_tokens": cached}}  # fmt: skip
        head = {"id": "cmpl-1", "created": 1, "model": body["model"],
                "object": "chat.completion" if chat else "text_completion"}  # fmt: skip
        if not body.get("stream"):
            text = "".join(self.answer)
            said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            return JSONResponse({**head, "choices": [{"index": 0, **said, "finish_reason": "stop"}], "usage": usage})
        head["object"] += ".chunk" if chat else ""
        return StreamingResponse(self.stream(act, head, chat, usage, request), media_type="text/event-stream")

    async def until_released(self, request):
        held = Held(self)
        self._waiting.add(held)
        self.held.append(held)
        try:
            while not held.released:
                if await request.is_disconnected():
                    raise Left
                await asyncio.sleep(0.005)
        finally:
            self._waiting.discard(held)

    async def stream(self, act, head, chat, usage, request):
        def event(value):
            return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()

        def piece(text, **more):
            inside = {"delta": {"content": text}} if chat else {"text": text}
            return event({**head, "choices": [{"index": 0, **inside, "finish_reason": None, **more}]})

        try:
            if act == "error first":
                yield event({"error": {"message": "EngineCore encountered an issue", "code": 500}})
                yield event("[DONE]")
                return
            if chat:
                yield piece("", delta={"role": "assistant", "content": ""})
            for i, text in enumerate(self.answer):
                if act == "torn":  # events cut anywhere
                    whole = piece(text)
                    yield whole[:7]
                    await asyncio.sleep(0.001)
                    yield whole[7:]
                else:
                    yield piece(text)
                if i == 0 and act == "error later":
                    yield event({"error": {"message": "EngineCore encountered an issue", "code": 500}})
                    yield event("[DONE]")
                    return
                if i == 0 and act == "cut":
                    return
                if i == 0 and act == "nonsense":
                    yield b"data: {not json\n\n"
                if i == 0 and act in ("silent", "pause"):
                    await self.until_released(request)
                await asyncio.sleep(0)
            yield piece("", finish_reason="stop")
            if (body := self.seen[-1]).get("stream_options", {}).get("include_usage"):
                yield event({**head, "choices": [], "usage": usage})
                assert body
            yield event("[DONE]")
        except (asyncio.CancelledError, GeneratorExit, Left):
            self.cancelled += 1

    def release_all(self):
        for held in list(self._waiting):
            held.release()

    def forget(self):
        """As if it had never been asked, but for its cache. Nothing may be running."""
        self.script = deque()  # another one: a test may have given the same to two engines
        for past in (self.seen, self.headers, self.ports, self.held):
            past.clear()
        self.cancelled = 0

    def close(self):
        self.release_all()
        self.server.close()


class Served:
    """An ASGI application under uvicorn in a thread of its own."""

    def __init__(self, app, **options):
        config = uvicorn.Config(app, **{"port": 0, "log_level": "error", "timeout_graceful_shutdown": 2, **options})
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        deadline = time.monotonic() + 60
        while not self.server.started:
            assert self.thread.is_alive() and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.005)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def _run(self):
        async def serve():
            self.loop = asyncio.get_running_loop()
            await self.server.serve()

        asyncio.run(serve())

    def close(self):
        self.server.should_exit = True
        self.thread.join(timeout=30)
        assert not self.thread.is_alive()
