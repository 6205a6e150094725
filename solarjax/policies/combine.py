"""Admission rules times victim rules.

An admission rule says WHEN the cache changes, a victim rule WHAT leaves. Any pair composes to a `Policy`, so
`solar`, `solar_a` and `solar_e` are compositions and every ablation is one more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jax import Array

from solarjax.core.types import Key, Policy, State, View


class Admission(NamedTuple):
    """When to write. `init() -> state`; `decide(key, state, view) -> (state, admit [] bool)`, called every step."""

    init: Callable[[], State]
    decide: Callable[[Key, State, View], tuple[State, Array]]


class Victim(NamedTuple):
    """What to replace.

    init(num_slots) -> state; touch(state, view) -> state, every step, before the decision;
    choose(key, state, view) -> slot; insert(state, slot, view) -> state, where the candidate is written.
    """

    init: Callable[[int], State]
    touch: Callable[[State, View], State]
    choose: Callable[[Key, State, View], Array]
    insert: Callable[[State, Array, View], State]


class Composed(NamedTuple):
    """State of a composed policy."""

    admission: Any
    victim: Any


def combine(admission: Admission, victim: Victim) -> Policy:
    """The policy that admits by `admission` and evicts by `victim`. Order within a step: touch, then decide."""

    def init(num_slots: int) -> Composed:
        return Composed(admission.init(), victim.init(num_slots))

    def observe(key: Key, state: Composed, view: View) -> tuple[Composed, Array]:
        touched = victim.touch(state.victim, view)
        gate, admit = admission.decide(key, state.admission, view)
        return Composed(gate, touched), admit

    def choose(key: Key, state: Composed, view: View) -> Array:
        return victim.choose(key, state.victim, view)

    def insert(state: Composed, slot: Array, view: View) -> Composed:
        return state._replace(victim=victim.insert(state.victim, slot, view))

    return Policy(init, observe, choose, insert)
