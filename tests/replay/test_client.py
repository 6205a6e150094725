"""The client against a scripted stand-in: every fault ends in a clear error or in the right answer, in bounded time."""

import asyncio
import logging
import random
import time

import pytest

from solarjax.replay import errors, retry
from solarjax.replay.address import Address
from solarjax.replay.client import Client, Sampling
from solarjax.replay.sse import data_events
from tests.replay.stand_in import FAULTS, MODEL, Fault, StandIn, words_of

PROMPT = "alpha beta gamma delta epsilon zeta eta iota"
MESSAGES = [{"role": "user", "content": PROMPT}]
ANSWER = words_of(f"user: {PROMPT}")
BOUND_S = 20.0  # far above what any of these tests needs, far below a hang


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(retry, "BASE_S", 0.002)
    for name in ("SOLARJAX_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def run(body):
    async def bounded():
        async with asyncio.timeout(BOUND_S):
            return await body

    return asyncio.run(bounded())


def ask(server, *, model=MODEL, sampling=None, messages=MESSAGES, **options):
    """One chat, with a client of its own: the completion, or the error as it was raised."""

    async def body():
        async with server:
            async with Client(server.url, model, **options) as client:
                return await client.chat(messages, sampling or Sampling(max_tokens=8))

    return run(body())


def test_an_answer_comes_whole_with_its_measurements():
    server = StandIn(token_s=0.01, prefill_s=0.002)
    first = ask(server)
    assert ANSWER.count(" ") >= 2, "the test needs several pieces"
    assert first.text == ANSWER and first.finish_reason == "stop"
    assert first.prompt_tokens == len(PROMPT.split()) + 1 and first.cached_tokens == 0
    assert first.completion_tokens == len(ANSWER.split()) == len(first.itl_s) + 1
    assert (first.attempts, first.from_cache) == (1, False)
    # Lower limits are what the server slept; upper ones would measure the machine.
    assert first.ttft_s >= 9 * 0.002 + 0.01
    assert all(gap > 0 for gap in first.itl_s) and sum(first.itl_s) >= 0.008 * len(first.itl_s)
    assert first.total_s >= first.ttft_s + sum(first.itl_s)
    sent = server.asked[0].body
    assert sent["messages"] == MESSAGES and sent["stream"] and sent["stream_options"] == {"include_usage": True}
    assert (sent["max_tokens"], sent["temperature"], sent["seed"]) == (8, 0.0, 0) and "stop" not in sent


def test_text_completion_and_a_cut_answer():
    async def body():
        async with StandIn(answer=lambda prompt: "one two three four") as server, Client(server.url, MODEL) as client:
            return await client.complete("count", Sampling(max_tokens=2, stop=("\n",))), server.asked[0]

    completion, asked = run(body())
    assert (completion.text, completion.finish_reason, completion.completion_tokens) == ("one two", "length", 2)
    assert asked.body["prompt"] == "count" and asked.body["stop"] == ["\n"]


def test_cached_tokens_follow_the_prefix():
    shared = " ".join(f"w{i}" for i in range(40))

    async def body():
        async with StandIn() as server, Client(server.url, MODEL) as client:
            return [await client.complete(f"{shared} {tail}", Sampling()) for tail in ("a b c", "d e f")]

    cold, warm = run(body())
    assert (cold.cached_tokens, warm.cached_tokens) == (0, 32)  # 40 shared words hold two whole blocks of 16


@pytest.mark.parametrize("kind", ["empty_chunk", "split", "linger"])
def test_harmless_oddities_change_nothing(kind):
    completion = ask(StandIn(answer=lambda prompt: "naïve 東京 done", faults={0: Fault(kind)}))
    assert (completion.text, completion.attempts) == ("naïve 東京 done", 1)


def test_an_empty_answer_is_an_answer():
    completion = ask(StandIn(answer=lambda prompt: ""))
    assert (completion.text, completion.finish_reason, completion.completion_tokens) == ("", "stop", 0)
    assert completion.itl_s == () and 0 < completion.ttft_s <= completion.total_s


TRANSIENT = [
    (Fault("status", status=500), errors.ServerBroken, "500"),
    (Fault("status", status=502, body=b"<html>bad gateway</html>"), errors.ServerBroken, "bad gateway"),
    (Fault("status", status=503), errors.RateLimited, "not ready"),
    (Fault("status", status=429), errors.RateLimited, "slow down"),
    (Fault("close"), errors.ServerDown, "closed the connection"),
    (Fault("cut"), errors.CutStream, "cut the stream"),
    (Fault("early_done"), errors.CutStream, "before the answer was complete"),
    (Fault("error_object"), errors.ServerBroken, "EngineCore encountered an issue"),
    (Fault("bad_utf8"), errors.MalformedStream, "not UTF-8"),
    (Fault("bad_json"), errors.MalformedStream, "not JSON"),
    (Fault("bad_chunk"), errors.MalformedStream, "unknown kind of chunk"),
]


@pytest.mark.parametrize(("fault", "kind", "said"), TRANSIENT, ids=lambda value: getattr(value, "kind", None))
def test_a_passing_fault_is_survived_and_a_lasting_one_named(fault, kind, said):
    passing = StandIn(faults={0: fault, 1: fault})
    completion = ask(passing, retries=3)
    assert (completion.text, completion.attempts, len(passing.asked)) == (ANSWER, 3, 3)

    lasting = StandIn(faults=lambda number: fault)
    with pytest.raises(kind, match=said) as caught:
        ask(lasting, retries=2)
    assert len(lasting.asked) == 3 and str(caught.value).endswith("(3 tries)")
    assert "\n" not in str(caught.value)


FINAL = [
    (Fault("status", status=400), errors.Refused, "scripted"),
    (Fault("status", status=401), errors.Unauthorized, "SOLARJAX_API_KEY"),
    (Fault("status", status=403), errors.Unauthorized, "403"),
    (Fault("status", status=404, body=b'{"detail": "Not Found"}'), errors.BadResponse, "OpenAI-compatible"),
    (Fault("status", status=302, body=b"moved"), errors.BadResponse, "status 302: moved"),
    (Fault("status", status=413, body=b'{"error": "prompt is too long"}'), errors.ContextTooLong, "too long"),
    (Fault("not_stream"), errors.BadResponse, "application/json"),
    (Fault("no_usage"), errors.BadResponse, "include_usage"),
]


@pytest.mark.parametrize(("fault", "kind", "said"), FINAL, ids=lambda value: getattr(value, "kind", None))
def test_what_cannot_be_mended_is_asked_once(fault, kind, said):
    server = StandIn(faults=lambda number: fault)
    with pytest.raises(kind, match=said):
        ask(server)
    assert len(server.asked) == 1


def test_every_fault_of_the_stand_in_is_tested():
    timed = {"hang", "stall"}
    harmless = {"empty_chunk", "split", "linger"}
    assert {fault.kind for fault, *_ in TRANSIENT + FINAL} | timed | harmless == set(FAULTS)


@pytest.mark.parametrize(("kind", "said"), [("hang", "sent nothing within 0.2 s"), ("stall", "did not finish")])
def test_a_hanging_server_is_left_after_one_more_try(kind, said):
    server = StandIn(faults=lambda number: Fault(kind))
    with pytest.raises(errors.ServerTimeout, match=said):
        ask(server, timeout_s=0.5, first_byte_s=0.2)
    assert len(server.asked) == 2


def test_a_first_token_may_take_as_long_as_the_whole_answer(monkeypatch):
    """The body begins after the server's queue and the prompt; a limit above a minute must hold for these too."""
    limits, timeout = [], asyncio.timeout

    def noted(seconds):
        limits.append(seconds)
        return timeout(seconds)

    monkeypatch.setattr(asyncio, "timeout", noted)
    ask(StandIn(), timeout_s=300.0)
    assert 300.0 in limits and 60.0 not in limits


def test_the_first_byte_limit_ends_with_the_first_byte():
    """An answer that takes longer than `first_byte_s` in all is none too slow."""
    completion = ask(StandIn(answer=lambda prompt: "a b c d", token_s=0.15), first_byte_s=0.3, timeout_s=10.0)
    assert completion.text == "a b c d" and completion.total_s > 0.3


def test_nobody_listens():
    with pytest.raises(
        errors.ServerDown, match=r"nothing answers at http://127.0.0.1:9 .*is the server running.*3 tries"
    ):

        async def body():
            async with Client("http://127.0.0.1:9", MODEL, retries=2) as client:
                await client.check()

        run(body())


def test_a_server_that_dies_midway_and_comes_back():
    """Requests in flight fail with the server; the same calls succeed once another one listens at the address."""

    async def body():
        first = StandIn(answer=lambda prompt: "a b c d e", token_s=0.05)
        await first.__aenter__()
        async with Client(first.url, MODEL, retries=60, seed=1) as client:
            calls = [asyncio.create_task(client.complete(f"question {i}", Sampling())) for i in range(4)]
            while len(first.asked) < 4:
                await asyncio.sleep(0.005)
            await first.__aexit__()
            with pytest.raises(errors.ServerDown):
                async with Client(first.url, MODEL, retries=0) as impatient:
                    await impatient.complete("anyone?", Sampling())
            async with StandIn(answer=lambda prompt: prompt, port=first.port):
                return await asyncio.gather(*calls)

    answers = run(body())
    assert [answer.text for answer in answers] == [f"question {i}" for i in range(4)]
    assert all(answer.attempts > 1 for answer in answers)


def test_wrong_model_lists_what_is_served():
    with pytest.raises(errors.ModelNotFound, match=f"serve the model 'gpt'; it serves '{MODEL}'"):
        ask(StandIn(), model="gpt")

    async def body():
        async with StandIn() as server, Client(server.url, "gpt") as client:
            assert await client.models() == [MODEL]
            await client.check()

    with pytest.raises(errors.ModelNotFound, match=MODEL):
        run(body())


def test_check_and_version():
    async def body():
        async with StandIn() as server, Client(server.url + "/v1/", MODEL) as client:
            return await client.check()

    assert run(body()) == "stand-in 1"


def test_context_too_long():
    with pytest.raises(errors.ContextTooLong, match="maximum context length is 5 tokens"):
        ask(StandIn(context=5))


def test_in_flight_requests_are_bounded_and_order_is_kept():
    async def body():
        async with StandIn(token_s=0.002) as server, Client(server.url, MODEL, concurrency=3) as client:
            answers = await asyncio.gather(*(client.complete(f"p {i}", Sampling()) for i in range(20)))
            return server, answers

    server, answers = run(body())
    assert server.most_in_flight == 3
    assert [asked.prompt for asked in server.asked] == [f"p {i}" for i in range(20)]
    assert [answer.text for answer in answers] == [words_of(f"p {i}") for i in range(20)]
    assert server.connections == 3, "connections are used again"


def test_a_cancelled_request_gives_its_slot_back():
    async def body():
        server = StandIn(faults={0: Fault("hang")})
        async with server, Client(server.url, MODEL, concurrency=1) as client:
            stuck = asyncio.create_task(client.complete("one", Sampling()))
            while not server.asked:
                await asyncio.sleep(0.005)
            waiting = asyncio.create_task(client.complete("two", Sampling()))
            stuck.cancel()
            return await waiting

    assert run(body()).text == words_of("two")


def test_retry_after_holds_everyone_back():
    """The server's wish is a minimum, for the request that was refused and for those that come after it."""

    async def body():
        server = StandIn(faults={0: Fault("status", status=429, retry_after="0.4")})
        async with server, Client(server.url, MODEL, concurrency=2) as client:
            began = time.monotonic()
            refused = asyncio.create_task(client.complete("one", Sampling()))
            while not server.asked:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.1)
            later = await client.complete("two", Sampling())
            seconds = time.monotonic() - began
            return later, await refused, seconds

    later, refused, seconds = run(body())
    assert seconds >= 0.4 and (later.attempts, refused.attempts) == (1, 2)


