"""The response cache: nothing asked twice, nothing lost, errors in words."""

import asyncio
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest

from solarjax.replay.client import Client
from solarjax.replay.completion import Completion, Sampling
from solarjax.replay.errors import CacheFailed, ServerBroken
from solarjax.replay.response_cache import ResponseCache, request_key
from tests.replay.stand_in import MODEL, Fault, StandIn, words_of

ANSWER = Completion("naïve\n東京", "stop", 10, None, 3, 0.1, (0.01, 0.02), 0.2, 2, False)
MESSAGES = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "answers.sqlite"


def test_an_answer_comes_back_as_it_was(path):
    with ResponseCache(path) as cache:
        assert cache.get("k") is None and len(cache) == 0
        assert cache.put("k", "m", ANSWER) == ANSWER
    with ResponseCache(path) as cache:
        assert cache.get("k") == replace(ANSWER, from_cache=True) and len(cache) == 1


def test_the_first_answer_stays(path):
    with ResponseCache(path) as one, ResponseCache(path) as other:
        one.put("k", "m", ANSWER)
        assert other.put("k", "m", replace(ANSWER, text="another")).text == ANSWER.text
        assert one.get("k").text == ANSWER.text


def test_the_key_is_the_sha256_of_all_that_is_asked():
    key = request_key("m", MESSAGES, Sampling())
    text = (
        '{"model":"m","prompt":{"messages":[{"content":"hi","role":"user"}]},'
        '"sampling":{"max_tokens":32,"seed":0,"stop":[],"temperature":0.0}}'
    )
    assert key == hashlib.sha256(text.encode()).hexdigest()
    others = [
        request_key("n", MESSAGES, Sampling()),
        request_key("m", {"messages": [{"role": "system", "content": "hi"}]}, Sampling()),
        request_key("m", {"prompt": "hi"}, Sampling()),
        *(
            request_key("m", MESSAGES, sampling)
            for sampling in (Sampling(33), Sampling(32, 0.5), Sampling(32, 0.0, 1), Sampling(32, 0.0, 0, ("x",)))
        ),
    ]
    assert len({key, *others}) == len(others) + 1
    assert request_key("m", {"messages": [{"content": "hi", "role": "user"}]}, Sampling()) == key


def together(path, faults=(), calls=5):
    """`calls` equal questions at once, and a different one: (answers or errors, server)."""

    async def body():
        server = StandIn(faults=dict(faults), token_s=0.005)
        with ResponseCache(path) as cache:
            async with server, Client(server.url, MODEL, cache=cache, retries=0) as client:
                prompts = ["same question"] * calls + ["another one"]
                asked = (client.complete(prompt, Sampling()) for prompt in prompts)
                return await asyncio.gather(*asked, return_exceptions=True), server

    return asyncio.run(body())


def test_equal_questions_in_flight_are_asked_once_and_never_again(path):
    answers, server = together(path)
    assert [asked.prompt for asked in server.asked] == ["same question", "another one"]
    assert [answer.text for answer in answers] == [words_of("same question")] * 5 + [words_of("another one")]
    assert [answer.from_cache for answer in answers] == [False, True, True, True, True, False]
    later, server = together(path)
    assert not server.asked
    assert [answer.text for answer in later] == [answer.text for answer in answers]
    assert all(answer.from_cache and answer.ttft_s == answers[0].ttft_s for answer in later[:5])


def test_a_failed_question_fails_for_all_who_wait_and_is_asked_again_later(path):
    answers, server = together(path, faults={0: Fault("status")})
    assert len(server.asked) == 2 and [type(answer) for answer in answers[:5]] == [ServerBroken] * 5
    assert answers[5].text == words_of("another one")
    again, server = together(path)
    assert [asked.prompt for asked in server.asked] == ["same question"]
    assert {answer.text for answer in again[:5]} == {words_of("same question")}


def test_when_the_one_who_asks_is_cancelled_another_asks(path):
    async def body():
        async with StandIn(faults={0: Fault("hang")}) as server:
            with ResponseCache(path) as cache:
                async with Client(server.url, MODEL, cache=cache) as client:
                    first = asyncio.create_task(client.complete("q", Sampling()))
                    while not server.asked:
                        await asyncio.sleep(0.005)
                    others = [asyncio.create_task(client.complete("q", Sampling())) for _ in range(3)]
                    await asyncio.sleep(0.02)
                    others[0].cancel()  # one that waits gives up: no matter
                    first.cancel()
                    return await asyncio.gather(first, *others, return_exceptions=True), len(server.asked)

    (first, gone, *others), asked = asyncio.run(body())
    assert isinstance(first, asyncio.CancelledError) and isinstance(gone, asyncio.CancelledError)
    assert [answer.text for answer in others] == [words_of("q")] * 2 and asked == 2


