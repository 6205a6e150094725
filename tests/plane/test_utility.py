"""The utility's terms, the rules that choose, and the order of capsules in a prompt."""

import itertools
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solarjax.plane.placement import layout
from solarjax.plane.placement.config import Weights
from solarjax.plane.placement.experience import Experience
from solarjax.plane.placement.latency import Curve
from solarjax.plane.placement.routing import Key, Router
from solarjax.plane.placement.utility import terms
from tests.plane.helpers import ref

FAST, SLOW = Curve(50.0, 0.5, 1e-4), Curve(80.0, 1.0, 2e-4)


def made(node="a", curve=FAST, fastest=None, weights=None, mode="kv", **changes):
    given = {"prompt_tokens": 1000, "capsule_tokens": 800, "cached_tokens": 0, "p_reuse": 0.0, "p_stale": 0.0,
             "relevance": 0.0, "queue_ms": 0.0, **changes}  # fmt: skip
    return terms(node=node, mode=mode, curve=curve, measured=True, fastest=fastest or {"a": FAST, "b": SLOW},
                 weights=weights or Weights(), **given)  # fmt: skip


def test_each_term_is_what_its_definition_says():
    found = made(cached_tokens=600, p_reuse=0.25, p_stale=0.1, relevance=0.02, queue_ms=30.0)
    whole, part = 50 + 500 + 100, 50 + 200 + 16
    assert found.saved_ms == pytest.approx(whole - part) and found.ttft_ms == pytest.approx(part)
    assert found.reuse_ms == pytest.approx(0.25 * (0.5 * 800 + 1e-4 * 800**2))
    assert found.stale_ms == pytest.approx(0.1 * part) and found.semantic_ms == pytest.approx(2.0)
    assert found.remote_ms == 0.0 and found.load_ms == 30.0
    expected = found.reuse_ms + found.saved_ms + 2.0 - found.stale_ms - 30.0
    assert found.utility == pytest.approx(expected)
    slow = made("b", SLOW)
    assert slow.remote_ms == pytest.approx((80 + 1000 + 200) - whole)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    cached=st.tuples(st.integers(0, 999), st.integers(0, 999)), queues=st.tuples(st.floats(0, 5000), st.floats(0, 5000))
)
def test_with_weights_of_one_the_difference_is_the_predicted_time(cached, queues):
    a = made("a", FAST, cached_tokens=cached[0], queue_ms=queues[0])
    b = made("b", SLOW, cached_tokens=cached[1], queue_ms=queues[1])
    waits = (FAST(1000 - cached[0]) + queues[0], SLOW(1000 - cached[1]) + queues[1])
    assert a.utility - b.utility == pytest.approx(waits[1] - waits[0], abs=1e-6)


@pytest.mark.parametrize("name", ["reuse", "saved", "semantic", "stale", "remote", "load"])
def test_a_weight_of_zero_switches_its_term_off_and_no_other(name):
    changes = {"cached_tokens": 600, "p_reuse": 0.25, "p_stale": 0.1, "relevance": 0.5, "queue_ms": 30.0}
    on = made("b", SLOW, **changes)
    off = made("b", SLOW, weights=Weights(**{name: 0.0}), **changes)
    sign = 1 if name in ("reuse", "saved", "semantic") else -1
    value = getattr(on, f"{name}_ms")
    assert value > 0 and on.utility - off.utility == pytest.approx(sign * value)


def test_text_mode_leaves_residency_out():
    text = made(mode="text", cached_tokens=600, p_reuse=0.9)
    assert text.saved_ms == text.reuse_ms == 0.0 and text.cached_tokens == 600


def test_rules_choose_as_they_are_called():
    warm, idle = made("a", cached_tokens=900, queue_ms=100.0), made("b", SLOW, queue_ms=0.0)
    key = Key("caps", "")
    assert Router("utility").choose([warm, idle], key).node == "a"
    assert Router("shortest_ttft").choose([warm, idle], key).node == "a"
    assert Router("least_loaded").choose([warm, idle], key).node == "b"
    turns = Router("round_robin")
    assert [turns.choose([idle, warm], key).node for _ in range(4)] == ["a", "b", "a", "b"]
    sessions = {Router("session").choose([warm, idle], Key(str(i), "s1")).node for i in range(20)}
    assert len(sessions) == 1, "a session stays where it is, whatever it uses"