def test_the_key_is_sent_and_shown_nowhere(monkeypatch, caplog):
    secret = "sk-very-secret-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    monkeypatch.setenv("SOLARJAX_API_KEY", f" {secret}\n")
    caplog.set_level(logging.DEBUG)
    server = StandIn(key=secret)
    assert ask(server).text == ANSWER
    assert server.asked[0].headers["authorization"] == f"Bearer {secret}"

    monkeypatch.delenv("SOLARJAX_API_KEY")
    with pytest.raises(errors.Unauthorized, match="Incorrect API key provided") as caught:  # the stand-in echoes it
        ask(StandIn(key=secret))
    client = Client("http://127.0.0.1:1", MODEL, api_key=secret)
    shown = f"{caught.value} {caught.value!r} {client!r} {client.__dict__['_transport']!r} {caplog.text}"
    assert "sk-" not in shown and "[key]" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency is 0"),
        ({"retries": -1}, "retries is -1"),
        ({"timeout_s": 0}, "timeout_s is 0"),
        ({"first_byte_s": float("nan")}, "first_byte_s is nan"),
        ({"api_key": "naïve"}, "characters that a header cannot carry"),
        ({"base_url": "localhost:8000"}, "'localhost:8000' is not an http"),
        ({"base_url": "http://user:hunter2@host"}, "holds a user or password"),
        ({"base_url": "http://host:port"}, "is not a URL"),
        ({"base_url": "http://host/v1?key=1"}, "query"),
        ({"model": ""}, "name of the model is empty"),
    ],
)
def test_bad_arguments_are_named(options, said):
    given = {"base_url": "http://host", "model": MODEL} | options
    with pytest.raises(errors.BadOption, match=said) as caught:
        Client(given.pop("base_url"), given.pop("model"), **given)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"temperature": -1.0}, {"stop": "text"}, {"stop": ("",)}])
