"""First in, first out."""

from __future__ import annotations

from jax import Array

from solarjax.core.types import Key, State, View
from solarjax.policies.combine import Victim
from solarjax.policies.slots import earliest


def fifo() -> Victim:
    """Evicts the earliest inserted resident. Stateless: the store already knows insertion order."""

    def choose(key: Key, state: State, view: View) -> Array:
        del key, state
        return earliest(view.occupied, view)

    return Victim(
        init=lambda num_slots: (),
        touch=lambda state, view: state,
        choose=choose,
        insert=lambda state, slot, view: state,
    )
