"""SOLAR and its ablations, as compositions of an admission rule and a victim rule.

Reference: "When Classic Cache Policies Fail: Learning-Augmented Replacement for Semantic Retrieval Buffers"
(arXiv 2607.00394), sections 4 and 6.1.2. Defaults are those of the authors' release; the paper's printed rules are
the named variants `solar_paper` and `solar_e_paper`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solarjax.core.params import Param
from solarjax.core.types import Policy
from solarjax.policies.admission.always import always
from solarjax.policies.admission.regret_gate import FILLS, SIGNALS, THRESHOLDS, regret_gate
from solarjax.policies.combine import combine
from solarjax.policies.victims.fifo import fifo
from solarjax.policies.victims.thompson import AGEINGS, BONUSES, FORGETS, thompson
from solarjax.policies.victims.weighted_value import weighted_value

GATE_PARAMS: Mapping[str, Param] = {
    "threshold": Param("release", "threshold rule of the gate", choices=THRESHOLDS, static=True),
    "signal": Param("information_gain", "loss that the gate accumulates", choices=SIGNALS, static=True),
    "fill": Param("bootstrap", "what is admitted regardless while filling up", choices=FILLS, static=True),
    "lam": Param(5.0, "switching cost in the threshold, in units of miss cost", low=1e-6),
    "ema": Param(0.1, "step of the paper's moving averages", low=0.0, high=1.0),
    "tau0": Param(0.5, "initial threshold of paper_ema", low=0.0),
    "tau_per_lam": Param(2.0, "threshold of `fixed` over lam (Theorem 3: 2)", low=0.0),
}
THOMPSON_PARAMS: Mapping[str, Param] = {
    "bonus": Param("similarity", "novelty bonus", choices=BONUSES, static=True),
    "ageing": Param("global", "clock of the ageing term", choices=AGEINGS, static=True),
    "clock": Param("steps", "unit of a resident's age in the bonus", choices=("steps", "queries"), static=True),
    "forget": Param("none", "decay of the posterior to the prior", choices=FORGETS, static=True),
    "prior_alpha": Param(2.0, "alpha on insertion", low=1e-3),
    "prior_beta": Param(1.0, "beta on insertion", low=1e-3),
    "bonus_weight": Param(0.3, "weight of the novelty bonus", low=0.0),
    "age_scale": Param(20.0, "e-folding age of the bonus, in `clock` units", low=1e-3),
    "age_step": Param(0.05, "beta increment of ageing", low=0.0),
    "age_period": Param(5, "queries between ageing steps", low=1),
    "discount": Param(0.99, "factor per query under forget=discount", low=0.0, high=1.0),
}
WEIGHTED_PARAMS: Mapping[str, Param] = {
    "recency_weight": Param(0.4, "weight of recency", low=0.0),
    "frequency_weight": Param(0.3, "weight of access frequency", low=0.0),
    "novelty_weight": Param(0.3, "weight of novelty", low=0.0),
    "recency_scale": Param(100.0, "e-folding idle time, in steps", low=1e-3),
}


def split(params: Mapping[str, Any], names: Mapping[str, Param]) -> dict[str, Any]:
    """The part of `params` that belongs to one rule."""
    return {name: params[name] for name in names}


def solar(**params: Any) -> Policy:
    """Regret-gated admission, Thompson eviction: the full framework."""
    return combine(regret_gate(**split(params, GATE_PARAMS)), thompson(**split(params, THOMPSON_PARAMS)))


def solar_a(**params: Any) -> Policy:
    """Admission only: the regret gate with weighted-value eviction."""
    return combine(regret_gate(**split(params, GATE_PARAMS)), weighted_value(**split(params, WEIGHTED_PARAMS)))


def solar_e(**params: Any) -> Policy:
    """Eviction only: admits everything, Thompson eviction."""
    return combine(always(), thompson(**split(params, THOMPSON_PARAMS)))


def gated_fifo(**params: Any) -> Policy:
    """The regret gate with FIFO eviction: admission alone, without a second novelty."""
    return combine(regret_gate(**split(params, GATE_PARAMS)), fifo())
