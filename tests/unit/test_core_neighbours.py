"""Lists of nearest neighbours, followed over many replacements, against all pairs sorted anew each time."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solarjax.core import neighbours
from solarjax.core.tables import item_cosines
from solarjax.core.types import View
from solarjax.policies.slots import nearest_mean, top_mean

ITEMS, LANES, WORKLOADS = 40, 7, 3


def cosines(tied: bool, seed: int) -> np.ndarray:
    """`[W, M, M] f32` symmetric; five different values if `tied`."""
    rng = np.random.default_rng(seed)
    size = (WORKLOADS, ITEMS, ITEMS)
    near = rng.choice([-0.5, 0.0, 0.25, 0.5, 1.0], size) if tied else rng.uniform(-1, 1, size)
    return (np.tril(near) + np.tril(near, -1).swapaxes(1, 2)).astype(np.float32)


def all_pairs(near: np.ndarray, table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """`[N, N, B]` cosines of residents, -inf on the diagonal and where empty."""
    size, lanes = ids.shape
    pairs = np.full((size, size, lanes), -np.inf, np.float32)
    for lane, (w, own) in enumerate(zip(table, ids.T, strict=True)):
        there = np.flatnonzero(own >= 0)
        pairs[there[:, None], there, lane] = near[w][own[there][:, None], own[there]]
        pairs[there, there, lane] = -np.inf
    return pairs


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("slots", "count"), [(1, 1), (2, 3), (4, 3), (9, 1), (9, 3), (16, 3)])
def test_lists_hold_the_nearest(slots: int, count: int, tied: bool) -> None:
    """Before every choice the first `count` of each list are the largest of all pairs, equal ones repeated. A lane that
    chooses nobody costs nothing: its lists stay as they are, even if they are short."""
    rng = np.random.default_rng(slots * 10 + count)
    near, table = cosines(tied, 1), np.arange(LANES, dtype=np.int32) % WORKLOADS
    full = np.maximum(slots - np.arange(LANES) % 3, 1)  # lanes of one block may differ in capacity
    ids = np.stack([np.where(np.arange(slots) < n, rng.permutation(ITEMS)[:slots], -1) for n in full], axis=-1)
    refresh = jax.jit(partial(neighbours.refresh, count=count))
    replace = jax.jit(neighbours.replace)
    lists = jnp.moveaxis(neighbours.empty(count, slots, LANES), 0, -1)
    for _ in range(60):
        ids = ids.astype(np.int32)
        needed, before = rng.random(LANES) < 0.7, lists
        lists = refresh(lists, near, table, ids, full.astype(np.int32), needed=needed)
        np.testing.assert_array_equal(lists[..., ~needed], before[..., ~needed])
        expected = -np.sort(-all_pairs(near, table, ids), axis=1)[:, :count].swapaxes(0, 1)
        expected = np.pad(expected, [(0, count - len(expected)), (0, 0), (0, 0)], constant_values=-np.inf)
        found = np.where(ids >= 0, lists[:count], -np.inf)
        np.testing.assert_array_equal(found[..., needed], expected[..., needed])
        slot = rng.integers(0, full).astype(np.int32)
        item = [rng.choice(np.setdiff1d(np.arange(ITEMS), ids[:, b])) for b in range(LANES)]
        lists = jnp.where(needed, replace(lists, near, table, ids, slot, np.asarray(item, np.int32)), lists)
        ids = ids.copy()  # the call above may still be reading it
        ids[slot[needed], np.arange(LANES)[needed]] = np.asarray(item)[needed]


@pytest.mark.parametrize("tied", [False, True])
def test_the_mean_has_the_bits_of_all_pairs(tied: bool) -> None:
    """`nearest_mean` of a list and `top_mean` of the whole row round alike, ties and short rows included."""
    rng = np.random.default_rng(2)
    rows = rng.choice([0.1, 0.3, 0.7], (500, 6)) if tied else rng.uniform(-1, 1, (500, 6))
    rows = np.where(rng.random((500, 6)) < 0.3, -np.inf, rows).astype(np.float32)
    best = -np.sort(-rows, axis=1)[:, :3].T
    view = _view(best)
    np.testing.assert_array_equal(jax.jit(lambda: nearest_mean(view, 3))(), jax.jit(partial(top_mean, count=3))(rows))


def _view(nearest: np.ndarray) -> View:
    """A view of which only `nearest` is read."""
    return View(*[None] * len(View._fields))._replace(nearest=jnp.asarray(nearest))  # type: ignore[arg-type]


@pytest.mark.parametrize(("items", "dim"), [(10, 128), (75, 128), (333, 128), (500, 128), (419, 384), (37, 7)])
def test_cosines_of_items_are_symmetric_to_the_bit(items: int, dim: int) -> None:
    """What lets a list be followed along the row of the item that came or went."""
    rows = np.random.default_rng(items).normal(size=(2, items, dim)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    near = np.asarray(jax.jit(lambda x: jax.lax.map(item_cosines, x))(rows))
    np.testing.assert_array_equal(near, near.swapaxes(1, 2))
