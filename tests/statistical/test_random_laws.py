"""The random numbers: bit-equal to JAX's generator, and draws that follow their law.

Every statistical test has a fixed key and states its false-alarm rate; families are corrected by Bonferroni.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from solarjax.core import random

ALPHA = 1e-3
"""False-alarm rate of a family of tests."""
SHAPES = ((2.0, 1.0), (1.0, 1.0), (0.5, 0.5), (0.3, 2.0), (30.0, 2.0), (1.0, 60.0), (3.05, 1.15))
LANES, SLOTS = 2000, 50


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    """`[shapes, LANES, SLOTS]`: one compilation for all parameters, one key per lane."""
    keys = jax.random.key_data(jax.random.split(jax.random.key(20261130), LANES))

    @jax.jit
    def sample(a: jax.Array, b: jax.Array) -> jax.Array:
        def one(key: jax.Array) -> jax.Array:
            return random.beta(key, jnp.full(SLOTS, a), jnp.full(SLOTS, b), jnp.ones(SLOTS, bool))

        return jax.vmap(one)(keys)

    return np.stack([sample(jnp.float32(a), jnp.float32(b)) for a, b in SHAPES]).astype(np.float64)


def test_fold_in_and_bits_are_jax_own() -> None:
    for seed in (0, 7, 2**31):
        key = jax.random.key(seed)
        words = random.key_words(key)
        for data in (0, 1, 123456, 2**32 - 1):
            expected = jax.random.key_data(jax.random.fold_in(key, np.uint32(data)))
            np.testing.assert_array_equal(random.fold_in(words, np.uint32(data)), expected)
        for n in (1, 2, 33, 1000):
            np.testing.assert_array_equal(random.bits(words, n), jax.random.bits(key, (n,)))


def test_threefry_known_answers() -> None:
    """Test vectors published with the Random123 library (threefry2x32, 20 rounds)."""
    vectors = (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    )
    for key, counter, expected in vectors:
        got = random.threefry2x32(*(jnp.uint32(x) for x in (*key, *counter)))
        assert tuple(int(x) for x in got) == expected


def test_open_unit_excludes_both_ends() -> None:
    ends = np.asarray(random.open_unit(jnp.asarray([0, 2**32 - 1], jnp.uint32)))
    assert 0 < ends[0] < 1e-7
    assert 1 - 1e-7 < ends[1] < 1


@pytest.mark.parametrize("index", range(len(SHAPES)))
def test_beta_law(draws: np.ndarray, index: int) -> None:
    """Kolmogorov-Smirnov against scipy, n = 100,000; false alarm 1e-3 over the family."""
    a, b = SHAPES[index]
    assert stats.kstest(draws[index].ravel(), stats.beta(a, b).cdf).pvalue > ALPHA / len(SHAPES)


@pytest.mark.parametrize("index", range(len(SHAPES)))
def test_beta_moments(draws: np.ndarray, index: int) -> None:
    """Mean and variance within the standard error that scipy's moments imply; two-sided, Bonferroni."""
    law = stats.beta(*SHAPES[index])
    x = draws[index].ravel()
    limit = stats.norm.isf(ALPHA / len(SHAPES) / 4)
    mean, var, kurtosis = (float(m) for m in law.stats(moments="mvk"))
    assert abs(x.mean() - mean) < limit * np.sqrt(var / x.size)
    assert abs(x.var() - var) < limit * np.sqrt(var**2 * (kurtosis + 2) / x.size)


def test_a_slightly_wrong_sampler_is_rejected(draws: np.ndarray) -> None:
    """The test has power: Beta(2, 1.03) passed off as Beta(2, 1), and a gamma ratio without rejection."""
    rng = np.random.default_rng(1)
    limit = ALPHA / len(SHAPES)
    assert stats.kstest(rng.beta(2, 1.03, draws[0].size), stats.beta(2, 1).cdf).pvalue < limit

    def never_rejected(shape: float) -> np.ndarray:
        d = shape - 1 / 3
        return d * np.maximum(1 + rng.normal(size=draws[0].size) / np.sqrt(9 * d), 0) ** 3

    x, y = never_rejected(2.0), never_rejected(1.0)
    assert stats.kstest(x / (x + y), stats.beta(2, 1).cdf).pvalue < limit


def test_slots_and_lanes_are_independent(draws: np.ndarray) -> None:
    """Correlation between neighbouring slots and between neighbouring lanes; false alarm 1e-3 over the family."""
    limit = stats.norm.isf(ALPHA / len(SHAPES) / 4)
    for x in draws:
        z = (x - x.mean()) / x.std()
        for left, right in ((z[:, :-1], z[:, 1:]), (z[:-1], z[1:])):
            assert abs((left * right).mean()) * np.sqrt(left.size) < limit


def test_masked_slots_are_zero_and_change_nothing() -> None:
    key = random.key_words(jax.random.key(3))
    ones = jnp.ones(8, jnp.float32)
    whole = np.asarray(random.beta(key, 2 * ones, ones, jnp.ones(8, bool)))
    half = np.asarray(random.beta(key, 2 * ones, ones, jnp.arange(8) < 4))
    np.testing.assert_array_equal(half[:4], whole[:4])
    assert not half[4:].any()
    assert len(set(whole)) == 8


def test_a_slot_draws_the_same_in_any_company() -> None:
    """A parameter below 1 elsewhere (which needs another step) does not change a slot's bits."""
    key = random.key_words(jax.random.key(4))
    plain = jnp.asarray([2.0, 3.0, 1.0, 7.0], jnp.float32)
    mixed = plain.at[2].set(0.4)
    there = jnp.ones(4, bool)
    first = np.asarray(random.beta(key, plain, plain, there))
    second = np.asarray(random.beta(key, mixed, plain, there))
    np.testing.assert_array_equal(first[[0, 1, 3]], second[[0, 1, 3]])
    assert first[2] != second[2]
