"""Helpers on slot arrays against plain numpy, ties included."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from solarjax.core.store import EMPTY_ORDER
from solarjax.policies.slots import argmin_resident, at_slot, earliest, top_mean

SLOTS = 6
coarse = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0, -np.inf])
fixed = settings(max_examples=200, derandomize=True, database=None, deadline=None)
top_means = {count: jax.jit(partial(top_mean, count=count)) for count in (1, 3, 5)}


@fixed
@given(hnp.arrays(np.float32, (4, SLOTS), elements=coarse), st.sampled_from([1, 3, 5]))
def test_top_mean(values: np.ndarray, count: int) -> None:
    """Equal values count as often as they occur; missing ones do not; nothing gives 0."""
    got = top_means[count](values)
    for row, mean in zip(values, got, strict=True):
        best = np.sort(row[row > -np.inf])[::-1][:count]
        np.testing.assert_allclose(mean, best.mean() if len(best) else 0, rtol=1e-6)


def test_a_tie_elsewhere_changes_no_bit() -> None:
    """Rows without equal values have the same bits whether or not another row has some."""
    rows = np.random.default_rng(0).normal(size=(50, SLOTS)).astype(np.float32)
    tied = np.vstack([rows, np.full((1, SLOTS), 0.1, np.float32)])
    alone, beside = (np.asarray(top_means[3](x)) for x in (rows, tied))
    np.testing.assert_array_equal(alone, beside[:-1])
    assert beside[-1] == pytest.approx(0.1)


def view(occupied: np.ndarray, number: np.ndarray) -> Any:
    """The two fields that the helpers read."""
    order = np.where(occupied, number * SLOTS + np.arange(SLOTS), EMPTY_ORDER).astype(np.int32)
    return SimpleNamespace(occupied=jnp.asarray(occupied), inserted=jnp.asarray(order))


@fixed
@given(
    hnp.arrays(np.float32, SLOTS, elements=coarse.filter(np.isfinite)),
    st.integers(1, SLOTS),
    st.permutations(range(SLOTS)),
    st.booleans(),
)
def test_argmin_and_earliest(score: np.ndarray, size: int, number: list[int], integral: bool) -> None:
    """Smallest score, then smallest insertion number, among the occupied."""
    occupied = np.arange(SLOTS) < size
    here = view(occupied, np.array(number))
    score = (score * 4).astype(np.int32) if integral else score
    expected = min(range(size), key=lambda s: (score[s], number[s]))
    assert argmin_resident(jnp.asarray(score), here) == expected
    assert earliest(jnp.asarray(occupied & (score == score[expected])), here) == expected


def test_at_slot() -> None:
    assert at_slot(jnp.int32(2), 4).tolist() == [False, False, True, False]
    assert not at_slot(jnp.int32(-1), 4).any()
