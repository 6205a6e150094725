"""Asks an OpenAI-compatible server, streaming, a bounded number of requests at a time.

Whatever goes wrong ends as one of errors.py, within a bounded time, after the tries that could help. An answer is never
partial: a stream that broke off is thrown away and asked again.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from solarjax.replay import errors, retry
from solarjax.replay.address import Address
from solarjax.replay.completion import Completion, Sampling
from solarjax.replay.response_cache import ResponseCache, request_key
from solarjax.replay.transport import Transport, not_served

__all__ = ["KEY_VARIABLES", "Client", "Completion", "Sampling"]

KEY_VARIABLES = ("SOLARJAX_API_KEY", "OPENAI_API_KEY")
T = TypeVar("T")


class Client:
    """One model behind one address; an async context manager.

    Args:
      base_url: of the server, with or without `/v1`.
      model: name under which it is served.
      concurrency: most requests in flight; further callers wait, which is what keeps a long replay from queueing
        everything at the server at once.
      timeout_s: most seconds of one try, from sending to the end of the answer.
      first_byte_s: most seconds until the body begins; None is `timeout_s`. The body begins with the first token, so
        this bounds the server's queue and the reading of the prompt together.
      retries: most further tries after a transient failure (after a time-out: one).
      cache: answers kept on disk; without it every call asks.
      api_key: None reads $SOLARJAX_API_KEY, then $OPENAI_API_KEY. It is sent to the server, and goes nowhere else.
      seed: of the retries' jitter; None draws one.

    Its methods raise the classes of errors.py.

    Raises:
      BadOption: an argument is outside its range.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        concurrency: int = 16,
        timeout_s: float = 120.0,
        first_byte_s: float | None = None,
        retries: int = 5,
        cache: ResponseCache | None = None,
        api_key: str | None = None,
        seed: int | None = None,
    ) -> None:
        if not model:
            raise errors.BadOption("the name of the model is empty")
        if concurrency < 1:
            raise errors.BadOption(f"concurrency is {concurrency}; it must be at least 1")
        if retries < 0:
            raise errors.BadOption(f"retries is {retries}; it must not be negative")
        first_byte_s = timeout_s if first_byte_s is None else first_byte_s
        for name, value in (("timeout_s", timeout_s), ("first_byte_s", first_byte_s)):
            if not value > 0:
                raise errors.BadOption(f"{name} is {value}; it must be positive")
        self.address, self.model, self.cache = Address.parse(base_url), model, cache
        self.concurrency, self.retries = concurrency, retries
        self._key = _usable_key(api_key)
        # Two connections more, for questions about the server while all slots are taken.
        self._transport = Transport(
            self.address, model, self._key, connections=concurrency + 2, timeout_s=timeout_s, first_byte_s=first_byte_s
        )
        self._draw = random.Random(seed)
        self._slots = asyncio.Semaphore(concurrency)
        self._not_before = 0.0  # a server that asked one request to wait means all of them

    def __repr__(self) -> str:
        return f"Client({str(self.address)!r}, {self.model!r}, concurrency={self.concurrency})"

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._transport.__aexit__(*exception)

    async def chat(self, messages: Sequence[Mapping[str, str]], sampling: Sampling) -> Completion:
        """The answer to a conversation; the server applies its chat template. messages: `role` and `content` each."""
        if not messages:
            raise errors.BadOption("messages is empty; a conversation has at least one")
        return await self._answer("chat/completions", {"messages": [dict(m) for m in messages]}, sampling)

    async def complete(self, prompt: str, sampling: Sampling) -> Completion:
        """The continuation of a text, without a chat template."""
        if not prompt:
            raise errors.BadOption("the prompt is empty")
        return await self._answer("completions", {"prompt": prompt}, sampling)

    async def models(self) -> list[str]:
        """Names of the models that the server serves."""
        return (await self._tried(self._transport.models))[0]

    async def version(self) -> str:
        """The server's own version (`/version`, as vLLM has it), else its `Server` header, else `unknown`."""
        return (await self._tried(self._transport.version))[0]

    async def check(self) -> str:
        """The server's version, after making sure that it is up and serves the model.

        Raises:
          ModelNotFound: it serves others; the message lists them.  ServerDown, Unauthorized and so on.
        """
        served = await self.models()
        if self.model not in served:
            raise not_served(self.address, self.model, served)
        return await self.version()

    async def _answer(self, path: str, prompt: dict[str, Any], sampling: Sampling) -> Completion:
        body = prompt | {
            "model": self.model, "max_tokens": sampling.max_tokens, "temperature": sampling.temperature,
            "seed": sampling.seed, "stream": True, "stream_options": {"include_usage": True},
        }  # fmt: skip
        if sampling.stop:
            body["stop"] = list(sampling.stop)

        async def ask() -> Completion:
            content = json.dumps(body).encode("ascii")
            answer, tries = await self._tried(lambda: self._transport.stream(path, content))
            return replace(answer, attempts=tries)

        if self.cache is None:
            return await ask()
        return await self.cache.get_or_ask(request_key(self.model, prompt, sampling), self.model, ask)

    async def _tried(self, once: Callable[[], Awaitable[T]]) -> tuple[T, int]:
        """(result, tries): runs `once` in a slot until it succeeds or may not be tried again.

        The slot is kept during the waits: a server in trouble gets fewer requests, not the same number in turns.
        """
        failures = timeouts = 0
        async with self._slots:
            while True:
                while (ahead := self._not_before - time.monotonic()) > 0:
                    await asyncio.sleep(ahead)
                try:
                    return await once(), failures + 1
                except errors.ReplayError as error:
                    failures += 1
                    timeouts += isinstance(error, errors.ServerTimeout)
                    if not retry.may_retry(error, failures, timeouts, self.retries):
                        raise self._final(error, failures) from None
                    wait = retry.wait_s(failures, error, self._draw)
                    if error.retry_after_s is not None:
                        self._not_before = max(self._not_before, time.monotonic() + wait)
                await asyncio.sleep(wait)

    def _final(self, error: errors.ReplayError, tries: int) -> errors.ReplayError:
        """The same error, with the number of tries and without the key, should the server have echoed it."""
        text = str(error)
        if self._key:
            text = text.replace(self._key, "[key]")
        return type(error)(f"{text} ({tries} tries)" if tries > 1 else text, retry_after_s=error.retry_after_s)


def _usable_key(given: str | None) -> str | None:
    for key in (given, *(os.environ.get(name) for name in KEY_VARIABLES)):
        if key and key.strip():
            key = key.strip()
            if not (key.isascii() and key.isprintable()):
                raise errors.BadOption("the API key holds characters that a header cannot carry")
            return key
    return None
