"""Random draws of the generators, from named streams of one key.

Built on `core.random`, whose numbers are elementwise in (key, counter): an instance is the same bit for bit
alone, in any batch and on any device, and compiles several times faster than through `jax.random`.
"""

from __future__ import annotations

import math
import zlib

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core import random
from solarjax.core.types import Key


def stream(key: Key, name: str) -> Key:
    """The named random stream of a key: streams are independent, and a new one leaves the others unchanged.

    Args:
      key: `[2] u32`; may be given to `stream` under several names, but must not be used for anything else.
      name: fixed by its CRC-32, so the stream is the same in every process.
    """
    return random.fold_in(key, jnp.uint32(zlib.crc32(name.encode())))


def normal(key: Key, shape: tuple[int, ...]) -> Array:
    """`shape f32` standard normals, by the inverse distribution function (so within 5.5). Consumes `key`."""
    u = random.uniform(key, math.prod(shape)).reshape(shape)
    return np.float32(math.sqrt(2.0)) * lax.erf_inv(np.float32(2) * u - np.float32(1))


def integers(key: Key, n: int, high: int) -> Array:
    """`[n] i32` uniform on 0..high-1 (each probability exact to 2^-24). Consumes `key`."""
    # The largest uniform times `high` may round up to `high`.
    return jnp.minimum((random.uniform(key, n) * np.float32(high)).astype(jnp.int32), high - 1)


def categories(key: Key, n: int, probability: np.ndarray) -> Array:
    """`[n] i32` independent draws with these probabilities `[C] f64`. Consumes `key`."""
    upper = jnp.asarray(np.cumsum(probability)[:-1].astype(np.float32))
    return jnp.searchsorted(upper, random.uniform(key, n), side="right").astype(jnp.int32)


def orders(key: Key, rows: int, n: int) -> Array:
    """`[rows, n] i32`, each row an independent uniform permutation of 0..n-1. Consumes `key`."""
    # Equal words of a row, which would keep their order, have probability n^2 / 2^33.
    return jnp.argsort(random.bits(key, rows * n).reshape(rows, n), axis=1).astype(jnp.int32)


def order(key: Key, n: int) -> Array:
    """`[n] i32`, a uniform permutation of 0..n-1. Consumes `key`."""
    return orders(key, 1, n)[0]
