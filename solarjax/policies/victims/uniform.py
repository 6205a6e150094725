"""A uniformly random victim."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core import random
from solarjax.core.types import Key, State, View
from solarjax.policies.combine import Victim


def uniform() -> Victim:
    """Evicts a resident chosen uniformly at random. Only meaningful in a full cache (residents are slots 0..K-1)."""

    def choose(key: Key, state: State, view: View) -> Array:
        del state
        # floor(u * K) is uniform up to the 2^-23 grain of u, far below any sampling error.
        pick = (random.uniform(key, 1)[0] * view.size.astype(jnp.float32)).astype(jnp.int32)
        return jnp.minimum(pick, view.size - np.int32(1))

    return Victim(
        init=lambda num_slots: (),
        touch=lambda state, view: state,
        choose=choose,
        insert=lambda state, slot, view: state,
    )
