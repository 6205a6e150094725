"""What the whole loop of a replay costs beside the server: everything that happens to a question, not the client alone.

Four sessions run side by side, each with half as many lanes as the server takes requests (`--concurrency`), so it is
hardly ever short of them. Lanes are seeds, which ask in orders of their own: few prompts are the same. The server is
the stand-in in a process of its own, which sleeps as long as a real one computes, so its own time per request is
known, and `alone_s` is what it needs for all of them with no adapter around it. What the loop takes longer than that
is lost to the adapter: look-up, prompt, client, answer cache, scoring, embedding of the experience, decision,
journal; and to rounds, which end with their slowest answer.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from solarjax.replay.client import Client
from solarjax.replay.completion import Completion, Sampling
from solarjax.replay.journal import FILE, Journal
from solarjax.replay.loop import Loop
from solarjax.replay.plan import Plan, Settings, replay_cases
from solarjax.replay.prompts import Prompter, load
from solarjax.replay.response_cache import ResponseCache
from solarjax.replay.traces import Asked, ReplaySession

SESSIONS, TEXTS, TEXT_WORDS = 4, 60, 80
"""Five of the texts in a prompt make the some 500 words that a LoCoMo prompt has."""


class Clocked:
    """A client that notes the clocks when the first question is asked: what comes before is preparation."""

    def __init__(self, client: Client, clocks: Callable[[], tuple[float, ...]]):
        self._client, self._clocks = client, clocks
        self.began: tuple[float, ...] = ()

    async def chat(self, messages: Any, sampling: Any) -> Completion:
        """Asks the chat endpoint."""
        self.began = self.began or self._clocks()
        return await self._client.chat(messages, sampling)

    async def complete(self, prompt: str, sampling: Any) -> Completion:
        """Asks the completion endpoint."""
        self.began = self.began or self._clocks()
        return await self._client.complete(prompt, sampling)


def sessions(questions: int, text: Callable[[int, int, int], str]) -> tuple[ReplaySession, ...]:
    """Dialogues without meaning; their questions share evidence in pairs. text: words, number, seed -> a text."""
    made = []
    for s in range(SESSIONS):
        asked = tuple(
            Asked(f"q{i}", text(10, i, 100 + s), (text(3, i, 200 + s),), "all", "single", frozenset({i // 2}))
            for i in range(questions)
        )
        made.append(ReplaySession(f"session-{s}", tuple(text(TEXT_WORDS, i, s) for i in range(TEXTS)), asked))
    return tuple(made)


def loop_overhead(
    url: str,
    served: Callable[[str], float],
    *,
    concurrency: int,
    questions: int,
    policy: str,
    capacity: int,
    answer_tokens: int,
    text: Callable[[int, int, int], str],
    tokenizer: Any,
    encode: Callable[[Sequence[str]], np.ndarray],
) -> dict[str, Any]:
    """One measurement.

    Args:
      url: of the stand-in.   served: its seconds of service so far, summed over requests.
      questions: per session; every lane asks all of them.   text: as in `sessions`.
      tokenizer, encode: as a replay has them; with the real ones the figures are those of a real replay.

    Returns:
      `wall_s` of the loop, `alone_s` of the server, `overhead_percent` = 100 (wall / alone - 1); and the processor time
      of this process per request, that of the embedding within it, and its share of the server's own time per request.
    """
    settings = Settings(warmup=0.5, sampling=Sampling(max_tokens=answer_tokens), context=4096)
    seeds = tuple(range(-(-2 * concurrency // SESSIONS)))
    plan = Plan(sessions(questions, text), tuple(replay_cases(policy)), (capacity,), seeds, settings)
    prompter = Prompter(load(settings.template), tokenizer, settings.context - answer_tokens)

    async def body(folder: Path) -> tuple[list[float], int, Loop]:
        with Journal(folder / FILE, {}) as journal, ResponseCache(folder / "answers.sqlite") as cache:
            async with Client(url, "stand-in", concurrency=concurrency, cache=cache) as client:

                def clocks() -> tuple[float, ...]:
                    return time.perf_counter(), time.process_time(), loop.progress.embed_cpu_s, served(url)

                clocked = Clocked(client, clocks)
                loop = Loop(plan, clocked, prompter, encode, journal, concurrency=concurrency)
                await loop.run()
                spent = [end - begin for end, begin in zip(clocks(), clocked.began, strict=True)]
                asked = len({record["prompt"] for record in journal.records})
                return spent, asked, loop

    with tempfile.TemporaryDirectory() as name:
        (wall, cpu, embedding, server_s), asked, loop = asyncio.run(body(Path(name)))
    alone = server_s / concurrency
    return {
        "measured": "loop", "policy": policy, "capacity": capacity, "concurrency": concurrency,
        "questions": loop.progress.done, "requests": asked, "wall_s": round(wall, 3), "alone_s": round(alone, 3),
        "server_s_per_request": round(server_s / asked, 4), "overhead_percent": round(100 * (wall / alone - 1), 2),
        "cpu_ms_per_request": round(1e3 * cpu / asked, 2), "cpu_percent": round(100 * cpu / server_s, 3),
        "embedding_ms_per_request": round(1e3 * embedding / asked, 2),
    }  # fmt: skip
