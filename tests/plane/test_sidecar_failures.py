"""Engines that fail in every way, clients that leave, and corrections at the worst moment."""

import json
import threading
from collections import deque

import openai
import pytest

from tests.plane.front import MODEL, front

USED = {"X-PlaceMem-Capsules": "fact"}


@pytest.fixture
def plane(shared):
    for engine in shared.engines:
        engine.script = deque()
        engine.seen.clear()
        engine.hold.clear()
        engine.release.clear()
        engine.cancelled = 0
    for node in shared.serving.nodes:
        node.breaker.succeeded()
        node._failed = False
    return shared


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with front(tmp_path_factory.mktemp("failures"), connect_seconds=0.5) as made:
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
    answer = plane.ask("where?", headers=USED, stream=stream)
    record = plane.last()
    assert answer.status_code == 200 and record.outcome == "ok" and not script
    assert len(set(record.attempts)) == len(record.attempts) == 2 and record.node == record.attempts[1]
    assert answer.headers["x-placemem-attempts"] == "2" and answer.headers["x-placemem-node"] == record.node


@pytest.mark.parametrize(("act", "status"), [("500", 502), ("503", 503), ("hang", 504)])
def test_when_no_node_answers_there_is_one_error(plane, act, status):
    scripted(plane, act)
    answer = plane.ask("x", stream=True)
    assert answer.status_code == status and answer.json()["error"]["code"] == status
    assert plane.last_by(status).outcome == "failed" and all(node.in_flight == 0 for node in plane.serving.nodes)
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
        assert all(not engine.release.is_set() for engine in plane.engines)
        for engine in plane.engines:
            engine.release.set()
        rest = "".join(c.choices[0].delta.content or "" for c in parts if c.choices)
    assert rest == " there!"


def test_a_client_that_leaves_before_the_first_byte_stops_the_engine(plane):
    scripted(plane, "hold")
    client = plane.client()
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.4).chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "x"}], stream=True
        )
    plane.wait(lambda: sum(engine.cancelled for engine in plane.engines) == 1)
    plane.wait(lambda: plane.serving.in_flight == 0 and all(n.in_flight == 0 for n in plane.serving.nodes))
    assert plane.serving.records.latest("one", 1)[0].outcome == "cancelled"


def held(plane, stream, headers=USED):
    """A request that an engine holds back; returns the thread, the answers, and the engine."""
    scripted(plane, "hold")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(plane.ask("code?", headers=headers, stream=stream)))
    thread.start()
    plane.wait(lambda: any(engine.hold.is_set() for engine in plane.engines))
    engine = next(engine for engine in plane.engines if engine.hold.is_set())
    for other in plane.engines:
        if other is not engine:
            other.script.clear()
    return thread, answers, engine


@pytest.mark.parametrize("stream", [False, True])
def test_a_correction_before_the_first_byte_means_another_admission(plane, stream):
    version = plane.services.catalogue.get("one", "fact").version
    thread, answers, engine = held(plane, stream)
    result = plane.correct(f"fact@{version}", f"The code is now {version}." * 4)
    engine.release.set()
    thread.join(timeout=30)
    (answer,) = answers
    assert answer.status_code == 200 and answer.headers["x-placemem-capsules"] == f"fact@{version + 1}"
    assert int(answer.headers["x-placemem-epoch"]) >= result.epoch
    assert answer.headers["x-placemem-fence"] == "readmitted=1"
    bodies = [body["messages"][0]["content"] for e in plane.engines for body in e.seen]
    assert any(f"[fact v{version}]" in b for b in bodies) and any(f"[fact v{version + 1}]" in b for b in bodies)
    record = plane.last()
    assert record.readmitted == 1 and record.capsules == (f"fact@{version + 1}",) and not record.overlapped


def test_a_request_that_is_overtaken_again_and_again_gets_a_conflict(plane):
    plane.create("hot", "Version one.")
    scripted(plane, *["hold"] * 5)
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(plane.ask("x", headers={"X-PlaceMem-Capsules": "hot"}, stream=True))
    )
    thread.start()
    for version in range(1, 4):
        plane.wait(lambda: any(engine.hold.is_set() for engine in plane.engines))
        engine = next(engine for engine in plane.engines if engine.hold.is_set())
        plane.correct(f"hot@{version}", f"Version {version}, corrected.")
        engine.hold.clear()
        engine.release.set()
    thread.join(timeout=30)
    assert answers[0].status_code == 409 and "again and again" in answers[0].json()["error"]["message"]
    record = plane.last_by(409)
    assert record.readmitted == 3 and record.fenced_at is None


def test_a_stream_that_a_correction_overlaps_is_reported_and_not_torn(plane):
    version = plane.services.catalogue.get("one", "fact").version
    scripted(plane, "pause")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(plane.ask("code?", headers=USED, stream=True)))
    thread.start()
    plane.wait(lambda: any(engine.hold.is_set() for engine in plane.engines))
    plane.correct(f"fact@{version}", "Corrected while you read.")
    for engine in plane.engines:
        engine.release.set()
    thread.join(timeout=30)
    (answer,) = answers
    assert events_of(answer)[-1] == "[DONE]"
    report = json.loads(next(line for line in answer.text.split("\n") if line.startswith(": placemem "))[11:])
    assert report["overlapped"] == [f"fact@{version}"] == list(plane.last().overlapped)
    assert plane.last().outcome == "ok" and plane.last().fenced_at is not None


def test_a_deleted_capsule_is_gone_also_in_the_middle_of_a_request(plane):
    plane.create("gone", "Soon gone. " * 5)
    thread, answers, engine = held(plane, True, {"X-PlaceMem-Capsules": "gone"})
    from solarjax.plane.commit import Intent

    plane.services.catalogue.delete(Intent("one", "tester"), "gone", erase=True)
    engine.release.set()
    thread.join(timeout=30)
    assert answers[0].status_code == 404


def test_a_broken_node_is_left_alone_and_then_tried_again(plane):
    first, second = plane.engines
    first.script.extend(["500"] * 3)
    second.script.clear()
    node = plane.serving.node("a")
    for i in range(12):
        assert plane.ask(f"{i}", headers={"X-PlaceMem-Session": f"s{i}"}).status_code == 200
        if node.breaker_state != "closed":
            break
        node.latency.curve = node.latency.curve._replace(a=0.0, b=0.0, c=0.0)  # the fastest, so it is asked first
    assert node.breaker_state == "open"
    before = len(first.seen)
    assert plane.ask("not now").status_code == 200 and len(first.seen) == before
    plane.wait(lambda: node.breaker_state == "half_open")
    assert plane.ask("now").status_code == 200 and plane.ask("now").status_code == 200
    plane.wait(lambda: node.breaker_state == "closed")
