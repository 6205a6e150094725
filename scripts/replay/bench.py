"""What replay itself costs, beside the model.

    scripts/bench_replay                                  # client, the whole loop, and decisions
    scripts/bench_replay --policies fifo,solar,arc --capacity 100 --dim 384
    scripts/bench_replay --url http://127.0.0.1:8000 --model NAME  # also requests per second of a real server

Prints one JSON line a measurement; `--out FOLDER` also keeps them in bench.json.

`client`: `--concurrency` callers ask a stand-in server in a process of its own, which sleeps as long as a real one was
seen to compute (0.87 ms a prompt token + 45 ms a token of the answer) and counts its own time per request.
Overhead is the time from a caller's call to its return, less the server's, as a share of the server's; the response
cache is on, so one write to the disk is part of it. `loop`: the same server under whole lanes, see bench_loop.py; with
--tokenizer (default $SOLARJAX_TOKENIZER) tokens are counted as in a real replay, else words. `decision`: look-up and
decision of one question, with transfers.
On a busy machine the CPU times are the steadier figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from solarjax.replay.client import Client, Sampling
from solarjax.replay.response_cache import ResponseCache

WORDS = "cat dog house lake paint school book music travel friend family garden river mountain city night".split()
PREFILL_S, TOKEN_S = 0.00087, 0.045
ANSWER_TOKENS = 32


def prompts(count: int, words: int, seed: int) -> list[str]:
    """Different texts, so that nothing is answered from a cache."""
    draw = random.Random(seed)
    return [f"{i} {draw.random()} " + " ".join(draw.choice(WORDS) for _ in range(words)) for i in range(count)]


async def _ask(client: Client, texts: list[str], sampling: Sampling) -> tuple[list[Any], list[float]]:
    """Answers and the seconds that each caller waited, `client.concurrency` callers at a time."""
    waiting, answers, seconds = list(reversed(texts)), [], []

    async def caller() -> None:
        while waiting:
            began = time.perf_counter()
            answers.append(await client.chat([{"role": "user", "content": waiting.pop()}], sampling))
            seconds.append(time.perf_counter() - began)

    await asyncio.gather(*(caller() for _ in range(client.concurrency)))
    return answers, seconds


@contextmanager
def stand_in(token_s: float = TOKEN_S, prefill_s: float = PREFILL_S) -> Iterator[str]:
    """The address of a stand-in server in a process of its own."""
    command = [sys.executable, "-m", "tests.replay.stand_in", str(token_s), str(prefill_s), str(ANSWER_TOKENS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def client_overhead(concurrency: int, requests: int) -> dict[str, Any]:
    """The client against the stand-in."""
    with stand_in() as url, tempfile.TemporaryDirectory() as folder:

        async def body() -> tuple[list[Any], list[float], float, float]:
            with ResponseCache(Path(folder) / "answers.sqlite") as cache:
                async with Client(url, "stand-in", concurrency=concurrency, cache=cache) as client:
                    sampling = Sampling(max_tokens=ANSWER_TOKENS)
                    await _ask(client, prompts(concurrency, 20, seed=1), sampling)  # connections are opened
                    before = served(url)
                    cpu = time.process_time()
                    answers, seconds = await _ask(client, prompts(requests, 500, seed=2), sampling)
                    return answers, seconds, served(url) - before, time.process_time() - cpu

        answers, seconds, server_s, cpu = asyncio.run(body())
    assert all(answer.completion_tokens == ANSWER_TOKENS and answer.attempts == 1 for answer in answers)
    overhead = sum(seconds) - server_s
    return {
        "measured": "client", "concurrency": concurrency, "requests": requests,
        "server_s_per_request": round(server_s / requests, 4),
        "overhead_ms_per_request": round(overhead / requests * 1e3, 2),
        "overhead_percent": round(100 * overhead / server_s, 3),
        "client_cpu_ms_per_request": round(cpu / requests * 1e3, 2),
    }  # fmt: skip


def served(url: str) -> float:
    """Seconds that the stand-in spent on requests so far."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/stats", timeout=10) as answer:
        return float(json.load(answer)["served_s"])


def whole_loop(concurrency: int, questions: int, tokenizer: str) -> dict[str, Any]:
    """The loop against the stand-in, with the real encoder, and the real tokenizer if one is named."""
    from scripts.replay.bench_loop import loop_overhead
    from solarjax.encoders.minilm import encode
    from solarjax.replay import tokenizer as tokenizers
    from solarjax.replay.stepper import in_this_thread
    from tests.replay.worlds import Words

    in_this_thread()

    def measured(questions: int, seed: int) -> dict[str, Any]:
        with stand_in() as url, tempfile.TemporaryDirectory() as folder:
            return loop_overhead(
                url, served, concurrency=concurrency, questions=questions, policy="solar", capacity=10,
                answer_tokens=ANSWER_TOKENS, text=lambda words, i, s: prompts(1, words, 10**6 * seed + 1000 * s + i)[0],
                tokenizer=tokenizers.load(tokenizer) if tokenizer else Words(),
                encode=lambda texts: encode(list(texts), cache=Path(folder)),
            )  # fmt: skip

    measured(2, seed=1)  # what is compiled for a shape is compiled
    return measured(questions, seed=2)


