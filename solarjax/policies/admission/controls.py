"""Content-blind admission rules: the controls every claim about a gate must beat.

A gate that is no better than a coin of the same rate, or than never changing a full cache, has not
shown that its signal matters.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from solarjax.core import random
from solarjax.core.types import Key, State, View
from solarjax.policies.combine import Admission


def bernoulli(p: Array | float, fill: str = "free") -> Admission:
    """Admits each arrival with probability p, whatever it is and whatever happened.

    Args:
      p: `[] f32` in [0, 1].
      fill: `free` admits everything while the cache is not full, `gated` flips the coin then too.
    """

    def decide(key: Key, state: State, view: View) -> tuple[State, Array]:
        heads = random.uniform(key, 1)[0] < p
        if fill == "free":
            heads = heads | (view.size < view.capacity)
        return state, view.has_candidate & heads

    return Admission(init=tuple, decide=decide)


def keep_first() -> Admission:
    """Admits until the cache is full, then never again."""

    def decide(key: Key, state: State, view: View) -> tuple[State, Array]:
        del key  # deterministic
        return state, view.has_candidate & (view.size < view.capacity)

    return Admission(init=tuple, decide=decide)


class ReservoirState(NamedTuple):
    """seen: `[] i32` new arrivals so far."""

    seen: Array


def reservoir() -> Admission:
    """Admits the n-th new arrival with probability min(1, K / n): with a uniform victim, a uniform sample.

    Duplicates of a resident neither count nor draw.

    References:
      Vitter. Random sampling with a reservoir. ACM TOMS 11(1), 1985 (algorithm R).
    """

    def init() -> ReservoirState:
        return ReservoirState(jnp.int32(0))

    def decide(key: Key, state: ReservoirState, view: View) -> tuple[ReservoirState, Array]:
        new = view.has_candidate & ~view.candidate_resident
        seen = state.seen + new.astype(jnp.int32)
        # u in (0, 1), so u * n < K is certain while n <= K.
        keep = random.uniform(key, 1)[0] * seen.astype(jnp.float32) < view.capacity.astype(jnp.float32)
        return ReservoirState(seen), new & keep

    return Admission(init=init, decide=decide)
