"""Laws of the generators' random parts, against independent simulations and closed forms.

Keys are fixed, so a test either always passes or always fails; ALPHA is the probability with which a
correct generator would have failed under another key.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from solarjax.core.random import key_words
from solarjax.workloads import draws
from solarjax.workloads.geometry import noisy, separated_centres
from solarjax.workloads.registry import make
from solarjax.workloads.topics import Topics, random_relevance

ALPHA = 1e-3
"""Error rate of each test."""


def words(seed: int) -> jax.Array:
    """Key words of a test."""
    return key_words(jax.random.key(seed))


def drawn(sample: Callable[..., jax.Array], key: jax.Array, *args: object) -> np.ndarray:
    """`sample(key, *args)` as one compiled program, with the arguments fixed."""
    return np.asarray(jax.jit(lambda key: sample(key, *args))(key))


def equal_frequencies(counts: np.ndarray) -> None:
    """Chi-square test that all cells are equally likely."""
    assert stats.chisquare(counts).pvalue > ALPHA


def test_normal_draws() -> None:
    """Kolmogorov-Smirnov against N(0, 1), and no lag correlation beyond its standard error."""
    x = drawn(draws.normal, words(1), (200, 1000)).astype(np.float64)
    assert stats.kstest(x.ravel(), "norm").pvalue > ALPHA
    flat = x.ravel()
    limit = stats.norm.isf(ALPHA / 2) / np.sqrt(flat.size)
    for lag in (1, 1000):
        assert abs(np.mean(flat[:-lag] * flat[lag:])) < limit


def test_streams_are_independent() -> None:
    """Two named streams of one key are uncorrelated, and a name means the same in every process."""
    key = words(2)
    a = drawn(lambda key: draws.normal(draws.stream(key, "items"), (100_000,)), key).astype(np.float64)
    b = drawn(lambda key: draws.normal(draws.stream(key, "queries"), (100_000,)), key).astype(np.float64)
    assert abs(np.mean(a * b)) < stats.norm.isf(ALPHA / 2) / np.sqrt(a.size)
    # CRC-32 of the ASCII check string is a published constant.
    check = jax.random.fold_in(jax.random.wrap_key_data(key), np.uint32(0xCBF43926))
    np.testing.assert_array_equal(drawn(draws.stream, key, "123456789"), jax.random.key_data(check))


def test_integers_and_orders_are_uniform() -> None:
    equal_frequencies(np.bincount(drawn(draws.integers, words(3), 50_000, 37), minlength=37))
    orders = drawn(draws.orders, words(4), 12_000, 4)
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(4), (12_000, 1)))
    equal_frequencies(np.unique(orders, axis=0, return_counts=True)[1])
    assert len(np.unique(orders, axis=0)) == 24


def test_relevant_items_are_a_uniform_subset() -> None:
    """All 10 pairs of a topic of 5 items are equally likely to be the relevant ones."""
    topics = Topics(3, 5, 8, 0.0, 0.1, 0.1)
    topic = np.repeat(np.arange(3, dtype=np.int32), 4000)
    relevant = drawn(random_relevance, words(5), jnp.asarray(topic), topics, 2)
    for t in range(3):
        pair = relevant[topic == t][:, 5 * t : 5 * t + 5]
        patterns, counts = np.unique(pair, axis=0, return_counts=True)
        assert len(patterns) == 10
        equal_frequencies(counts)


def test_directions_are_uniform() -> None:
    """Without a separation to keep, centres are uniform on the sphere.

    One coordinate of a uniform direction in 3 dimensions is uniform on [-1, 1] (Archimedes), and so is the
    one along any other axis.
    """
    keys = jax.random.key_data(jax.random.split(jax.random.key(6), 300))
    centres, ok = jax.jit(lambda k: jax.lax.map(lambda key: separated_centres(key, 8, 3, 0.0), k))(keys)
    rows = np.asarray(centres, np.float64).reshape(-1, 3)
    assert np.asarray(ok).all()
    slanted = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, -2, 2]])
    for axis in slanted / np.linalg.norm(slanted, axis=1, keepdims=True):
        assert stats.kstest(rows @ axis, stats.uniform(-1, 2).cdf).pvalue > ALPHA / len(slanted)


def test_rejected_centres_follow_the_rejection_law() -> None:
    """Two centres with cosine below 0: their cosine is uniform on [-1, 0) in 3 dimensions."""
    keys = jax.random.key_data(jax.random.split(jax.random.key(7), 2000))
    centres, _ = jax.jit(lambda k: jax.lax.map(lambda key: separated_centres(key, 2, 3, 1.0), k))(keys)
    cosine = np.einsum("bd,bd->b", *np.moveaxis(np.asarray(centres, np.float64), 1, 0))
    assert stats.kstest(cosine, stats.uniform(-1, 1).cdf).pvalue > ALPHA


@pytest.mark.parametrize("scale", [0.05, 0.15])
def test_cosine_to_the_centre(scale: float) -> None:
    """The cosine of a noisy point to its centre has the law of an independent numpy simulation."""
    dim, n = 128, 4000
    centre = np.zeros(dim, np.float32)
    centre[3] = 1.0
    points = drawn(noisy, words(8), jnp.tile(jnp.asarray(centre), (n, 1)), scale).astype(np.float64)
    rng = np.random.default_rng(0)
    raw = centre + scale * rng.normal(size=(n, dim))
    expected = raw[:, 3] / np.linalg.norm(raw, axis=1)
    assert stats.ks_2samp(points[:, 3], expected).pvalue > ALPHA
    # Guard: a 5 % error of the noise would be seen.
    wrong = centre + 1.05 * scale * rng.normal(size=(n, dim))
    assert stats.ks_2samp(points[:, 3], wrong[:, 3] / np.linalg.norm(wrong, axis=1)).pvalue < ALPHA


def topics_of(name: str, **params: object) -> np.ndarray:
    """Topic of each query of one instance, read off a relevance of one item per topic."""
    workload = make(name, **params)
    relevance = jax.jit(lambda key: workload.generate(key).relevance)(jax.random.key(9))
    return np.asarray(relevance).argmax(axis=1)


def test_uniform_topics() -> None:
    """Topics of working_set are uniform, and so are pairs of neighbours: steps are independent."""
    topic = topics_of("working_set", items_per_topic=1, n_topics=12, n_steps=40_000)
    equal_frequencies(np.bincount(topic, minlength=12))
    equal_frequencies(np.bincount(topic[:-1:2] * 12 + topic[1::2], minlength=144))


@pytest.mark.parametrize("exponent", [1.2, 0.5])
def test_zipf_topics(exponent: float) -> None:
    """Frequencies follow p_r proportional to r^-exponent over 15 topics."""
    topic = topics_of("working_set", items_per_topic=1, n_steps=40_000, popularity="zipf", zipf_exponent=exponent)
    counts = np.bincount(topic, minlength=15)
    law = np.array([rank**-exponent for rank in range(1, 16)])
    assert stats.chisquare(counts, law / law.sum() * counts.sum()).pvalue > ALPHA
    nearby = np.array([rank ** -(exponent + 0.05) for rank in range(1, 16)])
    assert stats.chisquare(counts, nearby / nearby.sum() * counts.sum()).pvalue < ALPHA


def test_drifting_topics_are_uniform_in_their_phase() -> None:
    topic = topics_of("topic_drift", items_per_topic=1, phase_length=5000)
    for phase, drawn in enumerate(topic.reshape(6, 5000)):
        equal_frequencies(np.bincount(drawn - 4 * phase, minlength=5))


def test_preferred_pool_is_uniform_among_the_preferred() -> None:
    """Who fills the first slots is uniform over the relevant items, as in each of the authors' pools."""
    workload = make("retrieval_noise_static", n_topics=2, items_per_topic=6, n_queries=2, n_relevant=2)

    def first(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        instance = workload.generate(key)
        return instance.arrival[0], instance.relevance.any(axis=0)

    keys = jax.random.split(jax.random.key(10), 6000)
    item, relevant = map(np.asarray, jax.jit(lambda keys: jax.lax.map(first, keys))(keys))
    assert relevant[np.arange(6000), item].all()
    rank = np.cumsum(relevant, axis=1)[np.arange(6000), item] - 1
    for n in (3, 4):
        equal_frequencies(np.bincount(rank[relevant.sum(axis=1) == n], minlength=n))


def hit_rates(name: str, pool: str, capacities: tuple[int, ...], seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Hit rates at top-3 of the frozen pool of each capacity, by plain numpy, `[seeds, capacities]`.

    Returns those of `pool` and those of the uniform pool of the same items and queries.
    """
    generate = jax.jit(make(name, pool=pool).generate)
    uniform = make(name, pool="uniform").generate
    uniform_order = jax.jit(lambda key: uniform(key).arrival)
    rates = np.zeros((2, seeds, len(capacities)))
    for seed in range(seeds):
        key = jax.random.key(seed)
        instance = jax.tree.map(np.asarray, generate(key))
        cosine = instance.queries @ instance.items.T
        for p, order in enumerate((instance.arrival, np.asarray(uniform_order(key)))):
            for i, capacity in enumerate(capacities):
                held = order[:capacity]
                top = held[np.argpartition(-cosine[:, held], 2, axis=1)[:, :3]]
                rates[p, seed, i] = np.take_along_axis(instance.relevance, top, axis=1).any(axis=1).mean()
    return rates[0], rates[1]


def test_published_inverted_u_and_its_control() -> None:
    """The published hit rates of the frozen probe, and no fall at all when the pool is uniform.

    Theirs are means of 3 seeds x 1,000 queries; the tolerance is 3.5 standard errors of the difference (the
    binomial error is a lower bound of it, so the seed-to-seed deviation of ours is added).
    """
    capacities = (10, 100, 1000, 5000)
    published = np.array([0.015, 0.114, 0.201, 0.090])
    preferred, uniform = hit_rates("retrieval_noise_static", "preferred", capacities, 3)
    mean = preferred.mean(axis=0)
    error = np.sqrt(2 * published * (1 - published) / 3000 + preferred.var(axis=0, ddof=1) / 3)
    assert (abs(mean - published) < 3.5 * error).all(), (mean, published, error)
    assert (preferred[:, 2] > 1.5 * preferred[:, 3]).all()
    uniform = uniform.mean(axis=0)
    slack = 3.5 * np.sqrt(2 * uniform * (1 - uniform) / 3000)
    assert (uniform[1:] > uniform[:-1] - slack[1:]).all(), uniform


def test_stale_versions_fall_and_its_control() -> None:
    """Keeping old versions halves the hit rate; a uniform pool only rises.

    Closed form at full capacity: the top 3 of a topic's 100 exchangeable items contain one of the 20 current
    ones with probability 1 - C(80,3)/C(100,3), when no other topic interferes (in 128 dimensions none does).
    """
    capacities = (100, 1000, 5000)
    latest, uniform = hit_rates("stale_versions", "latest", capacities, 3)
    chance = 1 - (80 * 79 * 78) / (100 * 99 * 98)
    # The current items of a topic are shared by its queries: 50 topics x 3 seeds are the independent units.
    error = np.sqrt(chance * (1 - chance) / 150)
    assert abs(latest[:, 2].mean() - chance) < 3.5 * error
    assert (latest[:, 1] > 0.99).all()
    uniform = uniform.mean(axis=0)
    assert (uniform[1:] > uniform[:-1] - 3.5 * error).all(), uniform