def test_bad_sampling_is_named(options):
    with pytest.raises(errors.BadOption, match=next(iter(options))):
        Sampling(**options)


def test_empty_prompts_and_closed_clients():
    client = Client("http://127.0.0.1:1", MODEL)
    with pytest.raises(errors.BadOption, match="messages is empty"):
        run(client.chat([], Sampling()))
    with pytest.raises(errors.BadOption, match="prompt is empty"):
        run(client.complete("", Sampling()))
    with pytest.raises(errors.BadOption, match="async with"):
        run(client.complete("x", Sampling()))


@pytest.mark.parametrize("url", ["http://h:8000", "http://h:8000/", "http://h:8000/v1", " http://h:8000/v1/ "])
def test_addresses_are_taken_as_typed(url):
    address = Address.parse(url)
    assert (address.api("models"), address.root("health")) == ("http://h:8000/v1/models", "http://h:8000/health")


def test_backoff_grows_stays_in_its_bounds_and_honours_the_server():
    draw, error = random.Random(0), errors.ServerDown("x")
    for failures in range(1, 20):
        bound = min(retry.CAP_S, retry.BASE_S * 2 ** (failures - 1))
        waits = [retry.wait_s(failures, error, draw) for _ in range(200)]
        assert bound / 10 <= min(waits) and max(waits) <= bound and len(set(waits)) > 100
    asked = errors.RateLimited("x", retry_after_s=3.0)
    assert all(3.0 < retry.wait_s(1, asked, draw) <= 3.0 + retry.BASE_S for _ in range(50))
    assert retry.wait_s(1, errors.RateLimited("x", retry_after_s=1e9), draw) < retry.MAX_RETRY_AFTER_S + 1


