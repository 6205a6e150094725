"""What distinguishes lanes, what is fixed for a compilation, and how lanes are mapped and gathered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.lanes_last import lanes_last
from solarjax.core.types import Policy


class Lanes(NamedTuple):
    """What distinguishes the lanes of a block. Lane axis last.

    table: `[B] i32` index W into `Tables`.   pair: `[B] i32` index P into `Schedule`.
    capacity: `[B] i32` K.                    key: `[2, B] u32` policy key words of the lane.
    params: name -> `[B] f32` traced hyper-parameters.
    """

    table: Array
    pair: Array
    capacity: Array
    key: Array
    params: Mapping[str, Array]


class Rules(NamedTuple):
    """Static facts of a rollout; a new value means a new compilation.

    make(**params) -> Policy for one lane.    num_slots: N.     k: retrieval depth.
    quality: the `Scores` field whose complement is the miss cost.
    feedback: `retrieved` (every retrieved slot is touched), `liked` (only when the answer was good: quality >=
        `like_at`), or `liked_disliked` (also reports the others as disliked).
    costly_victim, candidate_similarity, pairwise, nearest, future, coverage: what the policy needs
      (`policies.registry.Needs`).
    availability: count queries whose relevant items include a resident (one more gather per step).
    categories: number of query categories, 0 for none.     per_step: return an `Outcome` per step.
    """

    make: Callable[..., Policy]
    num_slots: int
    k: int = 3
    quality: str = "hit"
    feedback: str = "retrieved"
    like_at: float = 0.5
    costly_victim: bool = False
    candidate_similarity: bool = False
    pairwise: bool = False
    nearest: int = 0
    future: bool = False
    coverage: bool = False
    availability: bool = False
    categories: int = 0
    per_step: bool = False


def over_lanes(fn: Callable, *args: Any, size: int) -> Any:
    """A one-lane function over the last axis of every leaf."""
    return lanes_last(fn, size)(*args)


def take(table: Array, row: Array, ids: Array) -> Array:
    """Element (row, id) of `table [R1, R2, M]` seen as R1 * R2 rows; negative ids read entry 0.

    Rows and ids broadcast against each other. The caller masks what it read for absent ids.
    """
    index = row * np.int32(table.shape[-1]) + jnp.maximum(ids, 0)
    return table.reshape(-1).at[index].get(mode="promise_in_bounds")


def row_of(table: Array, major: Array, lanes_table: Array) -> Array:
    """Row number of (major index, workload) in a table `[major, W, ...]`; a negative major index reads row 0."""
    return jnp.maximum(major, 0) * np.int32(table.shape[1]) + lanes_table
