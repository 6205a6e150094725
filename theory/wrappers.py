"""Wrappers around a registered policy: conventions that it does not know, and a gauge on its gate.

A wrapper changes what a policy sees or carries, never its rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.trace import NO_ITEM
from solarjax.core.types import Policy, View
from solarjax.policies.admission.regret_gate import information_gain


class Gauged(NamedTuple):
    """State of a policy with a gauge.

    inner: the policy's.      least: `[] f32` smallest threshold that the gate compared with, opening or not.
    signal: `[] f32` sum of what the gate accumulated.    opened: `[] i32` openings, of resident arrivals too.
    """

    inner: Any
    least: Array
    signal: Array
    opened: Array


@functools.cache
def with_conventions(make: Callable[..., Policy], ignore_resident: bool, carry: bool) -> Callable[..., Policy]:
    """The factory with conventions A6 (resident arrivals are not shown) and A8 (the overshoot is kept) applied."""

    def build(**params: Any) -> Policy:
        policy = make(**params)

        def observe(key: Array, state: Any, view: View) -> tuple[Any, Array]:
            if ignore_resident:
                there = view.has_candidate & ~view.candidate_resident
                item = jnp.where(there, view.candidate_id, np.int32(NO_ITEM))
                view = view._replace(has_candidate=there, candidate_id=item)
            after, admit = policy.observe(key, state, view)
            if carry and hasattr(getattr(state, "admission", None), "accumulated"):
                gate = state.admission
                left = jnp.maximum(gate.accumulated + view.miss - gate.threshold, np.float32(0))
                kept = jnp.where(admit, left, after.admission.accumulated)
                after = after._replace(admission=after.admission._replace(accumulated=kept))
            return after, admit

        return policy._replace(observe=observe)

    return build


@functools.cache
def with_gauge(make: Callable[..., Policy], release: bool, gain: bool) -> Callable[..., Policy]:
    """The factory with a gauge on its regret gate.

    Args:
      release: the gate moves its threshold before it compares, the other rules after.
      gain: the gate's signal is the information gain of arrivals, not the miss cost of queries.
    """

    def build(**params: Any) -> Policy:
        policy = make(**params)

        def init(num_slots: int) -> Gauged:
            return Gauged(policy.init(num_slots), jnp.float32(jnp.inf), jnp.float32(0), jnp.int32(0))

        def observe(key: Array, state: Gauged, view: View) -> tuple[Gauged, Array]:
            after, admit = policy.observe(key, state.inner, view)
            tau = (after if release else state.inner).admission.threshold
            if gain:
                added = jnp.where(view.has_candidate, information_gain(view), np.float32(0))
            else:
                added = jnp.where(view.has_query, view.miss, np.float32(0))
            least = jnp.minimum(state.least, tau)
            return Gauged(after, least, state.signal + added, state.opened + admit.astype(jnp.int32)), admit

        return Policy(
            init=init,
            observe=observe,
            victim=lambda key, state, view: policy.victim(key, state.inner, view),
            insert=lambda state, slot, view: state._replace(inner=policy.insert(state.inner, slot, view)),
        )

    return build
