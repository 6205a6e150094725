"""Posterior-mean eviction: Thompson eviction without the sampling, to see what the sampling is worth."""

from __future__ import annotations

from jax import Array

from solarjax.core.types import Key, View
from solarjax.policies.combine import Victim
from solarjax.policies.slots import argmin_resident
from solarjax.policies.victims.thompson import ThompsonState, novelty, thompson


def posterior_mean(
    prior_alpha: Array | float,
    prior_beta: Array | float,
    bonus_weight: Array | float,
    age_step: Array | float,
    age_period: Array | float,
) -> Victim:
    """Evicts the argmin over residents of `alpha_i / (alpha_i + beta_i) + bonus_weight * novelty_i`.

    Prior, updates, ageing and novelty bonus are those of `solar_e` as released; only the draw theta_i ~ Beta is
    replaced by its mean, so nothing explores and the rule is deterministic.

    References:
      "When Classic Cache Policies Fail", section 4.3, of which this is the greedy ablation.
    """
    rule = thompson(
        bonus="none",
        ageing="global",
        clock="queries",
        forget="none",
        prior_alpha=prior_alpha,
        prior_beta=prior_beta,
        bonus_weight=0.0,
        age_scale=1.0,
        age_step=age_step,
        age_period=age_period,
        discount=1.0,
    )

    def choose(key: Key, state: ThompsonState, view: View) -> Array:
        del key  # deterministic
        mean = state.alpha / (state.alpha + state.beta)
        return argmin_resident(mean + bonus_weight * novelty(view), view)

    return rule._replace(choose=choose)
