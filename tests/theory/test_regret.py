"""Regret runs against plain-Python worlds, closed forms and the law of an independent Thompson sampler."""

import math
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solarjax.core import random, streams
from theory import regret
from theory.bandit import PERIOD, World, _bad
from theory.errors import TheoryError
from theory.lane import ENVIRONMENT_STREAM
from theory.regret import Group, Runs, Worst, regrets, worst_gap
from theory.regret_rows import check_reach

ROOT = 7


def draws(kind, key, steps, stream, width):
    """The world's own uniform numbers of one key, `[steps, width]`."""
    own = streams.per_seed(ROOT, "theory", f"bandit {kind}", range(key + 1))
    words = random.key_words(own)[key]
    one = jax.vmap(lambda t: random.uniform(random.fold_in(random.fold_in(words, t), stream), width))
    return np.asarray(one(jnp.arange(steps, dtype=jnp.int32)))


def test_ucb_chooses_as_a_plain_loop():
    """Same draws, the index written out in float32: the counts are equal, step for step."""
    k, gap, marks, keys = 3, 0.3, (40, 150), 3
    found = regrets("ucb", World("leave", k, True), (gap,), marks, keys, ROOT)["ucb"]
    for key in range(keys):
        u = draws("leave", key, marks[-1], ENVIRONMENT_STREAM, k + 1)
        uses, seen = np.zeros(k + 1, np.float32), np.zeros(k + 1, np.float32)
        odds = np.array([0.5] * k + [0.5 - gap], np.float32)
        excess, want = 0, []
        for t in range(marks[-1]):
            width = np.sqrt(2 * np.log(np.float32(t + 1)) / np.maximum(seen, 1))
            index = uses / np.maximum(seen, 1) + np.where(seen > 0, width, np.float32(1e9))
            out = int(index.argmin())  # given up: the least index, the first of equals
            excess += out != k
            watched = np.arange(k + 1) != out
            uses += watched & (u[t] < odds)
            seen += watched
            want += [excess] if t + 1 in marks else []
        np.testing.assert_allclose(found.regret[key, 0], gap * np.array(want), rtol=1e-6)


def test_thompson_has_the_law_of_an_independent_sampler():
    """Mean regret of 300 runs against 2,000 of a numpy Beta sampler; a z above 4.5 has probability below 10^-5."""
    k, gap, marks = 3, 0.3, (20, 60)
    found = regrets("thompson", World("leave", k, True), (gap,), marks, 300, ROOT)["thompson"].regret[:, 0]
    rng = np.random.default_rng(3)
    runs = 2000
    a, b = np.ones((runs, k + 1)), np.ones((runs, k + 1))
    odds, excess, want = np.array([0.5] * k + [0.5 - gap]), np.zeros(runs), []
    for t in range(marks[-1]):
        out = rng.beta(a, b).argmin(axis=1)
        excess += out != k
        watched = np.arange(k + 1) != out[:, None]
        used = rng.random((runs, k + 1)) < odds
        a += watched & used
        b += watched & ~used
        if t + 1 in marks:
            want.append(gap * excess)
    for column, other in enumerate(want):
        mine = found[:, column]
        error = math.hypot(mine.std() / len(mine) ** 0.5, other.std() / runs**0.5)
        assert abs(mine.mean() - other.mean()) < 4.5 * error


def test_random_choice_has_its_closed_form():
    """A random arm is the wrong one with probability (K - 1) / K at every step, independently."""
    k, gap, steps, keys = 4, 0.2, 60, 200
    found = regrets("random", World("pull", k, True), (gap,), (steps,), keys, ROOT)["random"].regret[:, 0, 0] / gap
    wrong = (k - 1) / k
    spread = math.sqrt(steps * wrong * (1 - wrong))
    assert abs(found.mean() - steps * wrong) < 4.5 * spread / keys**0.5
    assert 0.75 < found.std() / spread < 1.25
    np.testing.assert_allclose(found, np.round(found), atol=1e-4)  # whole counts times the gap


