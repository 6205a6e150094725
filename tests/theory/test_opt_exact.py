"""Exact OPT against brute force on 1,000 random instances per quality and cost convention, and all bounds around it."""

import dataclasses

import numpy as np
import pytest

from solarjax.core.sweep import sweep
from solarjax.policies.registry import parse_cases
from solarjax.workloads.sources import RecordedSource
from tests.theory.brute_force import contents, losses_of, optimum
from theory.engine import play
from theory.errors import TheoryError
from theory.instances import to_trace
from theory.losses import set_losses
from theory.model import Batch, Conventions, instance
from theory.opt_colex import colex_cost, colex_path
from theory.opt_exact import exact_cost, exact_path, paid_switches
from theory.opt_heuristics import beam, best_static
from theory.opt_lagrangian import certificate, lagrangian_bound
from theory.opt_lagrangian_batch import lagrangian_bounds
from theory.opt_lp import lp_bound
from theory.opt_relaxed import gains

SIZE, ITEMS, QUERIES, STEPS = 1000, 4, 3, 4
WORLDS = (
    ("hit", 1, 2), ("max_similarity", 1, 2), ("mean_similarity", 3, 3), ("recall", 3, 3), ("precision", 3, 3),
    ("f1", 3, 3),
)  # fmt: skip
"""Quality, k, K: every quality, single-item and set ones."""


def random_batch(quality, k, capacity, seed=0, **conventions):
    rng = np.random.default_rng([seed, k, capacity])
    shape = (SIZE, QUERIES, ITEMS)
    # A strict order, so that equal relevance is not forced; dyadic grades, so that sums are exact.
    similarity = rng.permuted(np.tile(np.arange(1, ITEMS + 1) / 8.0, (*shape[:2], 1)), axis=2)
    relevance = rng.integers(0, 3, shape) / 2
    return Batch(
        relevance=relevance,
        similarity=similarity + rng.integers(0, 4, (SIZE, QUERIES, 1)) / 8,
        query=rng.integers(-1, QUERIES, (SIZE, STEPS)),
        arrival=rng.integers(-1, ITEMS, (SIZE, STEPS)),
        lam=rng.choice([0.0, 0.25, 0.5, 1.0, 2.0], SIZE),
        capacity=capacity,
        k=k,
        quality=quality,
        conventions=Conventions(**conventions),
    )


@pytest.fixture(scope="module", params=WORLDS, ids=lambda w: f"{w[0]}-{w[1]}")
def world(request):
    """A batch, and the losses of every content by the oracle."""
    quality, k, capacity = request.param
    batch = random_batch(quality, k, capacity)
    arrays = zip(batch.similarity, batch.relevance, batch.query, strict=True)
    return batch, [losses_of(s, r, q, capacity, k, quality) for s, r, q in arrays]


def by_force(batch, losses):
    found = batch.conventions
    return np.array(
        [
            optimum(
                losses[i],
                batch.arrival[i],
                ITEMS,
                batch.capacity,
                batch.lam[i],
                found.actions,
                found.fill_free,
                found.initial,
            )
            for i in range(SIZE)
        ]
    )


@pytest.mark.parametrize("actions", ["online", "store_step", "store_item"])
def test_exact_is_brute_force(world, actions):
    batch, losses = world
    batch = dataclasses.replace(batch, conventions=Conventions(actions=actions, initial=(1,)))
    want = by_force(batch, losses)
    plan = exact_path(batch)
    np.testing.assert_allclose(plan.cost, want, rtol=0, atol=1e-9)
    bounds = np.array([bound.value for bound in lagrangian_bounds(batch, 60)])
    assert (bounds <= want + 1e-9).all()
    assert bounds.mean() > (0.4 if actions == "store_step" else 0.8) * want.mean()  # and they are not empty
    priced = set_losses(batch, plan.contents[:, :-1]).sum(axis=1)
    priced += batch.lam * paid_switches(batch, plan.contents).sum(axis=1)
    np.testing.assert_allclose(priced, want, rtol=0, atol=1e-9)
    assert np.unique(np.round(want, 6)).size > 8  # the instances differ


def test_fills_may_be_free(world):
    batch, losses = world
    batch = dataclasses.replace(batch, conventions=Conventions(fill_free=True))
    want = by_force(batch, losses)
    np.testing.assert_allclose(exact_cost(batch), want, rtol=0, atol=1e-9)
    if batch.quality == "recall":  # the two methods share no code for fills; one quality is enough
        np.testing.assert_allclose(colex_cost(batch.take(range(100))), want[:100], rtol=0, atol=1e-9)


