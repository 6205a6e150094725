"""The Lagrangian bound of many small instances at once.

`opt_lagrangian` climbs one dual with L-BFGS-B, which suits one large instance. Thousands of tiny ones want one vmapped
ascent: Adam (optax) on the same softened dual, at the same falling temperatures, projected on prices >= 0. What it ends
with is a certificate again, priced in float64 for each instance by itself: however badly the ascent went, the bound
is valid.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax

from theory.errors import TheoryError
from theory.model import Batch
from theory.opt_lagrangian import STAGES, Bound, certificate, first_prices, soft_dual
from theory.opt_relaxed import free_fills, gains, insertion_price

STEP = 0.1
"""Adam's step at the first temperature, in units of loss; it shrinks with the square root of the temperature."""


def lagrangian_bounds(batch: Batch, iterations: int = 400) -> list[Bound]:
    """A certified lower bound on OPT for every instance of `batch`.

    Args:
      batch: B instances; memory is a few times B x T x N floats.
      iterations: of Adam, over all temperatures; any number gives valid bounds.

    Returns:
      B bounds; `history` holds the value at the start and after each temperature.

    Raises:
      TheoryError: iterations < 1.
    """
    if iterations < 1:
        raise TheoryError(f"iterations = {iterations} must be >= 1")
    singles = [batch.take(i) for i in range(len(batch))]
    found = [gains(one) for one in singles]
    lam = np.array([insertion_price(one) for one in singles])
    steps, slots = batch.num_steps, found[0].slots
    prices = np.stack([first_prices(one, batch.capacity) for one in found])
    fixed = (
        jnp.asarray(np.stack([f.gain for f in found]), jnp.float32),
        jnp.asarray(np.stack([f.may for f in found])),
        jnp.asarray(np.stack([f.start for f in found])),
        jnp.asarray(lam, jnp.float32),
    )

    def certified(prices: np.ndarray) -> np.ndarray:
        return np.array(
            [
                certificate(f, price, batch.capacity, x[:steps], x[steps:]) - free_fills(one)
                for f, price, x, one in zip(found, lam, prices, singles, strict=True)
            ]
        )

    best, value, done = prices.copy(), certified(prices), 0
    histories = [[(0, float(v))] for v in value]
    for heat, share in STAGES:
        count = max(1, round(share * iterations))
        rate = STEP * (heat / STAGES[0][0]) ** 0.5
        climbed = _ascend(jnp.asarray(prices, jnp.float32), heat, rate, *fixed, count, batch.capacity, slots)
        prices = np.asarray(climbed, np.float64)
        reached = certified(prices)
        done += count
        for history, at in zip(histories, reached, strict=True):
            history.append((done, float(at)))
        better = reached > value
        best[better], value = prices[better], np.maximum(value, reached)
    # OPT >= 0, so 0 is a certificate too.
    return [
        Bound(max(float(v), 0.0), x[:steps], x[steps:], history)
        for v, x, history in zip(value, best, histories, strict=True)
    ]


@functools.partial(jax.jit, static_argnames=("count", "capacity", "slots"))
def _ascend(
    prices: Array,
    heat: float,
    rate: float,
    gain: Array,
    may: Array,
    start: Array,
    lam: Array,
    count: int,
    capacity: int,
    slots: int,
) -> Array:
    """`count` steps of Adam on `prices [B, 2 T]`; instances do not see each other."""
    optimiser = optax.scale_by_adam(b1=0.8, b2=0.95)

    def dual(x: Array, *instance: Array) -> Array:
        w, able, resident, price = instance
        return soft_dual(x, jnp.float32(heat), w, able, resident, price, capacity, slots)

    def slope(x: Array) -> Array:
        return jax.vmap(jax.grad(dual))(x, gain, may, start, lam)

    def step(carry: tuple, number: Array) -> tuple[tuple, None]:
        x, state = carry
        # optax mixes Python floats and integer counters, which strict promotion refuses.
        with jax.numpy_dtype_promotion("standard"):
            change, state = optimiser.update(slope(x), state)
        # The step shrinks to a tenth within a temperature: the dual is nearly flat along its kinks.
        size = rate * 10.0 ** (-number / count)
        return (jnp.maximum(x + size * change, 0), state), None

    start_state = optimiser.init(prices)
    (x, _), _ = lax.scan(step, (prices, start_state), jnp.arange(count, dtype=jnp.float32))
    return x
