"""Admit every arrival: what the classic policies do."""

from __future__ import annotations

from jax import Array

from solarjax.core.types import Key, State, View
from solarjax.policies.combine import Admission


def always() -> Admission:
    """Admits whatever arrives. Stateless."""

    def decide(key: Key, state: State, view: View) -> tuple[State, Array]:
        del key  # deterministic
        return state, view.has_candidate

    return Admission(init=tuple, decide=decide)
