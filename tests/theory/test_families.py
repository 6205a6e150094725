"""Closed forms of the families, against the engine and exact OPT, at several sizes; and the formulas of `bounds`."""

import numpy as np
import pytest

from solarjax.policies.registry import case, parse_cases
from theory import bounds, opt
from theory.adversary import FAMILIES, closed_forms, cruel
from theory.engine import play
from theory.epochs import epochs
from theory.errors import TheoryError
from theory.families import gate, paging
from theory.families.base import GATED
from theory.families.randoms import RANDOM, draw

CASES = [
    ("strict_cycle", {}),
    ("strict_cycle", {"lam": 6.0}),
    ("soft_cycle", {}),
    ("museum", {}),
    ("museum", {"lam": 0.5}),
    ("rotation", {}),
    ("sqrt_topics", {}),
    ("lock_out", {}),
    ("lock_out", {"lam": 0.3}),
    ("lock_out", {"K": 2, "T": 16}),
    ("misevict", {}),
    ("misevict", {"lam": 0.9}),
    ("overshoot", {}),
    ("overshoot", {"lam": 2.25, "epochs": 4}),
    ("small_lam", {}),
    ("half_loss", {}),
    ("hiding", {}),
    ("hiding", {"asks": 2, "lam": 1.5}),
    ("pure_waste", {}),
]


@pytest.mark.parametrize(("name", "params"), CASES, ids=lambda v: v if isinstance(v, str) else ",".join(v))
def test_closed_form(name, params):
    rows = closed_forms(name, **params)  # raises where the closed form and the measurement differ
    assert rows and all(row.predicted_opt == pytest.approx(row.opt, abs=1e-9) for row in rows)


def test_every_family_is_tested():
    assert {name for name, _ in CASES} == set(FAMILIES)


def test_a_wrong_closed_form_is_caught(monkeypatch):
    wrong = FAMILIES["strict_cycle"]
    planted = type(wrong)(**{**vars(wrong), "costs": {"fifo": lambda K, lam, T: T}})
    monkeypatch.setitem(FAMILIES, "strict_cycle", planted)
    with pytest.raises(TheoryError, match="the closed form says fifo pays"):
        closed_forms("strict_cycle")
    planted = type(wrong)(**{**vars(wrong), "opt": lambda K, lam, T: 1.0})
    monkeypatch.setitem(FAMILIES, "strict_cycle", planted)
    with pytest.raises(TheoryError, match="the closed form says OPT"):
        closed_forms("strict_cycle")
    with pytest.raises(TheoryError, match="unknown family 'x'"):
        closed_forms("x")
    with pytest.raises(TheoryError, match="no parameter 'm'"):
        closed_forms("strict_cycle", m=1)


def test_overshoot_breaks_the_stated_constant_and_not_the_corrected_one():
    one = gate.overshoot(0.5625, 7)
    case_, plan = parse_cases(GATED)[0][0], opt.exact_plan(one)
    played = play(case_, one)
    found = epochs(one, played, plan, 2 * one.lam)
    ratio = float(played.cost[0, 0] / plan.cost[0])
    assert one.num_steps <= 24 and len(found.cost) == 6
    assert found.regular().all() and not found.opt_keeps.any()
    assert bounds.cr_stated() < ratio <= bounds.cr_overshoot(0.5625)
    long = gate.overshoot(0.5625, 12)
    limit = bounds.overshoot_ratio(0.5625, 1.125)
    assert ratio < float(play(case_, long).cost[0, 0] / opt.exact(long).cost[0]) < limit <= bounds.cr_overshoot(0.5625)
    # By hand: an epoch is two full misses and one switch.
    np.testing.assert_allclose(found.cost, 2 + 0.5625)
    np.testing.assert_allclose(found.opt_cost, [2 * 0.5625] + [0.5625] * 5)  # the first holds two insertions


def test_half_loss_meets_def1_with_equality():
    one = gate.half_loss(1.0, 24)
    found = epochs(one, play(parse_cases(GATED)[0][0], one), opt.exact_plan(one), 2 * one.lam)
    assert found.regular().all()
    np.testing.assert_allclose(2 * found.opt_loss[1:], found.loss[1:])
    assert found.certificate()[1:] == pytest.approx(np.full(len(found.cost) - 1, 3.0))