def test_retry_after_is_read_in_both_forms():
    assert [retry.parse_retry_after(text) for text in ("7", " 1.5 ", None, "soon", "-3")] == [
        7.0,
        1.5,
        None,
        None,
        None,
    ]
    assert retry.parse_retry_after("Mon, 01 Jan 2001 00:00:00 GMT") == 0.0
    assert retry.parse_retry_after("Fri, 01 Jan 2100 00:00:00 GMT") > 1e9


def test_events_survive_any_cut():
    """Every way of cutting a stream in two gives the same events; an unfinished one is not delivered."""
    stream = 'data: {"a": "é"}\r\n\r\n: note\ndata: two\ndata: lines\n\ndata:\n\ndata: lost'.encode()

    async def read(parts):
        async def chunks():
            for part in parts:
                yield part

        return [event async for event in data_events(chunks())]

    for at in range(len(stream) + 1):
        assert asyncio.run(read([stream[:at], stream[at:]])) == ['{"a": "é"}', "two\nlines"]


def test_an_endless_event_is_refused(monkeypatch):
    from solarjax.replay import sse

    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)

    async def read(chunk):
        async def chunks():
            while True:
                yield chunk

        return [event async for event in data_events(chunks())]

    for chunk in (b"x" * 100, b"data: " + b"x" * 100 + b"\n"):
        with pytest.raises(errors.MalformedStream, match="more than 1000 bytes"):
            asyncio.run(read(chunk))
