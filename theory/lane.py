"""A registered policy taken out of the engine: its functions for one lane, and the view of a full cache.

The theory's worlds have no embeddings: they say outright which residents were of use. The policies are those of
`solarjax.policies.registry`, never rewritten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import NO_SLOT, Policy, Scores, View
from solarjax.policies.registry import PolicyCase

ENVIRONMENT_STREAM = 2
"""`fold_in` constant of a world's own draws; the engine uses 1 for the victim's."""


def policy_of(case: PolicyCase, **traced: Any) -> Policy:
    """The policy of a checked case; `traced` replaces numeric parameters by traced values."""
    numbers = {name: np.float32(value) for name, value in case.traced} | traced
    return case.spec.make(**dict(case.static), **numbers)


def over_lanes(fn: Callable, *args: Any, size: int) -> Any:
    """`vmap` of a one-lane function over the last axis of every leaf: a CPU then vectorises over lanes."""
    return jax.vmap(fn, in_axes=-1, out_axes=-1, axis_size=size)(*args)


def full_view(
    *,
    t: Array,
    queries: Array,
    offers: Array,
    ids: Array,
    inserted: Array,
    retrieved: Array,
    touched: Array,
    disliked: Array,
    miss: Array,
    candidate: Array,
    resident_similarity: Array | None = None,
) -> View:
    """The view of a full cache of N = K slots whose query found `retrieved`.

    Args:
      t, queries, offers: `[] i32` clocks.          ids, inserted: `[N] i32`, see `View`.
      retrieved, touched, disliked: `[N] bool`.     miss: `[] f32`.
      candidate: `[] i32` the arriving item, NO_ITEM for none.
      resident_similarity: `[N, N] f32` for rules with a similarity bonus.
    """
    size = ids.shape[0]
    full = jnp.int32(size)
    quality = 1 - miss
    return View(
        t=t,
        query_count=queries,
        offer_count=offers,
        capacity=full,
        size=full,
        occupied=jnp.ones(size, bool),
        resident_id=ids,
        inserted=inserted,
        free_slot=jnp.int32(NO_SLOT),
        has_query=t >= 0,
        similarity=jnp.where(retrieved, np.float32(1), np.float32(0)),
        retrieved=retrieved,
        # One rank per slot, so every retrieved resident stands in it; the order of equals says nothing.
        retrieved_slots=jnp.where(retrieved, jnp.arange(size, dtype=jnp.int32), np.int32(NO_SLOT)),
        touched=touched,
        disliked=disliked,
        miss=miss,
        scores=Scores(*[quality] * len(Scores._fields)),
        has_candidate=candidate >= 0,
        candidate_id=candidate,
        candidate_resident=((ids == candidate) & (candidate >= 0)).any(),
        resident_similarity=resident_similarity,
    )