def test_epochs_refuse_another_threshold():
    one = gate.lock_out(1.0, 24)
    played, plan = play(parse_cases(GATED)[0][0], one), opt.exact_plan(one)
    with pytest.raises(TheoryError, match="shut"):
        epochs(one, played, plan, 5 * one.lam)


def test_cruel_asks_for_what_is_missing():
    one = cruel(case("fifo"), 2, 1.0, 9)
    played = play(case("fifo"), one)
    assert (played.losses == 1).all()
    assert float(played.cost[0, 0]) == 9 * 2
    assert one.query[0].tolist() == [0, 1, 2] * 3  # for FIFO it is the strict cycle


def test_yao_by_hand():
    """One page of two at K = 1: every change of page is a miss and a switch."""
    one = paging.yao(1, 1.0, 40, seed=3)
    order = one.query[0]
    misses = int(order[0] != 0) + int((np.diff(order) != 0).sum())
    assert float(play(case("fifo"), one).cost[0, 0]) == 2 * misses


@pytest.mark.parametrize("name", RANDOM)
def test_random_families_are_valid_and_differ(name):
    batch = draw(name, 50, T=24, N=6, K=2, lam=1.0, seed=1)
    again = draw(name, 50, T=24, N=6, K=2, lam=1.0, seed=2)
    assert (batch.arrival != again.arrival).any()
    same = draw(name, 50, T=24, N=6, K=2, lam=1.0, seed=1)
    assert np.array_equal(batch.arrival, same.arrival) and np.array_equal(batch.similarity, same.similarity)


def test_unknown_random_family():
    with pytest.raises(TheoryError, match="unknown random family 'x'"):
        draw("x", 1, T=2, N=2, K=1, lam=1.0, seed=0)


def test_bounds_by_hand():
    assert bounds.fifo_cycle(3, 1.0) == 8
    assert bounds.fifo_cycle_finite(1, 1.0, 200_000) == pytest.approx(4, rel=1e-4)
    assert bounds.soft_cycle(10**9, 1.0, 0.75, 0.125) == pytest.approx(bounds.soft_saturation(1.0, 0.75, 0.125))
    assert bounds.cr_threshold(2.0, 1.0, 0.0) == 3 == bounds.cr_stated()
    assert bounds.cr_threshold(2.0, 1.0) == bounds.cr_overshoot(1.0) == 4
    assert bounds.best_threshold(1.0, 0.0) == 2.0
    assert bounds.best_threshold(1.0) == pytest.approx(2**0.5)
    assert bounds.admissions(24, 2.0) == 12 and bounds.admissions_bootstrap(24.0, 2.0, 10, 24) == 17
    assert [bounds.bootstrap_size(K) for K in (1, 10, 40, 200)] == [5, 5, 20, 25]
    assert bounds.unlearning_lag(0) == 100 and bounds.unlearning_lag(9) == 1000
    assert bounds.sufficient_length(2.0, 1, 1) == 1.0 and bounds.sufficient_length(2.0, 1, 0) == float("inf")
    assert bounds.eoq_threshold(2.0, 1.0) == 2.0 and bounds.eoq_accumulated(2.0) == 2.0
    assert bounds.harmonic(3) == pytest.approx(11 / 6)
    with pytest.raises(TheoryError, match="lam = 0"):
        bounds.cr_overshoot(0.0)


@pytest.mark.parametrize("lam", [0.25, 1.0, 3.0])
def test_best_threshold_is_a_minimum(lam):
    grid = np.linspace(0.05, 4, 400) * lam
    least = min(bounds.cr_threshold(float(tau), lam) for tau in grid)
    assert bounds.best_ratio(lam) <= least + 1e-9
    assert bounds.best_ratio(lam) == pytest.approx(least, rel=1e-2)


def test_every_bound_has_a_source():
    assert len({b.name for b in bounds.BOUNDS}) == len(bounds.BOUNDS)
    assert all(b.source and b.unit and b.formula.__doc__ for b in bounds.BOUNDS)
