"""The measurement of the whole loop: it counts what the server served, and sees a delay that is the adapter's."""

import time

import pytest

from scripts.replay.bench_loop import SESSIONS, loop_overhead
from tests.replay.stand_in import StandIn, in_thread
from tests.replay.worlds import Words, encode

QUESTIONS, CONCURRENCY = 4, 4


def measure(encode=encode):
    """(what the loop says, the server) for answers of 40 ms and more."""

    def text(words, number, seed):
        return " ".join(f"w{seed}x{number}y{i % 3}" for i in range(words))

    with in_thread(StandIn(token_s=0.01, answer=lambda prompt: "a b c d")) as server:
        found = loop_overhead(
            server.url, lambda url: server.served_s, concurrency=CONCURRENCY, questions=QUESTIONS, policy="fifo",
            capacity=2, answer_tokens=8, text=text, tokenizer=Words(), encode=encode,
        )  # fmt: skip
        return found, server


def test_it_counts_what_the_server_served():
    found, server = measure()
    assert found["questions"] == SESSIONS * QUESTIONS * 2 * CONCURRENCY // SESSIONS
    assert found["requests"] == len(server.asked) == len({asked.prompt for asked in server.asked})
    assert server.most_in_flight == CONCURRENCY
    assert found["alone_s"] == pytest.approx(server.served_s / CONCURRENCY, rel=0.1, abs=2e-3)
    assert found["server_s_per_request"] >= 0.04
    percent = 100 * (found["wall_s"] / found["alone_s"] - 1)
    assert found["overhead_percent"] == pytest.approx(percent, abs=2) and percent > 0
    assert 0 < found["cpu_ms_per_request"]


def test_what_the_adapter_does_besides_is_seen():
    """An encoder that is slow by 20 ms of processor time a call, from the second question on."""
    calls = []

    def slow(texts):
        calls.append(len(texts))
        if len(calls) > 2 * SESSIONS:  # not while the dialogues are prepared
            end = time.thread_time() + 0.02
            while time.thread_time() < end:
                pass
        return encode(texts)

    found, _ = measure(slow)
    busy = 1e3 * 0.02 * (len(calls) - 2 * SESSIONS) / found["requests"]
    assert len(calls) > 3 * SESSIONS
    assert found["embedding_ms_per_request"] > 0.9 * busy and found["cpu_ms_per_request"] > 0.9 * busy
