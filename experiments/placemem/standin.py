"""A scripted engine: an OpenAI-compatible server with an exact prefix cache, so that every reuse figure is repeatable.

It speaks the part of vLLM's dialect that the plane uses: streamed chat completions with usage, `/metrics`, KV events
over ZeroMQ with replay, `/reset_prefix_cache`. A token is a byte. A block is known by its salt and all bytes up to its
end; the least recently used block goes first, the end of a prompt before its beginning. The 64-bit names of blocks are
those the plane computes (`placement/blocks.py`); which blocks are held and how many of a prompt's are reused is decided
here, on the bytes themselves.

It "answers" as the small model does that follows its prompt: with the last statement about what was asked for, or with
an apology if there is none. Nothing here sleeps. What a first token would cost is computed from the uncached tokens by
`modelled_ttft_ms`, a measured line, instead of being measured on a machine that does something else as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import zmq
import zmq.asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from experiments.placemem.served import Served
from solarjax.plane.placement.blocks import BlockHasher

BLOCK = 128
"""Bytes in a block: as long as the 32 tokens of a block of the real model, at four bytes a token."""
BYTES_PER_TOKEN = 4
FIRST_MS, UNCACHED_MS = 62.0, 0.87
"""TTFT of the real model on one core: 62 ms + 0.87 ms a token that is not cached (placemem-notes.md, section 4)."""
MODEL = "standin"
TOPIC = "kv"
_TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}<assistant>"
_ASKED = re.compile(r"What is the current (.+?) identifier\?")


def modelled_ttft_ms(prompt_bytes: int, cached_bytes: int) -> float:
    """What the first token would cost the real model."""
    return FIRST_MS + UNCACHED_MS * (prompt_bytes - cached_bytes) / BYTES_PER_TOKEN


def write_model(folder: Path) -> Path:
    """A model folder whose tokenizer makes one token of each byte."""
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)  # words are cached, one long string would not be
    tokenizer.decoder = ByteDecoder()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": _TEMPLATE}), encoding="utf-8")
    return folder


def token_ids() -> list[int]:
    """The token of each byte, in the order that the tokenizer's alphabet gives them."""
    # The byte-level alphabet shows printable bytes as themselves and numbers the others from 256 on.
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in shown]
    letter = {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    rank = {name: i for i, name in enumerate(sorted(letter.values()))}
    return [rank[letter[byte]] for byte in range(256)]


class PrefixCache:
    """What the engine holds: prefixes of prompts in whole blocks, least recently used out first.

    Args:
      capacity: blocks.
      block: bytes in a block.
    """

    def __init__(self, capacity: int, block: int = BLOCK):
        self.capacity = capacity
        self.block = block
        self._held: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        """Forgets everything."""
        self._held.clear()

    def take(self, salt: str, prompt: bytes) -> tuple[int, list[int], list[tuple[str, bytes]]]:
        """Computes a prompt.

        Returns:
          Bytes that were reused, indices of the blocks that are new, and the prefixes that were dropped for them.
        """
        prefixes = [(salt, prompt[:end]) for end in range(self.block, len(prompt) + 1, self.block)]
        reusable = (len(prompt) - 1) // self.block  # the last token is always computed: its logits are wanted
        reused = 0
        while reused < min(reusable, len(prefixes)) and prefixes[reused] in self._held:
            reused += 1
        new = [i for i, prefix in enumerate(prefixes) if prefix not in self._held]
        for prefix in reversed(prefixes):
            self._held[prefix] = None
            self._held.move_to_end(prefix)
        dropped = []
        while len(self._held) > self.capacity:
            dropped.append(self._held.popitem(last=False)[0])
        return reused * self.block, new, dropped


class StandIn:
    """One scripted node on the loopback interface.

    Args:
      folder: for its model and its sockets.
      name: of the node.
      capacity: KV blocks.

    Attributes:
      published: batches of events so far.
    """

    def __init__(self, folder: Path, name: str, capacity: int):
        self.name = name
        self.cache = PrefixCache(capacity)
        self.model = write_model(folder / "model")
        self.events, self.replay = (f"ipc://{folder}/{name}.{kind}" for kind in ("live", "replay"))
        self.published = 0
        self._started = time.time()
        self._log: list[bytes] = []
        self._hasher = BlockHasher("sha256_cbor", BLOCK)
        self._ids = token_ids()
        self._names: dict[tuple[str, bytes], int] = {}
        self._cleared = False
        routes = [
            Route("/v1/chat/completions", self._generate, methods=["POST"]), Route("/metrics", self._metrics),
            Route("/reset_prefix_cache", self._reset, methods=["POST"]), Route("/health", self._health),
        ]  # fmt: skip
        self._server = Served(Starlette(routes=routes, lifespan=self._lifespan))
        self.url = self._server.url

    def close(self) -> None:
        """Stops it."""
        self._server.close()

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        context = zmq.asyncio.Context()
        self._live, router = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
        for socket, endpoint in ((self._live, self.events), (router, self.replay)):
            socket.linger = 0
            socket.bind(endpoint)
        task = asyncio.create_task(self._repeat(router))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._live.close()
            router.close()
            context.term()

    async def _repeat(self, router: zmq.asyncio.Socket) -> None:
        while True:
            client, _, begin = await router.recv_multipart()
            for number in range(int.from_bytes(begin, "big"), len(self._log)):
                await router.send_multipart([client, b"", TOPIC.encode(), number.to_bytes(8, "big"), self._log[number]])
            await router.send_multipart([client, b"", b"", b"\xff" * 8, b""])

    async def _publish(self, events: list[dict[str, Any]]) -> None:
        self._log.append(msgspec.msgpack.encode([time.time(), events, 0]))
        await self._live.send_multipart([TOPIC.encode(), self.published.to_bytes(8, "big"), self._log[-1]])
        self.published += 1

    async def _health(self, _request: Request) -> Response:
        return Response()

    async def _metrics(self, _request: Request) -> Response:
        config = f'block_size="{BLOCK}",num_gpu_blocks="{self.cache.capacity}"'
        return PlainTextResponse(
            f"process_start_time_seconds {self._started}\nvllm:num_requests_running 0.0\n"
            f"vllm:num_requests_waiting 0.0\nvllm:cache_config_info{{{config}}} 1.0\n"
        )

    async def _reset(self, _request: Request) -> Response:
        self.cache.clear()
        self._names.clear()
        self._cleared = True  # told with the next step, as vLLM does
        return JSONResponse({"success": True})

    async def _generate(self, request: Request) -> Response:
        body = await request.json()
        said = "".join(f"<{m['role']}>{m['content']}</{m['role']}>" for m in body["messages"])
        prompt = f"{said}<assistant>".encode()
        cached = await self._compute(prompt, body.get("cache_salt") or "")
        words = answer(said).split(" ")[: int(body.get("max_tokens") or 16)]
        return StreamingResponse(self._stream(words, len(prompt), cached, body), media_type="text/event-stream")

    async def _compute(self, prompt: bytes, salt: str) -> int:
        reused, new, dropped = self.cache.take(salt, prompt)
        chain = self._hasher.chain([self._ids[byte] for byte in prompt], salt or None)
        events: list[dict[str, Any]] = [{"type": "AllBlocksCleared"}] if self._cleared else []
        self._cleared = False
        kind = {"medium": "GPU", "group_idx": 0}
        for i in new:
            self._names[salt, prompt[: (i + 1) * BLOCK]] = chain[i]
        if new:
            stored = [chain[i] for i in new]
            events.append({"type": "BlockStored", "block_hashes": stored, "token_ids": [], "block_size": BLOCK, **kind})
        if dropped:
            gone = [self._names.pop(prefix) for prefix in dropped]
            events.append({"type": "BlockRemoved", "block_hashes": gone, **kind})
        if events:
            await self._publish(events)
        return reused

    async def _stream(self, words: list[str], total: int, cached: int, body: dict[str, Any]) -> AsyncIterator[bytes]:
        head = {"id": "chatcmpl-1", "created": 1, "model": body["model"], "object": "chat.completion.chunk"}

        def event(choices: list[Any], **more: Any) -> bytes:
            return f"data: {json.dumps({**head, 'choices': choices, **more})}\n\n".encode()

        yield event([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])
        for i, word in enumerate(words):
            text = word if i == 0 else f" {word}"
            yield event([{"index": 0, "delta": {"content": text}, "finish_reason": None}])
        yield event([{"index": 0, "delta": {}, "finish_reason": "stop"}])
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = {
                "prompt_tokens": total, "completion_tokens": len(words), "total_tokens": total + len(words),
                "prompt_tokens_details": {"cached_tokens": cached},
            }  # fmt: skip
            yield event([], usage=usage)
        yield b"data: [DONE]\n\n"


def answer(prompt: str) -> str:
    """The last statement about what the last question asks for."""
    asked = _ASKED.findall(prompt)
    found = re.findall(rf'The current {re.escape(asked[-1])} identifier is "([^"]+)"', prompt) if asked else []
    return f'"{found[-1]}"' if found else "I do not know."
