"""Engines that fail in every way, clients that leave, and corrections at the worst moment."""

import json
import socket
from collections import deque

import openai
import pytest

from solarjax.plane.commit import Intent
from tests.plane.front import MODEL, front

USED = {"X-PlaceMem-Capsules": "fact"}


@pytest.fixture
def plane(shared):
    shared.fresh()
    return shared


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with front(tmp_path_factory.mktemp("failures")) as made:
        made.create("fact", "The code is 17. " * 6)
        yield made


def events_of(answer):
    return [line[6:] for line in answer.text.split("\n") if line.startswith("data: ")]


def scripted(plane, *acts):
    for engine in plane.engines:
        engine.script.extend(acts)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("act", ["500", "503", "error first", "hang"])
def test_another_node_is_asked_before_the_first_byte(plane, act, stream):
    if act == "error first" and not stream:
        act = "500"
    if act == "hang" and not stream:
        act = "503"  # an answer that is not a stream may take as long as `answer_seconds`
    script = deque([act])  # one for both: whichever node is asked first fails
    for engine in plane.engines:
        engine.script = script
    if act == "hang":
        plane.limits(first_byte=0.5)
    asked = plane.asking("where?", headers=USED, stream=stream)
    if act == "hang":
        plane.held()
        plane.limits(first_byte=30.0)  # of the next try: it is not about how fast the other one is
    answer, record = asked(), plane.last()
    assert answer.status_code == 200 and record.outcome == "ok" and not script
    assert len(set(record.attempts)) == len(record.attempts) == 2 and record.node == record.attempts[1]
    assert answer.headers["x-placemem-attempts"] == "2" and answer.headers["x-placemem-node"] == record.node


@pytest.mark.parametrize(("act", "status"), [("500", 502), ("503", 503), ("hang", 504)])
def test_when_no_node_answers_there_is_one_error(plane, act, status):
    scripted(plane, act)
    if act == "hang":
        plane.limits(first_byte=0.5)
    answer = plane.ask("x", stream=True)
    assert answer.status_code == status and answer.json()["error"]["code"] == status
    assert plane.last().outcome == "failed" and all(node.in_flight == 0 for node in plane.serving.nodes)
    assert ("retry-after" in answer.headers) == (status == 503)


def test_a_client_error_is_passed_on_and_never_tried_again(plane):
    scripted(plane, "400")
    answer = plane.ask("x", stream=True)
    assert answer.status_code == 400 and answer.json()["error"]["message"] == "scripted 400"
    assert sum(len(engine.seen) for engine in plane.engines) == 1 and plane.last().outcome == "refused"
    assert all(node.breaker_state == "closed" for node in plane.serving.nodes)


@pytest.mark.parametrize("act", ["error later", "cut", "nonsense", "silent"])
def test_a_broken_stream_ends_with_an_error_and_without_done(plane, act):
    scripted(plane, act)
    if act == "silent":
        plane.limits(chunk=0.5)
    answer = plane.ask("x", stream=True)
    events = events_of(answer)
    assert answer.status_code == 200 and "[DONE]" not in events and "error" in json.loads(events[-1])
    assert sum(len(engine.seen) for engine in plane.engines) == 1, "never asked again after the first byte"
    assert plane.last().outcome == "broken"
    scripted(plane, act)
    with pytest.raises(openai.APIError):
        list(plane.client().chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "x"}], stream=True
        ))  # fmt: skip


def test_events_cut_anywhere_arrive_whole(plane):
    scripted(plane, "torn")
    found = plane.client().chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "x"}], stream=True
    )  # fmt: skip
    assert "".join(c.choices[0].delta.content or "" for c in found if c.choices) == "Hello there!"


def test_nothing_is_held_back(plane):
    """The first piece arrives while the engine still waits to say the second."""
    scripted(plane, "pause")
    with plane.client().chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "x"}], stream=True
    ) as stream:
        parts = iter(stream)
        seen = ""
        while not seen:
            seen = next(parts).choices[0].delta.content or ""
        assert seen == "Hello"
        request = plane.held()
        assert not request.released
        request.release()
        rest = "".join(c.choices[0].delta.content or "" for c in parts if c.choices)
    assert rest == " there!"


