"""A small world for replays: texts without meaning, an encoder by hash, a deterministic model, a word tokenizer."""

from __future__ import annotations

import asyncio
import hashlib

import numpy as np

from solarjax.replay.completion import Completion, Sampling
from solarjax.replay.plan import Plan, Settings, replay_cases
from solarjax.replay.traces import Asked, ReplaySession

DIM = 16


def encode(texts):
    """A unit row per text, from its hash; similar words give similar rows."""
    rows = np.zeros((len(texts), DIM), np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().split():
            digest = hashlib.sha256(word.encode()).digest()
            row += np.random.default_rng(int.from_bytes(digest[:8], "big")).normal(size=DIM).astype(np.float32)
        row /= max(float(np.linalg.norm(row)), 1e-6)
    return rows


class Words:
    """Tokens are words; the chat template is `role: content`."""

    name_or_path = "words"
    chat_template = "role: content"

    def __len__(self):
        return 1

    def apply_chat_template(self, messages, tokenize, add_generation_prompt):
        assert not tokenize and add_generation_prompt
        return "\n".join(f"{m['role']}: {m['content']}" for m in messages) + "\nassistant:"

    def __call__(self, text, add_special_tokens):
        return {"input_ids": text.split()}


class Model:
    """Answers as a function of the prompt; about half of its answers are the right colour."""

    def __init__(self, delay_s=0.0):
        self.asked = []
        self.delay_s = delay_s

    async def chat(self, messages, sampling):
        text = messages[-1]["content"]
        self.asked.append(text)
        await asyncio.sleep(self.delay_s)
        digest = hashlib.sha256(text.encode()).digest()
        # Wrong in every word for a third of the prompts; right in most words, or in all, otherwise.
        answer = f"colour {digest[0] % 2} thing {digest[1] % 5}" if digest[3] % 3 else "no idea"
        return Completion(answer, "stop", len(text.split()), digest[2] % 16, 3, 0.01, (0.001,), 0.02, 1, False)

    async def complete(self, prompt, sampling):
        return await self.chat([{"content": prompt}], sampling)


def session(name, n=8):
    """n questions about as many turns; neighbours share evidence."""
    questions = tuple(
        Asked(f"q{i}", f"what is thing {i} {name}", (f"colour {i % 2} thing {i % 5}",), ("even", "odd")[i % 2],
              "unanswerable" if i % 4 == 3 else "single", frozenset({f"e{i // 2}"}))
        for i in range(n)
    )  # fmt: skip
    return ReplaySession(name, tuple(f"turn {i} says colour {i % 2}" for i in range(n)), questions)


def plan(policies="fifo,lru", capacities=(2,), seeds=(0, 1), names=("a", "b"), n=8, **settings):
    """A plan over small sessions."""
    settings = {"warmup": 0.5, "corpus_k": 2, "context": 400, "sampling": Sampling(max_tokens=8)} | settings
    sessions = tuple(session(name, n) for name in names)
    return Plan(sessions, tuple(replay_cases(policies)), tuple(capacities), tuple(seeds), Settings(**settings))
