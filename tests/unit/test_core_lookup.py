"""Top-k against a numpy sort, with and without ties, and the tricks that keep XLA from recomputing."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solarjax.core.lookup import _top_k_with_ties, materialize, settle, top_k
from solarjax.core.store import EMPTY_ORDER
from solarjax.core.types import NO_SLOT

LANES = 96


def cache(slots: int, tied: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Similarities and insertion keys `[N, B]`: every fill level, equal values if `tied`."""
    rng = np.random.default_rng(seed)
    similarity = rng.choice([-1, -0.5, 0, 0.25, 1], (slots, LANES)) if tied else rng.uniform(-1, 1, (slots, LANES))
    number = rng.permuted(np.tile(np.arange(slots * 3)[:, None], LANES), axis=0)[:slots]
    order = number * slots + np.arange(slots)[:, None]
    empty = np.arange(slots)[:, None] >= np.arange(LANES) % (slots + 1)
    return (
        np.where(empty, -np.inf, similarity).astype(np.float32),
        np.where(empty, EMPTY_ORDER, order).astype(np.int32),
    )


def by_sorting(similarity: np.ndarray, order: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same by `np.lexsort`: largest similarity first, then smallest insertion key."""
    slots, lanes = similarity.shape
    ranked, values = np.full((k, lanes), NO_SLOT, np.int32), np.full((k, lanes), -np.inf, np.float32)
    mask = np.zeros((slots, lanes), bool)
    for b in range(lanes):
        best = [s for s in np.lexsort((order[:, b], -similarity[:, b])) if similarity[s, b] > -np.inf][:k]
        ranked[: len(best), b], values[: len(best), b] = best, similarity[best, b]
        mask[best, b] = True
    return ranked, values, mask


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("tied", [False, True])
def test_top_k(k: int, tied: bool) -> None:
    """7 slots go through the packed pass (ties through its exact loop); 70 slots need 7 bits a rank, so k = 5 does
    not fit one integer and takes the exact rule at once."""
    for slots in (7, 70) if k in (3, 5) else (7,):
        similarity, order = cache(slots, tied, seed=k)
        found = jax.jit(partial(top_k, k=k))(similarity, order)
        for got, expected in zip(found, by_sorting(similarity, order, k), strict=True):
            np.testing.assert_array_equal(got, expected)
        held = [column[column > -np.inf] for column in similarity.T]
        assert any(len(np.unique(column)) < len(column) for column in held) == tied


def test_both_ways_agree_in_one_lane() -> None:
    """Without ties in the whole block the packed pass answers, with one tied lane beside it the exact rule."""
    similarity, order = cache(7, False, seed=9)
    tied = similarity.copy()
    tied[:, 7] = 0.5
    plain, mixed = (jax.jit(partial(top_k, k=3))(s, order) for s in (similarity, tied))
    exact = _top_k_with_ties(jnp.asarray(similarity), jnp.asarray(order), 3)
    others = np.arange(LANES) != 7
    for a, b, c in zip(plain, mixed, exact, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(np.asarray(a)[:, others], np.asarray(b)[:, others])


def test_materialize_and_settle_return_what_they_are_given() -> None:
    values = jnp.asarray(np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32))
    true, one = jnp.bool_(True), jnp.int32(1)
    np.testing.assert_array_equal(
        jax.jit(lambda x, t: materialize(lambda: jnp.sin(x), t))(values, true), jnp.sin(values)
    )
    for numbers in (np.array([-(2**31), -1, 0, 7, 2**31 - 1], np.int32), np.array([True, False, True])):
        got = jax.jit(settle)(numbers, one)
        assert got.dtype == numbers.dtype
        np.testing.assert_array_equal(got, numbers)