def test_fifo_on_the_cycle_is_a_queue():
    """K slots, K + 1 items, the missing one replaces the oldest; half of the steps are the best rule's own."""
    k, marks = 3, (10, 41)
    found = regrets("fifo", World("cycle", k, False), (0.25,), marks, 2, ROOT)["fifo"].regret[:, 0]
    held, out, count, want = deque(range(k)), k, 0, []
    for t in range(marks[-1]):
        count += out != k
        held.append(out)
        out = held.popleft()
        want += [0.25 * (count - (t + 1) // 2)] if t + 1 in marks else []
    np.testing.assert_allclose(found, [want, want])


def test_fifo_on_fresh_arrivals_is_a_queue():
    """Every PERIOD steps a new item of random kind replaces the oldest; the best rule gives up a bad one if it can."""
    k, gap, marks = 4, 0.25, (95, 300)
    found = regrets("fifo", World("fresh", k, False), (gap,), marks, 2, ROOT)["fifo"].regret[:, 0]
    own = streams.per_seed(ROOT, "theory", "bandit fresh", range(2))
    for key in range(2):
        first = np.asarray(random.uniform(random.fold_in(random.key_words(own)[key], 2**31 - 1), k)) < 0.5
        kinds = draws("fresh", key, marks[-1], ENVIRONMENT_STREAM + 1, 1)[:, 0] < 0.5
        held, best, lost, want = deque(map(bool, first)), int(first.sum()), 0, []
        for t in range(marks[-1]):
            lost += best - sum(held)
            if t % PERIOD == PERIOD - 1:
                held.popleft()
                held.append(bool(kinds[t]))
                best = min(best, k - 1) + bool(kinds[t])
            want += [2 * gap * lost] if t + 1 in marks else []
        np.testing.assert_allclose(found[key], want)


def test_phases_change_at_powers_of_two():
    world = World("phases", 4, True)
    steps = np.arange(3300)
    found = np.asarray(jax.vmap(lambda t: _bad(world, t))(jnp.asarray(steps, jnp.int32)))
    # Phase 0 up to step 99, then a new one at 100, 200, 400, ...
    want = [4 - sum(t >= 100 * 2**j for j in range(8)) % 5 for t in steps]
    assert found.tolist() == want


def planted(regret_of):
    """A stand-in for `regrets`: `regret_of(gaps, marks, keys)` is what the runs say."""

    def stand_in(family, world, gaps, marks, keys, root_key):
        return {"x": Runs(regret_of(gaps, marks, keys), np.asarray(gaps, float), np.asarray(marks))}

    return stand_in


def test_the_worst_gap_is_chosen_on_other_keys(monkeypatch):
    """Scored keys say gap 0.2, the extra ones say 0.1: the extra ones choose, the scored ones are reported."""

    def regret_of(gaps, marks, keys):
        values = np.zeros((keys, len(gaps), len(marks)))
        values[:10] = np.where(np.asarray(gaps) == 0.2, 5.0, 1.0)[None, :, None]
        values[10:] = np.where(np.asarray(gaps) == 0.1, 5.0, 1.0)[None, :, None]
        return values

    monkeypatch.setattr(regret, "regrets", planted(regret_of))
    found = worst_gap("f", World("pull", 2, True), (Group((0.2, 0.1), (10, 20)),), 10, 0)["x"]
    assert found.gap.tolist() == [0.1, 0.1] and found.regret.shape == (10, 2) and (found.regret == 1.0).all()


def test_groups_of_gaps_reach_as_far_as_they_say(monkeypatch):
    """The large gap is the worst where it was run; beyond, only the small one competes."""

    def regret_of(gaps, marks, keys):
        return np.broadcast_to(np.asarray(gaps)[None, :, None] * 100, (keys, len(gaps), len(marks))).copy()

    monkeypatch.setattr(regret, "regrets", planted(regret_of))
    groups = (Group((0.4,), (10, 20)), Group((0.1, 0.05), (10, 20, 30)))
    found = worst_gap("f", World("pull", 2, True), groups, 10, 0)["x"]
    assert found.gap.tolist() == [0.4, 0.4, 0.1] and np.isfinite(found.regret).all()
    assert found.regret.mean(axis=0).tolist() == pytest.approx([40, 40, 10])
    with pytest.raises(TheoryError, match="first ones of the longest"):
        worst_gap("f", World("pull", 2, True), (Group((0.4,), (15,)), Group((0.1,), (10, 20))), 10, 0)


def test_gaps_that_stop_while_they_are_the_worst_are_noticed():
    groups = (Group((0.4, 0.2), (10, 20)), Group((0.1,), (10, 20, 30)))
    marks = np.array([10, 20, 30])
    check_reach({"x": Worst(np.ones((2, 3)), np.array([0.4, 0.1, 0.1]), marks)}, groups)
    with pytest.raises(TheoryError, match="gap 0.2 is the worst at T = 20, run it on"):
        check_reach({"x": Worst(np.ones((2, 3)), np.array([0.4, 0.2, 0.1]), marks)}, groups)


def test_a_cheap_start_bends_the_whole_slope_and_not_the_late_one():
    """Regret 0.1 per step after 90 free steps: linear, although its slope over all T is far above 1."""
    marks = np.array([100, 316, 1000, 3162, 10_000])
    noise = np.random.default_rng(0).normal(1, 0.05, (40, 1))
    worst = Worst(noise * 0.1 * (marks - 90), np.full(5, 0.2), marks)
    assert worst.exponent(0).low > 1.2
    late = worst.late()
    assert late.marks.tolist() == [1000, 3162, 10_000]
    assert 0.99 < late.exponent(0).value < 1.04
    np.testing.assert_allclose(worst.rates(), 0.1 * noise.mean())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "greedy"}, "unknown family 'greedy'"),
        ({"gaps": (0.6,)}, r"gaps = \[0.6\] must lie in \(0, 0.5\]"),
        ({"gaps": ()}, "must lie in"),
        ({"marks": (20, 10)}, "must be increasing"),
        ({"world": World("pull", 0, True)}, "K = 0"),
        ({"marks": (2**31,)}, "out of range"),
    ],
)
def test_impossible_runs_are_refused(change, message):
    fields = {
        "family": "ucb",
        "world": World("pull", 2, True),
        "gaps": (0.2,),
        "marks": (10,),
        "keys": 2,
        "root_key": 0,
    }
    with pytest.raises(TheoryError, match=message):
        regrets(**{**fields, **change})
