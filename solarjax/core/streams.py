"""Named random streams: which key feeds what.

root key -> stream name -> trace name -> seed. Names enter by CRC-32, so a stream does not depend on which other
traces, policies or seeds are in the sweep. Policies of one seed share a stream on purpose (common random numbers):
differences between policies and capacities are then paired.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

WORKLOAD = "workload"
POLICY = "policy"


def named(root_seed: int, stream: str, trace: str) -> Array:
    """Typed key of a stream of a trace; `root_seed` in 0..2^32-1."""
    key = jax.random.key(root_seed)
    for name in (stream, trace):
        key = jax.random.fold_in(key, zlib.crc32(name.encode()))
    return key


def per_seed(root_seed: int, stream: str, trace: str, seeds: Sequence[int]) -> Array:
    """Typed keys `[len(seeds)]`, one per seed."""
    key = named(root_seed, stream, trace)
    return jax.vmap(lambda seed: jax.random.fold_in(key, seed))(jnp.asarray(seeds, jnp.uint32))
