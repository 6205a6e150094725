"""Engines whose answers are not what their protocol says: whose fault it is, and what the client still gets."""

import json

import pytest
from starlette.responses import Response
from starlette.routing import request_response

from solarjax.plane.commit import Intent
from tests.plane.front import front
from tests.plane.helpers import draft


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with front(tmp_path_factory.mktemp("answers")) as made:
        made.create("fact", "The code is 17. " * 6)
        yield made


@pytest.fixture
def plane(shared):
    shared.fresh()
    return shared


def answering(monkeypatch, engine, raw):
    """From now on an engine answers with these bytes."""

    async def generate(request):
        engine.seen.append(await request.json())
        kind = "text/event-stream" if engine.seen[-1].get("stream") else "application/json"
        return Response(raw, media_type=kind)

    for route in engine.server.server.config.app.routes:
        if route.path.endswith("completions"):
            monkeypatch.setattr(route, "app", request_response(generate))


NOT_ANSWERS = [b"<html>Bad gateway</html>", b"[1]", b"", b"\xff\xfe", b'{"choices": [', b"null"]


@pytest.mark.parametrize("raw", NOT_ANSWERS)
def test_a_whole_answer_that_is_not_one_is_the_engines_fault(plane, monkeypatch, raw):
    for engine in plane.engines:
        answering(monkeypatch, engine, raw)
    answer = plane.ask("x")
    assert answer.status_code == 502 and answer.json()["error"]["type"] == "upstream"
    assert plane.last().outcome == "failed" and [len(e.seen) for e in plane.engines] == [1, 1]
    assert all(node.breaker._failures == 1 for node in plane.serving.nodes), "it counts against both"


def test_another_node_is_asked_when_a_whole_answer_is_not_one(plane, monkeypatch):
    answering(monkeypatch, plane.engines[0], b"oops")
    node = plane.serving.node("a")
    free = node.latency.curve._replace(a=0.0, b=0.0, c=0.0)
    monkeypatch.setattr(node.latency, "curve", free)  # the fastest, so it is asked first
    answer = plane.ask("x")
    record = plane.last()
    assert answer.status_code == 200 and record.attempts == ("a", "b") and record.outcome == "ok"


ODD = ["many", [3], {"n": 1}, True, -5, 1.5, 1e308, None, 10**30]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["completion_tokens", "prompt_tokens", "cached_tokens"])
def test_odd_usage_breaks_no_stream(plane, monkeypatch, odd, name):
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}}
    (usage["prompt_tokens_details"] if name == "cached_tokens" else usage)[name] = odd
    events = [{"choices": [{"index": 0, "delta": {"content": "Hi"}}]}, {"choices": [], "usage": usage}, "[DONE]"]
    said = "".join(f"data: {e if isinstance(e, str) else json.dumps(e)}\n\n" for e in events).encode()
    for engine in plane.engines:
        answering(monkeypatch, engine, said)
    answer = plane.ask("x", stream=True)
    assert answer.status_code == 200 and answer.text.endswith("data: [DONE]\n\n")
    record = plane.last()
    assert record.outcome == "ok"
    assert all(value is None or (type(value) is int and value >= 0) for value in (record.cached, record.prompt_tokens))
    curves = [n.latency.curve for n in plane.serving.nodes]
    assert all(0 <= x < 1e6 for curve in curves for x in curve), "no nonsense is learnt"


@pytest.mark.parametrize(
    "choices",
    [{"0": {"text": "x"}}, "text", 3, [[]], ["x"], [{"message": "x"}], [{"message": {"content": [1]}}], [{"text": 7}]],
)
def test_odd_choices_are_passed_on_as_they_are(plane, monkeypatch, caplog, choices):
    raw = json.dumps({"choices": choices}).encode()
    for engine in plane.engines:
        answering(monkeypatch, engine, raw)
    answer = plane.ask("x", headers={"X-PlaceMem-Writeback": "odd"})
    assert answer.status_code == 200 and answer.content == raw
    assert plane.last().outcome == "ok"
    assert plane.get("/capsules/odd").status_code == 404 and not caplog.records, "nothing to write back, no crash"


def test_what_a_large_cascade_ended_is_resident_nowhere(plane):
    for engine in plane.engines:
        engine.capacity = 10_000
    plane.create("root", "The root. " * 12)
    intent = Intent("one", "tester")
    names = [f"d{i:03}" for i in range(120)]
    for name in names:
        plane.services.catalogue.create(intent, draft(name, f"Derived, {name}. " * 6, "root@1"))
    for begin in range(0, 120, 10):
        chosen = ",".join(names[begin : begin + 10])
        assert plane.ask("x", headers={"X-PlaceMem-Capsules": chosen}).status_code == 200
    plane.caught_up()

    def shown():
        return {ref for node in plane.get("/nodes").json() for ref in node["resident_capsules"] if ref[0] == "d"}

    known = len([key for key in plane.serving.experience._kinds if key[1][0] == "d"])
    assert len(shown()) > 110 and known == 120
    assert plane.correct("root@1", "Another root.").ended == 121
    assert shown() == set()
    assert [key for key in plane.serving.experience._kinds if key[1][0] == "d"] == []