def test_bounds_and_plans_enclose_opt(world):
    batch, losses = world
    best = by_force(batch, losses)
    together = lagrangian_bounds(batch, 60)
    rng = np.random.default_rng(5)
    for i in range(SIZE):
        one = batch.take(i)
        p, q = rng.exponential(0.2, (2, STEPS))
        # Any prices are a certificate, these have seen no optimiser.
        assert certificate(gains(one), float(one.lam[0]), one.capacity, p, q) <= best[i] + 1e-9
        assert min(best_static(one).cost, beam(one, 1, 4).cost) >= best[i] - 1e-9
    for i in range(15):
        one = batch.take(i)
        assert beam(one, 8, 4).cost >= best[i] - 1e-9
        linear, dual = lp_bound(one), lagrangian_bound(one, 40)
        assert max(linear.certified, linear.value, dual.value) <= best[i] + 1e-7
        assert dual.value <= linear.value + 1e-6
        # The vmapped ascent is one instance's own: alone or among a thousand.
        assert lagrangian_bounds(one, 60)[0].value == pytest.approx(together[i].value, abs=1e-6)
        assert together[i].value == pytest.approx(dual.value, abs=0.1)
        assert linear.certified >= linear.value - 1e-6
        again = certificate(gains(one), float(one.lam[0]), one.capacity, dual.capacity_price, dual.slot_price)
        assert dual.value == pytest.approx(max(again, 0.0), abs=1e-12)


def test_subsets_agree_with_bit_masks(world):
    batch, _ = world
    batch = batch.take(range(100))
    plan = colex_path(batch)
    np.testing.assert_allclose(plan.cost, exact_cost(batch), rtol=0, atol=1e-9)
    priced = set_losses(batch, plan.contents[:, :-1]).sum(axis=1)
    priced += batch.lam * paid_switches(batch, plan.contents).sum(axis=1)
    np.testing.assert_allclose(priced, plan.cost, rtol=0, atol=1e-9)


GATE = "gated_fifo(threshold=fixed,signal=miss,fill=gated)"
POLICIES = {
    "max_similarity": f"lru,solar_fixed,{GATE}",
    "recall": "arc",
    "hit": GATE,
    "f1": "fifo",
    "precision": "lfu",
    "mean_similarity": "fifo",
}


def test_no_policy_beats_opt(world):
    batch, losses = world
    best = by_force(batch, losses)
    for case in parse_cases(POLICIES[batch.quality])[0]:
        played = play(case, batch, keys=2)
        assert (played.cost >= best[:, None] - 1e-9).all(), case.label
        # And what the policy paid is what the oracle says its contents cost.
        for i in range(0, SIZE, 250):
            sets = [frozenset(np.flatnonzero(row)) for row in played.contents[i, 0, :-1]]
            order = {s: n for n, s in enumerate(contents(ITEMS, batch.capacity))}
            np.testing.assert_allclose(
                played.losses[i, 0], [losses[i][t, order[s]] for t, s in enumerate(sets)], atol=1e-9
            )


def test_engine_counts_the_same_losses():
    """The loss of a content in float64 is the engine's own score in float32."""
    rng = np.random.default_rng(3)
    table = rng.random((12, 6)) * 0.4
    one = instance(table, np.arange(12), rng.integers(0, 6, 12), 2, 0.5, quality="max_similarity", k=3)
    case = parse_cases("fifo")[0]
    data = sweep(RecordedSource([to_trace(one)]), case, [2], 1, k=3, quality="max_similarity", lambdas=(0.5,))
    played = play(case[0], one)
    assert float(data["total_cost"].squeeze()) == pytest.approx(float(played.cost[0, 0]), rel=1e-6)


def test_impossible_sizes_are_refused():
    table = np.zeros((1, 20))
    one = instance(table, np.zeros(4, int), np.arange(4), 10, 1.0)
    with pytest.raises(TheoryError, match=r"2\^20 contents needs .* MiB, the memory budget is 1 MiB"):
        exact_cost(one, memory_bytes=2**20)
    with pytest.raises(TheoryError, match=r"616666 contents .* memory budget is 1 MiB"):
        colex_cost(one, memory_bytes=2**20)
    with pytest.raises(TheoryError, match="online only"):
        colex_cost(dataclasses.replace(one, conventions=Conventions(actions="store_item")))
    with pytest.raises(TheoryError, match="variables, the limit is"):
        lp_bound(instance(np.zeros((400, 300)), np.arange(400), np.zeros(400, int), 5, 1.0))
    with pytest.raises(TheoryError, match="iterations = 0"):
        lagrangian_bound(one, 0)
    with pytest.raises(TheoryError, match="prices must be finite and >= 0"):
        certificate(gains(one), 1.0, 10, -np.ones(4), np.zeros(4))
    with pytest.raises(TheoryError, match="iterations = 0"):
        lagrangian_bounds(one, 0)
