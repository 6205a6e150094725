"""Redundancy eviction: the resident that another one nearly repeats."""

from __future__ import annotations

from jax import Array

from solarjax.core.types import Key, State, View
from solarjax.policies.combine import Victim
from solarjax.policies.slots import argmin_resident, nearest_other


def redundancy() -> Victim:
    """Evicts the resident closest to another: of the most similar pair the one inserted first.

    Looks at residents only, not at the arriving item; accesses do not matter.

    References:
      Carbonell, Goldstein. The use of MMR, diversity-based reranking for reordering documents and producing
      summaries. SIGIR 1998.
    Differs from MMR: its redundancy term alone, as a rule for what leaves instead of what enters a list.
    """

    def choose(key: Key, state: State, view: View) -> Array:
        del key, state  # deterministic
        return argmin_resident(-nearest_other(view), view)

    return Victim(lambda num_slots: (), lambda state, view: state, choose, lambda state, slot, view: state)
