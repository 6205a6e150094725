"""Top-k cosine lookup among residents, lanes last.

XLA's CPU sort and top_k are far slower than a few passes of max for k = 3, and their tie rule is by position.
Ties here go to the earliest inserted resident, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core.types import NO_SLOT

_LAST = np.int32(2**31 - 1)
_NONE = np.float32(-np.inf)


class Ranked(NamedTuple):
    """The k best residents: `slots [k, B] i32` (NO_SLOT-padded), `values [k, B] f32` (-inf-padded), `mask [N, B]`."""

    slots: Array
    values: Array
    mask: Array


def materialize(build: Callable[[], Array], always_true: Array) -> Array:
    """The value of `build()`, computed once.

    XLA on the CPU fuses a producer into each of its consumers and then recomputes it for each: a gather read by
    six reductions runs six times. A loop boundary stops that (an optimization barrier does not).

    Args:
      build: pure function without arguments.
      always_true: `[] bool` that is True at run time but not a constant the compiler could fold.
    """
    shape = jax.eval_shape(build)

    def body(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        return jnp.bool_(False), build()

    start = (always_true, jnp.zeros(shape.shape, shape.dtype))
    return lax.while_loop(lambda carry: carry[0], body, start)[1]


def settle(values: Array, one: Array) -> Array:
    """`values [B]`, i32 or bool, computed once although `[N, B]` consumers broadcast it.

    XLA fuses the producer of a broadcast operand into the consumer and evaluates it for each of the N rows, unless it
    is expensive. A division by a 1 that the compiler cannot know is: cheap for B numbers, and it ends the fusion.

    Args:
      one: `[] i32`, 1 at run time but not a constant.
    """
    if values.dtype == bool:
        return settle(values.astype(jnp.int32), one) > 0
    return lax.div(values, jnp.broadcast_to(one, values.shape))


def top_k(similarity: Array, order: Array, k: int) -> Ranked:
    """The k residents of largest similarity; ties to the smallest `order`.

    Args:
      similarity: `[N, B] f32`, -inf where empty.
      order: `[N, B] i32` unique insertion keys whose remainder modulo N is the slot (see `core.store`).
      k: static depth.
    """
    bits = max(1, (similarity.shape[0] - 1).bit_length())
    values: list[Array] = []
    for _ in range(k):
        rest = jnp.where(similarity < values[-1][None], similarity, _NONE) if values else similarity
        values.append(rest.max(axis=0))
    best = jnp.stack(values)
    found = best > _NONE
    # Without equal values among the best, one sum finds the slots of several ranks: each of them contributes its slot
    # in the bit field of its rank and a 1 above all fields, which counts them. Sums are in float32, whose reductions
    # are faster than those of integers, and exact while below 2^24. Equal values in any lane make a count exceed the
    # number of ranks and send the whole block through the slower exact rule.
    per_sum = max(r for r in range(1, k + 1) if r == 1 or (r + 1) << (r * bits) <= 2**24)
    slot = np.arange(similarity.shape[0])[:, None]
    slots, count = [], jnp.zeros(similarity.shape[1], jnp.float32)
    for first in range(0, k, per_sum):
        ranks = range(first, min(first + per_sum, k))
        code, fields = jnp.zeros(similarity.shape, jnp.float32), len(ranks) * bits
        for rank in reversed(ranks):
            # Where fewer are resident, no similarity equals the bound.
            level = jnp.where(found[rank], values[rank], np.float32(np.inf))
            own = np.asarray((slot << ((rank - first) * bits)) + (1 << fields), np.float32)
            code = jnp.where(similarity == level[None], own, code)
        total = code.sum(axis=0)
        count = count + jnp.floor(total * np.float32(2.0**-fields))
        whole = total.astype(jnp.int32)
        slots += [(whole >> np.int32((r - first) * bits)) & np.int32(2**bits - 1) for r in ranks]
    tied = (count > found.astype(jnp.float32).sum(axis=0)).any()
    mask = (similarity >= values[-1][None]) & (similarity > _NONE)
    fast = Ranked(jnp.where(found, jnp.stack(slots), np.int32(NO_SLOT)), best, mask)

    def exact(carry: tuple[Array, Ranked]) -> tuple[Array, Ranked]:
        # Reading the flag keeps the compiler from moving the slow rule out of the loop, where it would always run.
        again = jnp.where(carry[0], similarity, _NONE)
        return jnp.bool_(False), _top_k_with_ties(again, order, k)

    return lax.while_loop(lambda carry: carry[0], exact, (tied, fast))[1]


def _top_k_with_ties(similarity: Array, order: Array, k: int) -> Ranked:
    num_slots = similarity.shape[0]
    slots, values = [], []
    mask = jnp.zeros(similarity.shape, bool)
    rest = similarity
    for _ in range(k):
        best = rest.max(axis=0)
        found = best > _NONE
        first = jnp.where((rest == best[None]) & found[None], order, _LAST).min(axis=0)
        pick = (order == first[None]) & found[None]
        slots.append(jnp.where(found, first % np.int32(num_slots), np.int32(NO_SLOT)))
        values.append(best)
        mask = mask | pick
        rest = jnp.where(pick, _NONE, rest)
    return Ranked(jnp.stack(slots), jnp.stack(values), mask)
