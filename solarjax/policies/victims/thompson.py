"""Beta-Thompson victim rule: evict the resident whose sampled usefulness is least.

References:
  "When Classic Cache Policies Fail", section 4.3, and the authors' release; they differ in the novelty bonus (age
  decay against similarity), in the ageing clock and in the prior, so each is a parameter here.
  Thompson. On the likelihood that one unknown probability exceeds another. Biometrika 25, 1933.
  Raj, Kalyani. Taming non-stationary bandits: a Bayesian approach. 2017 (discounted Thompson sampling).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core import random
from solarjax.core.types import Key, View, given
from solarjax.policies.combine import Victim
from solarjax.policies.slots import argmin_resident, at_slot, nearest_mean

BONUSES = ("similarity", "age", "similarity_age", "none")
AGEINGS = ("global", "idle", "none")
FORGETS = ("none", "discount")
NOVELTY_NEIGHBOURS = 3
"""Nearest other residents whose mean cosine is the opposite of novelty."""


class ThompsonState(NamedTuple):
    """alpha, beta: `[N] f32` posterior parameters.  last_retrieved: `[N] i32` query count at the last retrieval or
    insertion, None unless ageing is `idle`.  born: `[N] i32` clock at insertion, None unless the bonus ages."""

    alpha: Array
    beta: Array
    last_retrieved: Array | None
    born: Array | None


def novelty(view: View) -> Array:
    """`[N] f32`: clip(1 - mean cosine to the 3 nearest OTHER residents, 0, 1); fewer if fewer; 0.5 alone."""
    mean = nearest_mean(view, NOVELTY_NEIGHBOURS)
    return jnp.where(view.size > 1, jnp.clip(1 - mean, 0, 1), np.float32(0.5))


def thompson(
    bonus: str,
    ageing: str,
    clock: str,
    forget: str,
    prior_alpha: Array | float,
    prior_beta: Array | float,
    bonus_weight: Array | float,
    age_scale: Array | float,
    age_step: Array | float,
    age_period: Array | float,
    discount: Array | float,
) -> Victim:
    """Evicts the argmin over residents of `theta_i + bonus_i`, theta_i ~ Beta(alpha_i, beta_i).

    Updates: touched alpha + 1; disliked beta + 1 (only under that feedback).
    Ageing: `global` adds `age_step` to beta of every resident not retrieved, on every `age_period`-th query (release);
      `idle` adds it to a resident each time it has gone another `age_period` queries without being retrieved (paper).
    Bonus: `similarity` = weight * novelty (release); `age` = weight * exp(-age / age_scale) (paper);
      `similarity_age` = their product; age in steps or in queries (`clock`).
    Forget: `discount` lets both parameters decay to the prior by `discount` at each query, before the update.
    """

    def init(num_slots: int) -> ThompsonState:
        zeros = jnp.zeros(num_slots, jnp.int32)
        return ThompsonState(
            alpha=jnp.full(num_slots, prior_alpha, jnp.float32),
            beta=jnp.full(num_slots, prior_beta, jnp.float32),
            last_retrieved=zeros if ageing == "idle" else None,
            born=zeros if bonus in ("age", "similarity_age") else None,
        )

    def touch(state: ThompsonState, view: View) -> ThompsonState:
        alpha, beta = state.alpha, state.beta
        if forget == "discount":
            alpha = jnp.where(view.has_query, prior_alpha + (alpha - prior_alpha) * discount, alpha)
            beta = jnp.where(view.has_query, prior_beta + (beta - prior_beta) * discount, beta)
        alpha = alpha + view.touched.astype(jnp.float32)
        beta = beta + view.disliked.astype(jnp.float32)
        period = jnp.asarray(age_period).astype(jnp.int32)
        last = state.last_retrieved
        if ageing == "global":
            due = view.has_query & (view.query_count % period == 0)
            beta = beta + jnp.where(view.occupied & ~view.retrieved & due, age_step, np.float32(0))
        elif ageing == "idle":
            last = jnp.where(view.retrieved, view.query_count, given(last, "last_retrieved"))
            idle = view.query_count - last
            due = view.has_query & view.occupied & (idle > 0) & (idle % period == 0)
            beta = beta + jnp.where(due, age_step, np.float32(0))
        return state._replace(alpha=alpha, beta=beta, last_retrieved=last)

    def choose(key: Key, state: ThompsonState, view: View) -> Array:
        theta = random.beta(key, state.alpha, state.beta, view.occupied)
        extra = jnp.zeros_like(theta)
        if bonus in ("similarity", "similarity_age"):
            extra = novelty(view)
        if bonus in ("age", "similarity_age"):
            age = (_now(view, clock) - given(state.born, "born")).astype(jnp.float32)
            decay = jnp.exp(-age / age_scale)
            extra = decay if bonus == "age" else extra * decay
        return argmin_resident(theta + bonus_weight * extra, view)

    def insert(state: ThompsonState, slot: Array, view: View) -> ThompsonState:
        here = at_slot(slot, len(view.occupied))
        last, born = state.last_retrieved, state.born
        return ThompsonState(
            alpha=jnp.where(here, prior_alpha, state.alpha),
            beta=jnp.where(here, prior_beta, state.beta),
            last_retrieved=None if last is None else jnp.where(here, view.query_count, last),
            born=None if born is None else jnp.where(here, _now(view, clock), born),
        )

    return Victim(init, touch, choose, insert)


def _now(view: View, clock: str) -> Array:
    return view.t if clock == "steps" else view.query_count
