"""Two textbook bandit rules that are no cache policies: they serve as yardsticks for the Thompson rule.

Both keep the mean of what an arm's observations said and choose the arm of least index, as a victim rule does.

References:
  Auer, Cesa-Bianchi, Fischer. Finite-time analysis of the multiarmed bandit problem. Machine Learning 47, 2002
  (UCB1, and epsilon-greedy with epsilon_t = min(1, c N / t)).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core import random
from solarjax.core.types import Key, Policy, View
from solarjax.policies.admission.always import always
from solarjax.policies.combine import Victim, combine
from solarjax.policies.slots import argmin_resident


class Tally(NamedTuple):
    """uses: `[N] f32` observations that counted as a use.  seen: `[N] f32` observations."""

    uses: Array
    seen: Array


def _tally(choose) -> Policy:
    def touch(state: Tally, view: View) -> Tally:
        used = view.touched.astype(jnp.float32)
        return Tally(state.uses + used, state.seen + used + view.disliked.astype(jnp.float32))

    def init(num_slots: int) -> Tally:
        return Tally(jnp.zeros(num_slots, jnp.float32), jnp.zeros(num_slots, jnp.float32))

    return combine(always(), Victim(init, touch, choose, lambda state, slot, view: state))


def _mean(state: Tally) -> Array:
    return state.uses / jnp.maximum(state.seen, np.float32(1))


def ucb(side: float = 1.0) -> Policy:
    """UCB1: the least of `mean + side * sqrt(2 log t / n)`; an unobserved arm has an infinite bonus.

    Args:
      side: +1 where choosing means giving an arm up (optimism keeps it), -1 where it means trying it.
    """

    def choose(key: Key, state: Tally, view: View) -> Array:
        del key  # deterministic
        t = jnp.maximum(view.query_count, 1).astype(jnp.float32)
        width = jnp.sqrt(2 * jnp.log(t) / jnp.maximum(state.seen, np.float32(1)))
        width = jnp.where(state.seen > 0, width, np.float32(1e9))
        return argmin_resident(_mean(state) + np.float32(side) * width, view)

    return _tally(choose)


def epsilon_greedy(c: float = 5.0) -> Policy:
    """The arm of least mean, but with probability `min(1, c N / t)` one at random."""

    def choose(key: Key, state: Tally, view: View) -> Array:
        u = random.uniform(key, 2)
        t = jnp.maximum(view.query_count, 1).astype(jnp.float32)
        size = view.size.astype(jnp.float32)
        pick = jnp.minimum((u[1] * size).astype(jnp.int32), view.size - np.int32(1))
        explore = u[0] * t < np.float32(c) * size
        return jnp.where(explore, pick, argmin_resident(_mean(state), view))

    return _tally(choose)
