"""A clairvoyant HEURISTIC: it sees the future relevance, but it is not the optimum.

Offline-optimal semantic caching is NP-hard, so this is never called OPT. It shows headroom: how much a policy
could still gain by knowing which items later queries will need.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, Policy, State, View, given
from solarjax.policies.slots import earliest

_LAST = np.int32(2**31 - 1)


def oracle() -> Policy:
    """Keeps what future scored queries find relevant most often (a greedy extension of Belady to semantic hits).

    Admits while there is room. In a full cache, the resident with the fewest future uses is the victim (ties:
    farthest next use, then earliest inserted), and the candidate is refused unless it has strictly more future uses
    than that victim, or as many with an earlier next one.

    References:
      Belady. A study of replacement algorithms for a virtual-storage computer. IBM Systems Journal 5(2), 1966.
    Differs from Belady: frequency of future use before its distance, since one semantic query has several relevant
    items and hits do not end an item's usefulness; bypass is allowed.
    """

    def worst(view: View) -> tuple[Array, Array, Array]:
        uses, ahead = given(view.future_uses, "future_uses"), given(view.next_use, "next_use")
        fewest = jnp.where(view.occupied, uses, _LAST).min()
        tied = view.occupied & (uses == fewest)
        farthest = jnp.where(tied, ahead, np.int32(-1)).max()
        return fewest, farthest, tied & (ahead == farthest)

    def observe(key: Key, state: State, view: View) -> tuple[State, Array]:
        del key  # deterministic
        fewest, farthest, _ = worst(view)
        uses = given(view.candidate_future_uses, "candidate_future_uses")
        ahead = given(view.candidate_next_use, "candidate_next_use")
        better = (uses > fewest) | ((uses == fewest) & (ahead < farthest))
        return state, view.has_candidate & ((view.size < view.capacity) | better)

    def victim(key: Key, state: State, view: View) -> Array:
        del key, state
        return earliest(worst(view)[2], view)

    return Policy(lambda num_slots: (), observe, victim, lambda state, slot, view: state)
