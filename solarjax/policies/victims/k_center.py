"""Diversity by k-center: keep points that are far apart, so that everything seen is near one of them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, State, View, given
from solarjax.policies.combine import Victim
from solarjax.policies.slots import earliest

_NONE = np.float32(-np.inf)


def k_center() -> Victim:
    """Evicts the resident whose removal hurts coverage least.

    The K residents and the arriving item, which is always kept, are K + 1 points. Without resident i every other point
    still covers itself, so the covering radius of the K that stay is i's own distance to the nearest of them: the
    resident with the largest cosine to another point is the victim. The two of a closest pair tie; then the second
    nearest decides (the larger cosine leaves), then insertion (the earlier leaves). Accesses do not matter.

    References:
      Gonzalez. Clustering to minimize the maximum intercluster distance. Theoretical Computer Science 38, 1985.
    Differs from Gonzalez: farthest-first traversal run backwards and online: one point enters, one is dropped.
    """

    def choose(key: Key, state: State, view: View) -> Array:
        del key, state  # deterministic
        others = given(view.resident_similarity, "resident_similarity")
        arriving = given(view.candidate_similarity, "candidate_similarity")
        first = jnp.maximum(others.max(axis=1), arriving)
        ties = others == first[:, None]
        times = ties.astype(jnp.int32).sum(axis=1) + (arriving == first).astype(jnp.int32)
        rest = jnp.where(ties, _NONE, others).max(axis=1)
        rest = jnp.maximum(rest, jnp.where(arriving == first, _NONE, arriving))
        second = jnp.where(times > 1, first, rest)
        tied = view.occupied & (first == jnp.where(view.occupied, first, _NONE).max())
        return earliest(tied & (second == jnp.where(tied, second, _NONE).max()), view)

    return Victim(lambda num_slots: (), lambda state, view: state, choose, lambda state, slot, view: state)
