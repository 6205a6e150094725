"""Counter-based random numbers whose value never depends on the batch.

`jax.random` on batched keys may be lowered differently for different batch sizes and costs 5-13
times more per word on a CPU than the arithmetic below. Here every number is an elementwise function
of (key words, counter), so a lane draws the same numbers alone, in any batch and on any device.

The generator is threefry2x32 with 20 rounds, bit-equal to JAX's own (`fold_in` and `bits` are tested
against `jax.random` bit for bit).

References:
  Salmon, Moraes, Dror, Shaw. Parallel random numbers: as easy as 1, 2, 3. SC 2011.
  Marsaglia, Tsang. A simple method for generating gamma variables. ACM TOMS 26(3), 2000.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def key_words(key: Array) -> Array:
    """The words of typed threefry keys: `[...]` keys -> `[..., 2] u32`."""
    return jax.random.key_data(key)


def threefry2x32(k0: Array, k1: Array, c0: Array, c1: Array) -> tuple[Array, Array]:
    """Encrypts the 64-bit counter (c0, c1) under the key (k0, k1), elementwise.

    Args:
      k0, k1, c0, c1: u32 arrays of one shape, or scalars.

    Returns:
      Two u32 arrays of the common shape.
    """
    schedule = (k0, k1, k0 ^ k1 ^ _PARITY)
    x0, x1 = c0 + k0, c1 + k1
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(turn)) | (x1 >> np.uint32(32 - turn))
            x1 = x1 ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def fold_in(key: Array, data: Array | int) -> Array:
    """A new key from `key` and an integer; bit-equal to `jax.random.fold_in`.

    Args:
      key: `[2] u32`, consumed.
      data: `[]` integer.

    Returns:
      `[2] u32`.
    """
    count = jnp.asarray(data).astype(jnp.uint32)
    return jnp.stack(threefry2x32(key[0], key[1], jnp.zeros_like(count), count))


def words(key: Array, draw: Array | int, counter: Array) -> tuple[Array, Array]:
    """Two independent u32 words per element of `counter`; `draw` separates repeated use of one key.

    Args:
      key: `[2] u32`.
      draw: `[]` u32 or int, the high counter word.
      counter: `[...] u32`, the low counter word (usually the slot number).
    """
    high = jnp.broadcast_to(jnp.asarray(draw, jnp.uint32), counter.shape)
    return threefry2x32(jnp.broadcast_to(key[0], counter.shape), jnp.broadcast_to(key[1], counter.shape), high, counter)


def bits(key: Array, n: int) -> Array:
    """`[n] u32` random words; bit-equal to `jax.random.bits(key, (n,))`. Consumes `key`."""
    high, low = words(key, 0, jnp.arange(n, dtype=jnp.uint32))
    return high ^ low


def open_unit(word: Array) -> Array:
    """Maps u32 words to f32 in the open interval (0, 1): 2^23 equally spaced midpoints."""
    # The half step keeps both ends out, so neither log(u) nor erf_inv(2u - 1) can be infinite. One bit more and the
    # largest midpoint would round to 1.
    return (word >> np.uint32(9)).astype(jnp.float32) * np.float32(2**-23) + np.float32(2**-24)


def uniform(key: Array, n: int) -> Array:
    """`[n] f32` uniform on the open unit interval. Consumes `key`."""
    return open_unit(bits(key, n))


def _gamma_attempt(shape: Array, normal_word: Array, accept_word: Array) -> tuple[Array, Array]:
    """One Marsaglia-Tsang proposal for Gamma(shape >= 1, 1): (accepted, value)."""
    d = shape - np.float32(1 / 3)
    c = lax.rsqrt(np.float32(9) * d)
    x = np.float32(np.sqrt(2)) * lax.erf_inv(np.float32(2) * open_unit(normal_word) - np.float32(1))
    w = np.float32(1) + c * x
    v = w * w * w
    bound = np.float32(0.5) * x * x + d - d * v + d * jnp.log(jnp.maximum(v, np.float32(1e-30)))
    return (v > 0) & (jnp.log(open_unit(accept_word)) < bound), d * v


def beta(key: Array, alpha: Array, beta: Array, where: Array) -> Array:
    """Exact Beta(alpha, beta) draws, one per slot.

    A ratio of two Marsaglia-Tsang gammas; a rejected proposal is repeated until accepted, so the law is
    exact up to float32 rounding (no fallback value). For a parameter below 1 the gamma of parameter + 1 is
    scaled by U^(1/parameter).

    Args:
      key: `[2] u32`, consumed.
      alpha, beta: `[N] f32`, positive where `where`.
      where: `[N] bool`; other entries return 0 without being drawn.

    Returns:
      `[N] f32` in [0, 1].
    """
    slot = jnp.arange(alpha.shape[-1], dtype=jnp.uint32)
    small = where & ((alpha < 1) | (beta < 1))
    alpha_up = jnp.where(alpha < 1, alpha + 1, alpha)
    beta_up = jnp.where(beta < 1, beta + 1, beta)

    def pending(carry):
        _, x, y = carry
        return jnp.any((x < 0) | (y < 0))

    def attempt(carry):
        draw, x, y = carry
        okx, vx = _gamma_attempt(alpha_up, *words(key, draw, slot))
        oky, vy = _gamma_attempt(beta_up, *words(key, draw + 1, slot))
        return draw + 2, jnp.where((x < 0) & okx, vx, x), jnp.where((y < 0) & oky, vy, y)

    todo = jnp.where(where, np.float32(-1), np.float32(1))
    # Draw 0 is kept for the boost below, so a parameter crossing 1 does not shift the other draws.
    _, x, y = lax.while_loop(pending, attempt, (jnp.uint32(1), todo, todo))

    # A loop of at most one turn instead of `cond`: under vmap a cond evaluates both sides, a loop whose condition
    # is false everywhere costs nothing.
    def boost(carry):
        _, x, y = carry
        ux, uy = words(key, 0, slot)
        x = jnp.where(alpha < 1, x * jnp.exp(jnp.log(open_unit(ux)) / alpha), x)
        y = jnp.where(beta < 1, y * jnp.exp(jnp.log(open_unit(uy)) / beta), y)
        return jnp.bool_(False), x, y

    _, x, y = lax.while_loop(lambda carry: carry[0], boost, (jnp.any(small), x, y))
    # Both boosted gammas can underflow to 0 for tiny parameters; then the ratio is taken as 1/2.
    total = x + y
    return jnp.where(where, jnp.where(total > 0, x / jnp.where(total > 0, total, 1), np.float32(0.5)), 0)
