"""Slow plain-Python policies, written from the specification, that the engine is compared with.

steps = simulate(trace, "solar_a", {"lam": 5.0}, capacity=10)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.oracles.arc import Arc
from tests.oracles.clairvoyant import Clairvoyant, Cover
from tests.oracles.classic import Always, Fifo, Lfu, Lru, Random
from tests.oracles.controls import Bernoulli, KeepFirst, Reservoir
from tests.oracles.diversity import KCenter, PosteriorMean, Redundancy
from tests.oracles.frequency import Gdsf, LruK, WTinyLfu
from tests.oracles.gates import RegretGate
from tests.oracles.queues import S3Fifo, Sieve, TwoQ
from tests.oracles.simulator import Composed, Draws, Moment, Rule, Step, World, run
from tests.oracles.thompson import Thompson
from tests.oracles.weighted_value import WeightedValue

__all__ = ["ORACLES", "Draws", "Moment", "Rule", "Step", "World", "run", "simulate"]

_GATE = ("threshold", "signal", "fill", "lam", "ema", "tau0", "tau_per_lam")
_PRINTED_GATE = {"threshold": "paper_ema", "signal": "miss", "fill": "gated"}
_PRINTED_THOMPSON = {
    "bonus": "age",
    "ageing": "idle",
    "clock": "queries",
    "prior_alpha": 1.0,
    "prior_beta": 1.0,
    "age_period": 10,
}


def _gated(eviction: Callable[..., Rule], **defaults: Any) -> Callable[..., Rule]:
    def make(**params: Any) -> Rule:
        params = {**defaults, **params}
        gate = {name: value for name, value in params.items() if name in _GATE}
        rest = {name: value for name, value in params.items() if name not in _GATE}
        return Composed(RegretGate(**gate), eviction(**rest))

    return make


def _ungated(eviction: Callable[..., Rule], **defaults: Any) -> Callable[..., Rule]:
    return lambda **params: Composed(Always(), eviction(**{**defaults, **params}))


def _miss_gate(threshold: str) -> dict[str, str]:
    return {"threshold": threshold, "signal": "miss", "fill": "gated"}


ORACLES: dict[str, Callable[..., Rule]] = {
    "unlimited": _ungated(Fifo),
    "fifo": _ungated(Fifo),
    "lru": _ungated(Lru),
    "lfu": _ungated(Lfu),
    "arc": Arc,
    "random": _ungated(Random),
    "solar_e": _ungated(Thompson),
    "solar_a": _gated(WeightedValue),
    "solar": _gated(Thompson),
    "solar_paper": _gated(Thompson, **_PRINTED_GATE, **_PRINTED_THOMPSON),
    "solar_eoq": _gated(Thompson, **_miss_gate("eoq")),
    "solar_fixed": _gated(Thompson, **_miss_gate("fixed")),
    "solar_e_paper": _ungated(Thompson, **_PRINTED_THOMPSON),
    "solar_e_discounted": _ungated(Thompson, forget="discount", ageing="none"),
    "gated_fifo": _gated(Fifo),
    "two_q": _ungated(TwoQ),
    "s3_fifo": _ungated(S3Fifo),
    "sieve": _ungated(Sieve),
    "w_tinylfu": _ungated(WTinyLfu),
    "lru_k": _ungated(LruK),
    "gdsf": _ungated(Gdsf),
    "redundancy": _ungated(Redundancy),
    "k_center": _ungated(KCenter),
    "posterior_mean": _ungated(PosteriorMean),
    "weighted_value": _ungated(WeightedValue),
    "bernoulli": lambda **params: Composed(Bernoulli(**params), Fifo()),
    "keep_first": lambda: Composed(KeepFirst(), Fifo()),
    "reservoir": lambda: Composed(Reservoir(), Random()),
    "oracle": Clairvoyant,
    "oracle_cover": Cover,
}
"""name -> rule, made from its parameters."""


def simulate(
    trace: Any,
    policy: str,
    params: Mapping[str, Any] | None = None,
    *,
    capacity: int,
    k: int = 3,
    quality: str = "hit",
    feedback: str = "retrieved",
    like_at: float = 0.5,
    draws: Draws | None = None,
    similarity: np.ndarray | None = None,
    item_similarity: np.ndarray | None = None,
) -> list[Step]:
    """Runs a policy of `ORACLES` over a trace.

    Args:
      trace: has the arrays of `solarjax.core.trace.Trace`, or is a `World` made from it (shares its tables).
      policy: key of `ORACLES`.
      params: its parameters; what is not given has the default of the specification.
      capacity: K; `unlimited` ignores it.
      k, quality, feedback, like_at: retrieval depth, the score whose complement is the miss cost, what
        counts as accessed, and the quality from which an answer is liked.
      draws: needed by stochastic policies only.
      similarity, item_similarity: cosines `[Q, M]` and `[M, M]`, computed here unless given.

    Returns:
      One `Step` per step.
    """
    world = trace if isinstance(trace, World) else World.of(trace, similarity, item_similarity)
    if policy == "unlimited":
        capacity = len(world.item_similarity)
    rule = ORACLES[policy](**(params or {}))
    return run(world, rule, capacity, k, quality, feedback, like_at, draws)
