"""Points on the unit sphere: separated topic centres and noisy copies of them."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import betainc

from solarjax.core import random
from solarjax.core.params import Param
from solarjax.core.types import Key
from solarjax.workloads.draws import normal
from solarjax.workloads.types import WorkloadError

MAX_TRIES = 10_000
"""Directions drawn for one centre before the instance is given up (`Instance.ok` turns False)."""


def count(default: int, doc: str, low: int = 1, high: int = 1_000_000) -> Param:
    """A whole-number parameter that fixes a shape."""
    return Param(default, doc, low=low, high=high, static=True)


def geometry_params(*, min_sep: float = 0.5, item_noise: float = 0.1, query_noise: float = 0.05) -> dict[str, Param]:
    """The parameters every workload shares, with this workload's defaults."""
    return {
        "dim": count(128, "embedding dimensions D", high=4096),
        "min_sep": Param(
            min_sep, "topic centres have pairwise cosine below 1 - min_sep", low=0.0, high=2.0, static=True
        ),
        "item_noise": Param(
            item_noise, "noise of an item, standard deviation per dimension", low=0.0, high=100.0, static=True
        ),
        "query_noise": Param(
            query_noise,
            "noise of a query, standard deviation per dimension",
            low=0.0,
            high=100.0,
            static=True,
        ),
    }


def unit(rows: Array) -> Array:
    """Rows `[..., D] f32` scaled to unit length."""
    return rows / jnp.sqrt(jnp.sum(rows * rows, axis=-1, keepdims=True))


def noisy(key: Key, centres: Array, scale: float) -> Array:
    """`normalise(centre + N(0, scale^2 I))` for each row of `centres` `[n, D] f32`; consumes `key`."""
    return unit(centres + np.float32(scale) * normal(key, centres.shape))


def max_separated(dim: int, min_sep: float) -> float:
    """An upper bound on how many unit vectors can have pairwise cosine below `1 - min_sep`.

    For a negative limit c the vectors number at most `1 - 1/c` (their sum has a non-negative norm). Otherwise
    the open caps of half the separation angle around them are disjoint, so their areas add up to at most the
    sphere. In two dimensions that is exact; beyond, it only rules out what is provably impossible.
    """
    limit = 1.0 - min_sep
    if limit <= -1.0:
        return 1  # even an opposite pair has cosine -1, which is not below it
    if dim == 1:
        return 2
    bound = math.inf if limit >= 0.0 else 1.0 - 1.0 / limit
    half_angle = math.acos(limit) / 2.0
    if half_angle > 0.0:
        cap = 0.5 * float(betainc((dim - 1) / 2.0, 0.5, math.sin(half_angle) ** 2))
        bound = min(bound, 1.0 / cap if cap > 0.0 else math.inf)
    return bound


def check_separable(name: str, n: int, dim: int, min_sep: float) -> None:
    """Refuses, on the host, centres that provably do not fit.

    Raises:
      WorkloadError: if `n` unit vectors in `dim` dimensions cannot have pairwise cosine below `1 - min_sep`.
    """
    bound = max_separated(dim, min_sep)
    if n > bound + 1e-9:
        raise WorkloadError(
            f"{name}: {n} topic centres in {dim} dimensions cannot all have cosines below 1 - min_sep = "
            f"{1.0 - min_sep:g}, at most {math.floor(bound + 1e-9)} can; change n_topics, min_sep or dim"
        )


def separated_centres(key: Key, n: int, dim: int, min_sep: float) -> tuple[Array, Array]:
    """Uniform directions, each redrawn until its cosine to every earlier one is below `1 - min_sep`.

    Sequential rejection: the first centre is uniform, a later one is uniform on what the earlier leave free.

    Args:
      key: `[2] u32`, consumed.
      n: number of centres.
      dim: D.
      min_sep: cosines stay below `1 - min_sep`.

    Returns:
      centres: `[n, D] f32`, unit rows.
      ok: `[] bool`, False if one centre found no room in `MAX_TRIES` draws: the earlier ones can jam even
        where `check_separable` allows the number. The later ones are then not placed either.
    """
    limit = 1.0 - min_sep
    number = jnp.arange(n, dtype=jnp.int32)

    def place(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        centres, ok = carry
        key_i = random.fold_in(key, i)

        def searching(search: tuple[Array, Array, Array]) -> Array:
            tries, _, fits = search
            return ok & ~fits & (tries < MAX_TRIES)

        def draw(search: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            tries, _, _ = search
            centre = unit(normal(random.fold_in(key_i, tries), (dim,)))
            # Full precision: an accelerator's default product may round a cosine across the limit.
            cosine = jnp.dot(centres, centre, precision=jax.lax.Precision.HIGHEST)
            return tries + 1, centre, jnp.all((cosine < limit) | (number >= i))

        start = (jnp.int32(0), centres[i], jnp.bool_(False))
        _, centre, fits = jax.lax.while_loop(searching, draw, start)
        return centres.at[i].set(centre), fits

    # Centres start as a unit vector, so that an instance given up stays finite.
    start = jnp.zeros((n, dim), jnp.float32).at[:, 0].set(1.0)
    return jax.lax.fori_loop(0, n, place, (start, jnp.bool_(True)))
