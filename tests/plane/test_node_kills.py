"""Engines killed behind the whole plane: before a connection, before the first byte, after it, and back again."""

import json

import pytest

from solarjax.plane.placement import nodes
from tests.plane.front import MODEL, front
from tests.plane.http import bearer
from tests.plane.process import Process

USED = {"X-PlaceMem-Capsules": "fact"}
BODY = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "where?"}]}


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines")
    made = [Process(folder, name) for name in "ab"]
    for engine in made:
        engine.start()
    yield made
    for engine in made:
        engine.kill()


@pytest.fixture(scope="module")
def shared(engines, tmp_path_factory):
    # What one node holds must not outweigh that the other is faster.
    with front(tmp_path_factory.mktemp("plane"), engines=0, others=engines, weights={"reuse": 0.0}) as made:
        made.create("fact", "The code is 17. " * 6)
        node = made.serving.node("a")
        node.latency.curve = node.latency.curve._replace(a=0.0, b=0.0, c=0.0)  # the fastest, so it is asked first
        yield made


@pytest.fixture
def plane(shared):
    back(shared)
    for node in shared.serving.nodes:
        node.breaker.succeeded()
    return shared


def back(plane):
    """Until both nodes are served and known, as if nothing had happened."""
    plane.settle()
    plane.wait(plane.idle)


def restarted(engine, plane, *acts):
    """Another process at the same address; returns when the plane has seen that it is another."""
    before = plane.serving.node(engine.name).sample.incarnation
    engine.kill()
    engine.start(*acts)
    plane.wait(lambda: plane.serving.node(engine.name).sample.incarnation != before)
    back(plane)


def shown(plane, name="a"):
    return next(node for node in plane.get("/nodes").json() if node["name"] == name)


@pytest.mark.parametrize("stream", [False, True])
def test_a_node_killed_before_the_first_byte_is_replaced(plane, engines, stream):
    restarted(engines[0], plane, "hold")
    asked = plane.asking("where?", headers=USED, stream=stream)
    engines[0].until_held()
    engines[0].kill()
    answer, record = asked(), plane.last()
    assert answer.status_code == 200 and answer.headers["x-placemem-attempts"] == "2"
    assert ("[DONE]" in answer.text) == stream and "Hello" in answer.text
    assert (record.attempts, record.node, record.outcome) == (("a", "b"), "b", "ok")
    assert plane.serving.node("a").breaker._failures == 1
    engines[0].start()


def test_a_stream_whose_node_is_killed_ends_with_an_error_and_is_asked_for_nowhere_else(plane, engines):
    restarted(engines[0], plane, "pause")
    headers = bearer(plane.tokens["one"], **USED, **{"X-Request-Id": "killed"})
    with plane.http.stream("POST", "/v1/chat/completions", json=BODY, headers=headers) as answer:
        lines = answer.iter_lines()
        begun = next(line for line in lines if "Hello" in line)
        engines[0].kill()
        rest = [line[6:] for line in lines if line.startswith("data: ")]
    assert begun and answer.status_code == 200 and "[DONE]" not in rest
    assert json.loads(rest[-1])["error"]["code"] == 502
    record = plane.record("killed")
    assert (record.attempts, record.outcome, record.status) == (("a",), "broken", 200)
    node = plane.serving.node("a")
    assert node.breaker._failures == 1 and node.in_flight == 0
    plane.wait(lambda: node.health != "up" and not node.log.known)
    assert not shown(plane)["residency_known"] and shown(plane)["health"] in ("suspect", "down")
    engines[0].start()


def test_a_node_that_refuses_connections_is_replaced_and_then_not_asked(plane, engines, monkeypatch):
    node = plane.serving.node("a")
    engines[0].kill()
    with monkeypatch.context() as patched:
        patched.setattr(nodes, "DOWN_SECONDS", 3600.0)  # it is not given up before it was asked
        assert plane.ask("where?", headers=USED).status_code == 200
        assert plane.last().attempts == ("a", "b") and node.breaker._failures == 1
    plane.wait(lambda: node.health == "down" and not node.usable)
    assert plane.ask("where?", headers=USED).status_code == 200 and plane.last().attempts == ("b",)
    engines[0].start()
    plane.wait(lambda: node.health == "up")
    assert plane.ask("where?", headers=USED).status_code == 200 and plane.last().attempts == ("a",)


def test_a_node_that_comes_back_holds_nothing_until_it_has_computed_it_again(plane, engines):
    node = plane.serving.node("a")

    def ask(question):
        assert plane.ask(question, headers=USED, stream=True).status_code == 200
        record = plane.last()
        assert record.node == "a" and record.predicted == record.cached, (question, record)
        plane.wait(lambda: node.log.known and (node.resident_blocks(chain(plane, node)) or 0) > 0)
        return record.cached

    restarted(engines[0], plane)
    first = [ask("one?"), ask("two?")]
    assert first[0] == 0 and first[1] > 0 and shown(plane)["resident_capsules"] == ["fact@1"]
    engines[0].kill()
    plane.wait(lambda: not node.log.known)
    assert shown(plane)["resident_capsules"] == []
    engines[0].start()

    def nothing_until_up():
        assert shown(plane)["resident_capsules"] == [] and not node.resident_blocks(chain(plane, node))
        return node.health == "up" and node.log.known

    plane.wait(nothing_until_up)
    assert len(node.log.index) == 0 and [ask("three?"), ask("four?")] == first


def chain(plane, node):
    """Names of the blocks that the capsule's own prompt begins with."""
    names = [name for kept in node.hasher()._latest.values() for name in kept.names]
    assert names, "nothing was asked yet"
    return names[:1]
