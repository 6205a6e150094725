"""The search, the minimiser, replay, and measured ratios."""

import dataclasses
import json

import numpy as np
import pytest

from solarjax.policies.registry import case, parse_cases
from theory import checks_guarantee, opt, replay
from theory.competitive import measure, quantile_intervals, ratio
from theory.errors import TheoryError
from theory.families import gate
from theory.families.base import GATED
from theory.families.randoms import draw
from theory.minimise import compress, minimise
from theory.model import Conventions
from theory.opt import Kind, Optimum
from theory.results import Budget, Verdict
from theory.search import Space, rescore, score, search

SOLAR = case("solar_fixed")  # tau = 2 lam by default
FLOOR = 4.2


@pytest.fixture(scope="module")
def found():
    """A search that knows nothing of the families; small, so that it takes seconds."""
    return search(SOLAR, Space(steps=16, items=4, capacity=1), generations=12, population=256, keys=1, stop_at=8.0)


def test_search_breaks_three(found):
    assert SOLAR.traced and dict(SOLAR.traced)["tau_per_lam"] == 2.0
    assert found.ratio > 4.0  # more than the corrected bound under Def1, so nothing unconditional is left
    assert found.history == sorted(found.history) and found.evaluations % 256 == 0
    assert found.ratio == pytest.approx(float(rescore(SOLAR, found.best, 1, 1, 99)[0]))
    assert float(opt.exact(found.best).cost[0]) > 0


def test_minimiser_keeps_the_ratio(found):
    small = minimise(SOLAR, found.best, FLOOR)
    assert float(score(SOLAR, small, 1, 0)[0]) >= FLOOR
    assert small.num_steps < found.best.num_steps and small.num_items <= found.best.num_items
    # One-minimal in steps: without any one of them the floor is lost.
    for t in range(small.num_steps):
        keep = [s for s in range(small.num_steps) if s != t] + [t]
        query, arrival = small.query[:, keep].copy(), small.arrival[:, keep].copy()
        query[0, -1] = arrival[0, -1] = -1
        shorter = dataclasses.replace(small, query=query, arrival=arrival)
        assert not FLOOR <= float(score(SOLAR, shorter, 1, 0)[0]) < np.inf
    with pytest.raises(TheoryError, match="below the floor"):
        minimise(SOLAR, small, 100.0)


def test_compress_changes_no_cost(found):
    small = compress(found.best)
    assert float(score(SOLAR, small, 1, 0)[0]) == pytest.approx(float(score(SOLAR, found.best, 1, 0)[0]), abs=1e-12)


def test_search_refuses():
    with pytest.raises(TheoryError, match="items = 20"):
        Space(items=20)
    with pytest.raises(TheoryError, match="lam = 0"):
        Space(lam=0.0)
    with pytest.raises(TheoryError, match="population = 10"):
        search(SOLAR, Space(), population=10)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("counterexamples") / "lock_out.json"
    one = gate.lock_out(1.0, 16)
    return replay.save(path, SOLAR, one, keys=3, root_key=5, check="lockout", claim="at most 3", bound=3.0)


def test_replay_reproduces(stored):
    lines = []
    again = replay.replay(stored, out=lines.append)
    # By hand: 15 misses, a switch every second one, against one insertion.
    assert (again.cost, again.opt) == (22.0, 1.0) and again.ratio == pytest.approx(22.0, abs=1e-9)
    assert again.matches and abs(again.ratio - again.stored["ratio"]) <= 1e-9
    assert lines == [again.text] and len(again.text.splitlines()) == 5 + 16 + 3
    assert "reproduced" in again.text and "NOT" not in again.text


