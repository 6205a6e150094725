"""Laws of the random decisions: who leaves, what a reservoir holds, how often a coin admits.

Keys are fixed. ALPHA is the false-alarm rate of each test function, divided among its comparisons (Bonferroni).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from solarjax.core import random
from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode, Trace
from solarjax.core.victims import VICTIM_STREAM
from solarjax.policies.admission.controls import bernoulli
from solarjax.policies.registry import case
from solarjax.policies.victims.thompson import ThompsonState, thompson
from solarjax.policies.victims.uniform import uniform
from tests.support import engine
from tests.support.worlds import ITEMS, QUERIES, STEPS, TRACES, world_of

ALPHA = 1e-3
SLOTS = 8


def keys(n: int, seed: int) -> jax.Array:
    """`[n, 2]` key words."""
    return jax.random.key_data(jax.random.split(jax.random.key(seed), n))


def full_view(size: int) -> Any:
    """The fields of a view that victim rules read: slots 0..size-1 are occupied, in order of insertion."""
    slot = jnp.arange(SLOTS, dtype=jnp.int32)
    return SimpleNamespace(occupied=slot < size, inserted=slot, size=jnp.int32(size))


def test_steps_and_streams_are_independent() -> None:
    """Uniforms of successive steps of a lane, of one step of neighbouring lanes, and of admission and victim."""
    lanes, steps = 1000, 200

    @jax.jit
    def draw(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        def one(key: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
            now = random.fold_in(key, t)
            return random.uniform(now, 1)[0], random.uniform(random.fold_in(now, VICTIM_STREAM), 1)[0]

        over_steps = jax.vmap(one, in_axes=(None, 0))
        return jax.vmap(over_steps, in_axes=(0, None))(key, jnp.arange(steps, dtype=jnp.int32))

    admission, victim = (np.asarray(u, np.float64) - 0.5 for u in draw(keys(lanes, 1)))
    pairs = {
        "steps": (admission[:, :-1], admission[:, 1:]),
        "lanes": (admission[:-1], admission[1:]),
        "streams": (admission, victim),
        "victims": (victim[:, :-1], victim[:, 1:]),
        "streams of successive steps": (victim[:, :-1], admission[:, 1:]),
    }
    limit = stats.norm.isf(ALPHA / len(pairs) / 2)
    for name, (left, right) in pairs.items():
        z = (left * right).mean() * 12 * np.sqrt(left.size)
        assert abs(z) < limit, name
    # The test has power: one step in 50 whose two streams share their number is seen.
    mixed = np.where(np.arange(steps) % 50 == 0, admission, victim)
    assert abs((admission * mixed).mean() * 12 * np.sqrt(mixed.size)) > limit
    assert stats.kstest((admission + 0.5).ravel(), "uniform").pvalue > ALPHA


def test_uniform_victim() -> None:
    """Every resident is as likely to leave; nobody else can."""
    rule, n = uniform(), 40_000
    for size in (1, 3, 7, 8):
        choose = jax.jit(jax.vmap(lambda key, size=size: rule.choose(key, (), full_view(size))))
        counts = np.bincount(np.asarray(choose(keys(n, size))), minlength=SLOTS)
        assert counts[size:].sum() == 0
        if size > 1:
            assert stats.chisquare(counts[:size]).pvalue > ALPHA / 3
    biased = np.floor(np.random.default_rng(0).random(n) ** 1.05 * 7).astype(int)
    assert stats.chisquare(np.bincount(biased)).pvalue < ALPHA / 3


def chance_of_smaller(first: tuple[float, float], second: tuple[float, float]) -> float:
    """P(X < Y) for independent X ~ Beta(first), Y ~ Beta(second), by numerical integration."""
    x, y = stats.beta(*first), stats.beta(*second)
    return float(integrate.quad(lambda u: x.cdf(u) * y.pdf(u), 0, 1, limit=200)[0])


@pytest.mark.parametrize("second", [(1.0, 1.0), (2.0, 1.0), (5.0, 1.3), (3.0, 8.0)])
def test_thompson_victim(second: tuple[float, float]) -> None:
    """Of two residents the first leaves with the probability that its draw is the smaller one."""
    first, n = (2.0, 1.0), 40_000
    rule = thompson("none", "none", "steps", "none", 2.0, 1.0, 0.0, 20.0, 0.05, 5.0, 1.0)
    alpha, beta = (jnp.zeros(SLOTS, jnp.float32).at[:2].set(jnp.asarray(p)) for p in zip(first, second, strict=True))
    state = ThompsonState(alpha, beta, None, None)
    chosen = np.asarray(jax.jit(jax.vmap(lambda key: rule.choose(key, state, full_view(2))))(keys(n, 5)))
    assert set(chosen) == {0, 1}
    expected = chance_of_smaller(first, second)
    limit = stats.norm.isf(ALPHA / 4 / 2) * np.sqrt(expected * (1 - expected) / n)
    assert abs((chosen == 0).mean() - expected) < limit
    assert limit < 0.01, "an error of one percent would be seen"


def test_coin_admits_at_its_rate() -> None:
    n = 40_000
    view: Any = SimpleNamespace(size=jnp.int32(9), capacity=jnp.int32(9), has_candidate=jnp.bool_(True))

    @jax.jit
    def heads(p: jax.Array) -> jax.Array:
        return jax.vmap(lambda key: bernoulli(p).decide(key, (), view)[1])(keys(n, 6)).sum()

    for p in (0.17, 0.5, 0.9):
        assert stats.binomtest(int(heads(jnp.float32(p))), n, p).pvalue > ALPHA / 3
        assert stats.binomtest(int(n * p * 1.06), n, p).pvalue < ALPHA / 3
    assert int(heads(jnp.float32(0))) == 0 and int(heads(jnp.float32(1))) == n


def one_by_one() -> Trace:
    """Every item arrives once; the remaining steps are empty."""
    item = np.arange(STEPS)
    return Trace(
        name="once",
        items=np.random.default_rng(0).normal(size=(ITEMS, 3)),
        queries=np.ones((QUERIES, 3)),
        query=np.full(STEPS, NO_QUERY),
        arrival=np.where(item < ITEMS, item, NO_ITEM),
        mode=np.full(STEPS, StepMode.TRAIN),
        relevant_indptr=np.zeros(QUERIES + 1, int),
        relevant_indices=np.zeros(0, int),
        answer_recall=np.zeros((QUERIES, ITEMS)),
        category=np.zeros(QUERIES, int),
        category_names=("even", "odd"),
    )


def uniform_subset_pvalue(held: np.ndarray, capacity: int) -> float:
    """Chi-square test that rows of `held [n, M] bool` are uniform subsets of `capacity` items.

    Counts of the items in such subsets have variance n p (1 - p) and are negatively correlated; with that the sum of
    squares over n p (1 - p) M / (M - 1) is chi-square with M - 1 degrees of freedom.
    """
    n, items = held.shape
    p = capacity / items
    total = ((held.sum(axis=0) - n * p) ** 2).sum() / (n * p * (1 - p) * items / (items - 1))
    return float(stats.chi2(items - 1).sf(total))


def test_reservoir_holds_a_uniform_sample() -> None:
    """Each of the 16 items that arrived is held with probability K / 16, early ones as late ones."""
    policy = case("reservoir")
    rules, world = engine.rules_of(policy), world_of([one_by_one()] * TRACES)
    held: dict[int, list[np.ndarray]] = {3: [], 6: []}
    for seed in range(60):
        lanes = engine.lanes_of(policy, seed=seed)
        ids = engine.run(rules, world, lanes).carry.store.ids
        for lane, capacity in enumerate(lanes.capacity):
            if capacity in held:
                held[int(capacity)].append(np.isin(np.arange(ITEMS), ids[:, lane]))
    for capacity, rows in held.items():
        sample = np.array(rows)
        assert (sample.sum(axis=1) == capacity).all() and len(sample) == 720
        assert uniform_subset_pvalue(sample, capacity) > ALPHA / 2


def test_a_slightly_wrong_reservoir_is_rejected() -> None:
    """Algorithm R that counts two arrivals too few keeps the newest too often; a test of that size sees it."""
    rng = np.random.default_rng(2)

    def sample(late: int) -> np.ndarray:
        rows = np.zeros((720, ITEMS), bool)
        for row in rows:
            held = list(range(3))
            for n in range(4, ITEMS + 1):
                if rng.random() * (n - late) < 3:
                    held[rng.integers(3)] = n - 1
            row[held] = True
        return rows

    assert uniform_subset_pvalue(sample(0), 3) > ALPHA / 2
    assert uniform_subset_pvalue(sample(2), 3) < ALPHA / 2
