"""2Q: a FIFO for what is new, an LRU for what came back, and a list of ids in between."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, View
from solarjax.policies.combine import Victim
from solarjax.policies.exact_keys import (
    Ghosts,
    accessed,
    count,
    forget,
    ghost_of,
    least,
    leaving,
    no_ghosts,
    remember,
    share,
    some,
)
from solarjax.policies.slots import at_slot


class TwoQState(NamedTuple):
    """in_main: `[N] bool` resident is in Am.  last_accessed: `[N] i32` step of the last access or insertion.
    ghosts: A1out, ids evicted from A1in."""

    in_main: Array
    last_accessed: Array
    ghosts: Ghosts


def two_q(in_fraction: Array | float, out_fraction: Array | float) -> Victim:
    """Evicts the oldest of A1in while that holds more than Kin residents, else the least recently used of Am.

    A new item enters A1in, and A1out when it leaves from there; one that arrives again while in A1out enters Am. An
    access within A1in changes nothing.

    Args:
      in_fraction: `[]` Kin / K, rounded down to at least one slot (paper: 1/4).
      out_fraction: `[]` Kout / K, ids in A1out, rounded down to at least one (paper: 1/2).

    References:
      Johnson, Shasha. 2Q: a low overhead high performance buffer management replacement algorithm. VLDB 1994
      (the full version).
    Carried over to semantic hits as `policies.exact_keys` says: only an item that arrives again can reach Am, so on a
    stream that offers every item once 2Q is FIFO.
    Differs from the paper: A1in gives way also when Am is empty; an id found in A1out leaves it before the victim's
    is added.
    """

    def touch(state: TwoQState, view: View) -> TwoQState:
        return state._replace(last_accessed=jnp.where(accessed(view), view.t, state.last_accessed))

    def choose(key: Key, state: TwoQState, view: View) -> Array:
        del key  # deterministic
        recent = view.occupied & ~state.in_main
        held = count(recent)
        from_in = (held > share(in_fraction, view.capacity, 1)) | (held >= view.size)
        pool = jnp.where(from_in, recent, view.occupied & state.in_main)
        # A1in is a FIFO: all equal, so the earliest inserted goes.
        return least(pool, jnp.where(from_in, np.int32(0), state.last_accessed), view)

    def insert(state: TwoQState, slot: Array, view: View) -> TwoQState:
        here = at_slot(slot, len(view.occupied))
        ghost = ghost_of(state.ghosts, view.candidate_id)
        leaves_in = some(here & view.occupied & ~state.in_main)
        limit = share(out_fraction, view.capacity, 1)
        ghosts, _ = remember(forget(state.ghosts, ghost), leaving(here, view), limit, leaves_in, view)
        return TwoQState(
            in_main=jnp.where(here, some(ghost), state.in_main),
            last_accessed=jnp.where(here, view.t, state.last_accessed),
            ghosts=ghosts,
        )

    def init(num_slots: int) -> TwoQState:
        return TwoQState(jnp.zeros(num_slots, bool), jnp.zeros(num_slots, jnp.int32), no_ghosts(num_slots))

    return Victim(init, touch, choose, insert)