def test_replay_notices_a_wrong_figure(stored, tmp_path):
    data = json.loads(stored.read_text())
    data["figures"]["ratio"] += 1e-6
    (tmp_path / "x.json").write_text(json.dumps(data))
    again = replay.replay(tmp_path / "x.json", out=None)
    assert not again.matches and "NOT reproduced" in again.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="x"), "not a counterexample"),
        (lambda d: d.update(version=9), "version 9 is not supported"),
        (lambda d: d.pop("keys"), r"fields \['keys'\]"),
        (lambda d: d["policy"].update(name="solr"), "unknown policy 'solr'"),
        (lambda d: d["policy"]["parameters"].update(lam=-1), "lam = -1 is out of range"),
        (lambda d: d["instance"].update(lam=-1), "lam = -1"),
        (lambda d: d.update(keys=0), "keys must be >= 1"),
        (lambda d: d["figures"].pop("opt"), "opt"),
    ],
)
def test_bad_counterexamples_are_refused(stored, tmp_path, change, message):
    data = json.loads(stored.read_text())
    change(data)
    (tmp_path / "x.json").write_text(json.dumps(data))
    with pytest.raises(TheoryError, match=message):
        replay.replay(tmp_path / "x.json", out=None)


def test_stochastic_policies_replay_too(tmp_path):
    one = draw("graded", 1, T=16, N=4, K=2, lam=1.0, seed=3)
    path = replay.save(tmp_path / "r.json", case("random"), one, keys=8, root_key=1, check="c", claim="c", bound=None)
    again = replay.replay(path, out=None)
    assert again.matches and again.ratio > 1
    assert "(0." in again.text  # contents held by a share of the keys


def test_a_planted_wrong_bound_is_refuted(tmp_path, monkeypatch):
    """A false constant in `bounds`: the check that holds with the derived one says `refuted`."""
    monkeypatch.setattr(checks_guarantee, "WORKLOADS", ("paging",))
    budget = Budget(full=False, keys=4, root_key=0, workdir=tmp_path)
    right = checks_guarantee.cr3_certificate.run(budget)
    assert right.verdict is Verdict.HOLDS_UNDER and 0.5 < right.figure <= 1
    monkeypatch.setattr("theory.bounds.cr_overshoot", lambda lam, dmax=1.0: 2.0)
    wrong = checks_guarantee.cr3_certificate.run(budget)
    assert wrong.verdict is Verdict.REFUTED and wrong.figure > 1


def test_measured_ratios():
    batch = draw("paging", 300, T=16, N=4, K=2, lam=1.0, seed=1)
    best = opt.exact(batch)
    assert best.kind is Kind.EXACT
    found = measure(parse_cases(GATED)[0][0], batch, optimum=best)
    assert (found.ratios >= 1 - 1e-9).all() and found.worst_ratio == found.ratios.max()
    again = measure(parse_cases(GATED)[0][0], found.worst)
    assert again.ratios[0] == pytest.approx(found.worst_ratio, abs=1e-12)
    with pytest.raises(TheoryError, match="heuristic is an upper bound"):
        measure(case("fifo"), batch, optimum=Optimum(best.cost, Kind.HEURISTIC, "x"))
    # Against a certified lower bound the ratio can only grow.
    few = batch.take(range(4))
    assert (
        measure(parse_cases(GATED)[0][0], few, optimum=opt.lower_bound(few, 60)).ratios >= found.ratios[:4] - 1e-9
    ).all()


def test_ratio_without_cost():
    assert ratio([0.0, 1.0, 3.0], [0.0, 0.0, 2.0]).tolist() == [1.0, np.inf, 1.5]


def test_quantiles_cover():
    values = np.random.default_rng(0).random(4000)
    found = quantile_intervals(values, 1)
    for q in ("0.5", "0.9", "0.99"):
        assert found[q].low <= found[q].value <= found[q].high
        assert abs(found[q].value - float(q)) < 4 * (float(q) * (1 - float(q)) / 4000) ** 0.5


def test_best_known_falls_back_to_a_bound():
    one = draw("one_shot", 1, T=40, N=40, K=10, lam=1.0, seed=0)
    found = opt.best_known(one, memory_bytes=2**20)
    assert found.kind is Kind.LOWER
    assert found.cost[0] <= opt.heuristic(one, 4).cost[0] + 1e-9
    with pytest.raises(TheoryError, match="fill_free"):
        Conventions(fill_free=True, actions="store_item")