def decisions(policy: str, capacity: int, dim: int, steps: int) -> dict[str, Any]:
    """One policy's look-ups and decisions, after the cache has filled and as many steps again."""
    import numpy as np

    from solarjax.replay.plan import replay_cases
    from solarjax.replay.stepper import Stepper, in_this_thread, lane_key

    in_this_thread()
    cases = replay_cases(policy)
    warm = 2 * capacity
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(2, warm + steps, dim)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    quality = draw.uniform(size=warm + steps)
    began = time.perf_counter()
    stepper = Stepper(cases[0], capacity, warm + steps, dim, lane_key(0, "bench", 0), feedback="liked")
    compiled = time.perf_counter() - began
    wall, cpu, changed = [], [], []
    for query, item, score in zip(*vectors, quality, strict=True):
        c = time.process_time()
        stepper.look(query)
        decided = stepper.decide(item, float(score))
        wall.append(decided.seconds)
        changed.append(decided.admitted)
        cpu.append(time.process_time() - c)
    p50, p99 = np.percentile(wall[warm:], [50, 99]) * 1e3
    return {
        "measured": "decision", "policy": policy, "capacity": capacity, "dim": dim, "steps": steps,
        "p50_ms": round(float(p50), 4), "p99_ms": round(float(p99), 4), "min_ms": round(min(wall[warm:]) * 1e3, 4),
        "cpu_p50_ms": round(float(np.percentile(cpu[warm:], 50)) * 1e3, 4), "compile_s": round(compiled, 2),
        "size": decided.size, "changes_per_decision": round(float(np.mean(changed[warm:])), 3),
    }  # fmt: skip


def throughput(url: str, model: str, concurrency: int, requests: int) -> dict[str, Any]:
    """Requests per second of a real server: some 530 prompt tokens, nothing shared, at most 32 tokens back."""

    async def body() -> tuple[list[Any], list[float], float]:
        async with Client(url, model, concurrency=concurrency, timeout_s=900, first_byte_s=900) as client:
            began = time.perf_counter()
            answers, seconds = await _ask(client, prompts(requests, 480, time.time_ns()), Sampling(ANSWER_TOKENS))
            return answers, seconds, time.perf_counter() - began

    answers, seconds, wall = asyncio.run(body())
    ttft = sorted(answer.ttft_s for answer in answers)
    return {
        "measured": "server", "model": model, "concurrency": concurrency, "requests": requests,
        "requests_per_s": round(requests / wall, 3), "ttft_p50_s": round(ttft[requests // 2], 3),
        "prompt_tokens_per_s": round(sum(answer.prompt_tokens for answer in answers) / wall, 1),
        "answer_tokens_per_s": round(sum(answer.completion_tokens for answer in answers) / wall, 1),
        "latency_mean_s": round(sum(seconds) / requests, 3),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", default="16", help="comma-separated")
    parser.add_argument("--requests", type=int, default=96)
    parser.add_argument("--questions", type=int, default=20, help="per session, in the loop; 0 leaves the loop out")
    parser.add_argument("--tokenizer", default=os.environ.get("SOLARJAX_TOKENIZER", ""))
    parser.add_argument("--policies", default="fifo,solar,solar(fill=free)")
    parser.add_argument("--capacity", type=int, default=100)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--url", help="a real server; without it only the stand-in")
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--out", type=Path, help="folder in which bench.json keeps them, with what they ran on")
    at = parser.parse_args()
    measured: list[dict[str, Any]] = []

    def say(row: dict[str, Any]) -> None:
        measured.append(row)
        print(json.dumps(row), flush=True)

    began = time.perf_counter()
    for concurrency in map(int, at.concurrency.split(",")):
        say(client_overhead(concurrency, at.requests))
        if at.questions:
            say(whole_loop(concurrency, at.questions, at.tokenizer))
        if at.url:
            say(throughput(at.url, at.model, concurrency, 2 * concurrency))
    for policy in at.policies.split(","):
        say(decisions(policy, at.capacity, at.dim, at.steps))
    if at.out:
        from scripts.replay.full import portable
        from solarjax import provenance
        from solarjax.report.stored import write_text

        command = shlex.join(["scripts/bench_replay", *map(portable, sys.argv[1:])])
        config = {name: value for name, value in vars(at).items() if name not in ("out", "tokenizer")}
        config["tokenizer"] = Path(at.tokenizer).name
        record = provenance.collect(config, command, time.perf_counter() - began) | {"measured": measured}
        at.out.mkdir(parents=True, exist_ok=True)
        write_text(at.out / "bench.json", json.dumps(record, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
