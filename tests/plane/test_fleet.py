"""What is expected of nodes that were not asked for a while."""

import pytest

from solarjax.plane.placement.fleet import FADE, Fleet
from solarjax.plane.placement.latency import SURPRISE, Latency


def seen(*times, tokens=500):
    """A node that took so many milliseconds for prompts of 500 tokens."""
    latency = Latency()
    for ms in times:
        latency.observe(tokens, ms)
    return latency


def test_nothing_known_is_each_ones_own_guess():
    a, b = Latency(), Latency()
    assert Fleet().curves([("a", a), ("b", b)]) == {"a": a.curve, "b": b.curve}


def test_a_node_never_asked_is_expected_to_be_like_the_others():
    a, b = seen(*[40.0] * 30), Latency()
    found = Fleet().curves([("a", a), ("b", b)])
    assert found["b"] == pytest.approx(a.curve) and found["a"] == pytest.approx(a.curve)


def test_what_was_slow_long_ago_fades_while_others_are_asked():
    """By hand: its own curve has a weight of FADE to the number of requests elsewhere since, the mean has the rest."""
    fleet, slow, other = Fleet(), seen(*[2000.0] * 10), seen(*[400.0] * 10)
    before = fleet.curves([("slow", slow), ("other", other)])
    # Both were first seen now, so both are recent.
    assert before["slow"](500) == pytest.approx(slow.curve(500)) and before["slow"](500) > 3 * before["other"](500)
    for _ in range(14):
        other.observe(500, 400.0)
    weight = FADE**14
    mean = (weight * slow.curve(500) + other.curve(500)) / (1 + weight)
    after = fleet.curves([("slow", slow), ("other", other)])
    assert after["slow"](500) == pytest.approx(weight * slow.curve(500) + (1 - weight) * mean)
    assert after["other"](500) == pytest.approx(other.curve(500)), "what was asked last is believed"
    for _ in range(200):
        other.observe(500, 400.0)
    again = fleet.curves([("slow", slow), ("other", other)])
    assert again["slow"](500) == pytest.approx(again["other"](500), rel=1e-3)
    slow.observe(500, 2000.0)  # it is asked once more, and is slow indeed
    assert fleet.curves([("slow", slow), ("other", other)])["slow"](500) == pytest.approx(slow.curve(500))


def test_a_moment_of_trouble_is_no_slow_node_and_a_slow_node_is_found_out():
    calm = seen(*[400.0] * 20)
    usual = calm.curve(500)
    calm.observe(500, 40 * usual)
    assert calm.curve(500) < 1.5 * usual, "counted as no more than SURPRISE times the estimate"
    slow = seen(*[100.0 * usual] * 12)
    assert SURPRISE < 10 and slow.curve(500) > 10 * usual