def fill(cache, start, stop):
    for i in range(start, stop):
        cache.put(f"k{i}", "m", replace(ANSWER, text="x" * 2000))


def test_a_full_disk_is_named_and_loses_nothing(path):
    """SQLite reports a full disk in the same way as a database that has reached its largest size."""
    with ResponseCache(path) as cache:
        fill(cache, 0, 10)
        pages = cache._db.execute("PRAGMA page_count").fetchone()[0]
        cache._db.execute(f"PRAGMA max_page_count = {pages + 4}")
        with pytest.raises(CacheFailed, match="is full; free some space and start again; the answers stored"):
            fill(cache, 10, 100)
        stored = len(cache)
        assert 10 <= stored < 100
        assert all(cache.get(f"k{i}").text == "x" * 2000 for i in range(stored))
    with ResponseCache(path) as cache:  # with space again
        assert len(cache) == stored
        fill(cache, 0, 100)
        assert len(cache) == 100


def test_a_refused_write_of_the_system_is_named_and_loses_nothing(path):
    """A real failing write: the kernel limits the size of this process's files to 64 KiB."""
    code = (
        "import resource, signal, sys; from dataclasses import replace\n"
        "from solarjax.replay.errors import CacheFailed\n"
        "from solarjax.replay.response_cache import ResponseCache\n"
        "from tests.replay.test_response_cache import fill\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "cache = ResponseCache(sys.argv[1]); fill(cache, 0, 5)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
        "try: fill(cache, 5, 200)\n"
        "except CacheFailed as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert "could not be written" in done.stdout and "answers stored before are kept" in done.stdout
    with ResponseCache(path) as cache:
        assert 5 <= len(cache) < 200
        assert all(cache.get(f"k{i}").text == "x" * 2000 for i in range(len(cache)))
        assert cache._db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_killed_while_writing(path):
    """After SIGKILL every answer that was acknowledged is there, whole."""
    code = (
        "import sys; from tests.replay.test_response_cache import fill\n"
        "from solarjax.replay.response_cache import ResponseCache\n"
        "cache = ResponseCache(sys.argv[1])\n"
        "for i in range(10**6): fill(cache, i, i + 1); print(i, flush=True)\n"
    )
    for kill_at in (3, 40):
        with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if int(line) >= kill_at:
                    process.send_signal(signal.SIGKILL)
                    break
            said = [int(line) for line in process.stdout.read().split("\n")[:-1]]
        last = max([kill_at, *said])
        with ResponseCache(path) as cache:
            assert all(cache.get(f"k{i}").text == "x" * 2000 for i in range(last + 1))
            assert cache._db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_other_files_are_refused_and_left_alone(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("these are my notes, and no database at all; " * 40)
    with pytest.raises(CacheFailed, match=r"notes.txt cannot be used as a response cache: file is not a database"):
        ResponseCache(text)
    assert text.read_text().startswith("these are my notes")

    foreign = tmp_path / "other.db"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    with pytest.raises(CacheFailed, match="another program's database"):
        ResponseCache(foreign)

    newer = tmp_path / "newer.db"
    ResponseCache(newer).close()
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    with pytest.raises(CacheFailed, match="format 7, this is 1"):
        ResponseCache(newer)
    with pytest.raises(CacheFailed, match="cannot be opened"):
        ResponseCache(tmp_path / "notes.txt" / "below")


def test_a_damaged_answer_is_named(path):
    with ResponseCache(path) as cache:
        cache.put("k", "m", ANSWER)
        for damaged in ("{", json.dumps({"text": "x"}), "[]"):
            cache._db.execute("UPDATE answer SET completion = ?", (damaged,))
            with pytest.raises(CacheFailed, match="answer k is damaged"):
                cache.get("k")


def test_prompts_and_keys_are_not_stored(path):
    async def body():
        async with StandIn(answer=lambda prompt: "fine", key="sk-0123456789") as server:
            with ResponseCache(path) as cache:
                async with Client(server.url, MODEL, cache=cache, api_key="sk-0123456789") as client:
                    assert (await client.complete("my private words", Sampling())).text == "fine"

    asyncio.run(body())
    held = b"".join(entry.read_bytes() for entry in path.parent.iterdir())
    assert b"fine" in held and b"private" not in held and b"sk-0" not in held
    assert os.path.exists(path)
