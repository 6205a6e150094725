"""Top-k cosine lookup among residents, lanes last.

XLA's CPU sort and top_k are far slower than k passes of max for k = 3, and their tie rule is by
position. Ties here go to the earliest inserted resident, exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import NO_SLOT

_LAST = np.int32(2**31 - 1)


class Ranked(NamedTuple):
    """The k best residents: `slots [k, B] i32` (NO_SLOT-padded), `values [k, B] f32` (-inf-padded), `mask [N, B]`."""

    slots: Array
    values: Array
    mask: Array


def top_k(similarity: Array, order: Array, k: int) -> Ranked:
    """The k residents of largest similarity; ties to the smallest `order`.

    Args:
      similarity: `[N, B] f32`, -inf where empty.
      order: `[N, B] i32` unique insertion keys whose remainder modulo N is the slot (see `core.store`).
      k: static depth.
    """
    num_slots = similarity.shape[0]
    slots, values = [], []
    mask = jnp.zeros(similarity.shape, bool)
    rest = similarity
    for _ in range(k):
        best = rest.max(axis=0)
        found = best > -jnp.inf
        first = jnp.where((rest == best[None]) & found[None], order, _LAST).min(axis=0)
        pick = (order == first[None]) & found[None]
        slots.append(jnp.where(found, first % np.int32(num_slots), np.int32(NO_SLOT)))
        values.append(best)
        mask = mask | pick
        rest = jnp.where(pick, -jnp.inf, rest)
    return Ranked(jnp.stack(slots), jnp.stack(values), mask)