def test_a_client_that_leaves_before_the_first_byte_stops_the_engine(plane):
    scripted(plane, "hold")
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "x"}]}
    raw = json.dumps(body).encode()
    head = f"Authorization: Bearer {plane.tokens['one']}\r\nX-Request-Id: leaves\r\nContent-Length: {len(raw)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", plane.server.port)) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + head.encode() + raw)
        plane.held()  # not before the engine is at work on it, however long that takes
    assert plane.record("leaves").outcome == "cancelled"
    plane.wait(plane.idle)
    assert sum(engine.cancelled for engine in plane.engines) == 1


def held(plane, stream, headers=USED):
    """A request that an engine holds back; returns how to have its answer, and how to let it go."""
    scripted(plane, "hold")
    answer = plane.asking("code?", headers=headers, stream=stream)
    request = plane.held()
    for engine in plane.engines:
        engine.script.clear()
    return answer, request.release


@pytest.mark.parametrize("stream", [False, True])
def test_a_correction_before_the_first_byte_means_another_admission(plane, stream):
    version = plane.services.catalogue.get("one", "fact").version
    asked, release = held(plane, stream)
    result = plane.correct(f"fact@{version}", f"The code is now {version}." * 4)
    release()
    answer = asked()
    assert answer.status_code == 200 and answer.headers["x-placemem-capsules"] == f"fact@{version + 1}"
    assert int(answer.headers["x-placemem-epoch"]) >= result.epoch
    assert answer.headers["x-placemem-fence"] == "readmitted=1"
    bodies = [body["messages"][0]["content"] for e in plane.engines for body in e.seen]
    assert any(f"[fact v{version}]" in b for b in bodies) and any(f"[fact v{version + 1}]" in b for b in bodies)
    record = plane.last()
    assert record.readmitted == 1 and record.capsules == (f"fact@{version + 1}",) and not record.overlapped


def test_a_request_that_is_overtaken_again_and_again_gets_a_conflict(plane):
    name = plane.create(None, "Version one.").ref.id
    scripted(plane, *["hold"] * 5)
    asked = plane.asking("x", headers={"X-PlaceMem-Capsules": name}, stream=True)
    for version in range(1, 4):
        request = plane.held()
        assert f"[{name} v{version}]" in request.engine.seen[-1]["messages"][0]["content"]
        plane.correct(f"{name}@{version}", f"Version {version}, corrected.")
        request.release()
    answer = asked()
    assert answer.status_code == 409 and "again and again" in answer.json()["error"]["message"]
    record = plane.last()
    assert record.readmitted == 3 and record.fenced_at is None


def test_a_stream_that_a_correction_overlaps_is_reported_and_not_torn(plane):
    version = plane.services.catalogue.get("one", "fact").version
    scripted(plane, "pause")
    asked = plane.asking("code?", headers=USED, stream=True)
    request = plane.held()
    plane.correct(f"fact@{version}", "Corrected while you read.")
    request.release()
    answer = asked()
    assert events_of(answer)[-1] == "[DONE]"
    report = json.loads(next(line for line in answer.text.split("\n") if line.startswith(": placemem "))[11:])
    assert report["overlapped"] == [f"fact@{version}"] == list(plane.last().overlapped)
    assert plane.last().outcome == "ok" and plane.last().fenced_at is not None


def test_a_deleted_capsule_is_gone_also_in_the_middle_of_a_request(plane):
    plane.create("gone", "Soon gone. " * 5)
    asked, release = held(plane, True, {"X-PlaceMem-Capsules": "gone"})
    plane.services.catalogue.delete(Intent("one", "tester"), "gone", erase=True)
    release()
    assert asked().status_code == 404


def test_a_broken_node_is_left_alone_and_then_tried_again(plane):
    first, _ = plane.engines
    first.script.extend(["500"] * 3)
    node = plane.serving.node("a")
    node.latency.curve = node.latency.curve._replace(a=0.0, b=0.0, c=0.0)  # the fastest, so it is asked first
    node.breaker._pause = 3600.0  # until we say so
    for i in range(3):
        assert node.breaker_state == "closed"
        assert plane.ask(f"{i}").status_code == 200 and plane.last().attempts == ("a", "b")
    assert node.breaker_state == "open"
    assert plane.ask("not now").status_code == 200 and plane.last().attempts == ("b",)
    node.breaker._until = node.now()
    assert node.breaker_state == "half_open"
    assert plane.ask("now").status_code == 200 and plane.last().attempts == ("a",)
    assert node.breaker_state == "closed"