def test_consistent_hashing_is_even_and_moves_only_what_it_must():
    rule = Router("consistent_hash")
    nodes = [made(name, FAST, {"a": FAST}) for name in "abcd"]
    before = {i: rule.choose(nodes, Key(f"k{i}", "")).node for i in range(2000)}
    after = {i: rule.choose(nodes[:3], Key(f"k{i}", "")).node for i in range(2000)}
    assert all(after[i] == before[i] for i in before if before[i] != "d")
    # Binomial(2000, 1/4): standard deviation 19.4; 5 of them is an error rate below 1e-5 for all four together.
    assert all(abs(count - 500) < 97 for count in Counter(before.values()).values())
    equal = {Router("utility").choose(nodes, Key(f"k{i}", "")).node for i in range(50)}
    assert equal == set("abcd"), "cold and idle nodes that are alike share the capsules"


def capsule(name, stability="normal", version=1, kind="fact", ends_at=None, text="some text", epoch=1):
    return SimpleNamespace(
        id=name, stability=stability, version=version, kind=kind, ends_at=ends_at, text=text, recorded_epoch=epoch
    )  # fmt: skip


def test_the_order_is_canonical_whatever_the_retriever_says():
    capsules = [capsule("c", "volatile"), capsule("b"), capsule("a"), capsule("z", "stable"), capsule("hot")]
    heat = {"hot": 2}
    orders = {
        tuple(c.id for c in layout.ordered(p, lambda c: heat.get(c.id, 0))) for p in itertools.permutations(capsules)
    }
    assert orders == {("z", "hot", "a", "b", "c")}
    corrected = capsule("a", version=2, epoch=9)
    assert [c.id for c in layout.ordered([corrected, capsule("b"), capsule("z", epoch=3)], lambda c: 0)] == [
        "b", "z", "a",
    ], "what was just corrected comes last"  # fmt: skip


def test_heat_moves_slowly_and_a_corrected_capsule_starts_cold():
    clock = SimpleNamespace(now=0.0)
    seen = Experience(lambda: clock.now)
    levels = []
    for _ in range(40):
        seen.used("t", [capsule("x")])
        levels.append(seen.heat("t", capsule("x")))
    assert levels == sorted(levels) and levels[0] == 0 and levels[-1] == 2
    clock.now += 120.0  # a fifth of the half-life: uses fall by 13 %, the level stays
    assert seen.heat("t", capsule("x")) == 2
    assert seen.heat("t", capsule("x", version=2)) == 0 and seen.heat("u", capsule("x")) == 0
    clock.now += 6000.0
    assert seen.heat("t", capsule("x")) == 0


def test_reuse_and_staleness_follow_what_was_seen():
    clock = SimpleNamespace(now=0.0)
    seen = Experience(lambda: clock.now)
    for _ in range(600):
        clock.now += 10.0
        seen.used("t", [capsule("x")])
    assert seen.p_reuse("t", [capsule("x")], 10.0) == pytest.approx(0.632, abs=0.02), "0.1 a second for 10 seconds"
    assert seen.p_reuse("t", [capsule("y")], 10.0) == 0.0 == seen.p_reuse("t", [], 10.0)
    assert seen.p_stale("t", [capsule("x")], 60.0, 0) == 0.0
    seen.ended("t", [ref("x@1")])
    assert 0 < seen.p_stale("t", [capsule("z")], 60.0, 0) < 0.1, "facts have been corrected"
    assert seen.p_stale("t", [capsule("z", kind="plan")], 60.0, 0) == 0.0
    from datetime import UTC, datetime

    soon = capsule("w", ends_at=datetime.fromtimestamp(100, UTC))
    assert seen.p_stale("t", [soon], 60.0, 50_000_000) == 1.0 and seen.p_stale("t", [soon], 10.0, 50_000_000) < 1.0
