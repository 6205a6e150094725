"""A certified lower bound on OPT at any size: the Lagrangian dual of the relaxation, maximised in JAX.

Prices p_t >= 0 on the capacity and q_t >= 0 on the retrieval slots take the coupling between items away. What is left
is a two-state recursion per item (cached or not), O(T N) for all:

  D(p, q) = #asked - K sum p - slots sum q
            + sum_i min over paths { sum_t x_ti (p_t - max(0, w_ti - q_t)) + lam * inserts }

EVERY (p, q) >= 0 is a certificate, D(p, q) <= OPT, whatever the optimiser did; it is evaluated in float64 and has no
solver tolerance. D is concave and piecewise linear, and subgradient ascent on it stalls. So the minimum is replaced by
a soft one, whose value and gradient come from JAX, and L-BFGS-B climbs it at falling temperatures, each from where the
last one ended: with that, T = N = 2000 and K = 50 converges.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from scipy.optimize import minimize

from theory.errors import TheoryError
from theory.model import Batch
from theory.opt_relaxed import Gains, free_fills, gains, insertion_price

STAGES = ((0.1, 0.18), (0.03, 0.18), (0.01, 0.22), (0.003, 0.22), (0.001, 0.2))
"""(temperature of the soft minimum in units of loss, share of the iterations)."""
MEMORY = 20
"""Pairs that L-BFGS-B keeps."""


class Bound(NamedTuple):
    """value: certified lower bound.   capacity_price, slot_price: `[T] f64`, the certificate p, q.
    history: `[(iteration, value)]` at the evaluations."""

    value: float
    capacity_price: np.ndarray
    slot_price: np.ndarray
    history: list[tuple[int, float]]


def certificate(found: Gains, lam: float, capacity: int, p: np.ndarray, q: np.ndarray) -> float:
    """D(p, q) in float64, for any p, q `[T]` >= 0: a lower bound on OPT.

    Raises:
      TheoryError: a negative or non-finite price.
    """
    values = values_ahead(found, lam, p, q)
    items = np.where(found.start, values[0, 1], values[0, 0]).sum()
    return float(found.asked.sum() - capacity * p.sum() - found.slots * q.sum() + items)


def values_ahead(found: Gains, lam: float, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Least priced cost of each item from each step on; `[T + 1, 2, N] f64`, second axis: not cached, cached."""
    if not (np.isfinite(p).all() and np.isfinite(q).all() and (p >= 0).all() and (q >= 0).all()):
        raise TheoryError("prices must be finite and >= 0")
    steps, items = found.gain.shape
    values = np.zeros((steps + 1, 2, items))
    for t in range(steps - 1, -1, -1):
        out, held = values[t + 1]
        values[t, 0] = np.where(found.may[t], np.minimum(out, lam + held), out)
        values[t, 1] = p[t] - np.maximum(found.gain[t] - q[t], 0) + np.minimum(out, held)
    return values


def lagrangian_bound(batch: Batch, iterations: int = 300) -> Bound:
    """Maximises the dual of one instance and returns the best certificate seen.

    Args:
      iterations: of L-BFGS-B, over all temperatures; any number gives a valid bound. 0.2-0.4 s each at T = N = 2000
        on one core.

    Raises:
      TheoryError: several instances, or iterations < 1.
    """
    if iterations < 1:
        raise TheoryError(f"iterations = {iterations} must be >= 1")
    found = gains(batch)
    lam, capacity = insertion_price(batch), batch.capacity
    steps = len(found.gain)
    prices = first_prices(found, capacity)
    fixed = (jnp.asarray(found.gain, jnp.float32), jnp.asarray(found.may), jnp.asarray(found.start), jnp.float32(lam))

    def cost(x: np.ndarray, heat: float) -> tuple[float, np.ndarray]:
        value, slope = _climb(jnp.asarray(x, jnp.float32), jnp.float32(heat), *fixed, capacity, found.slots)
        return -float(value), -np.asarray(slope, np.float64)

    def certified(x: np.ndarray) -> float:
        return certificate(found, lam, capacity, x[:steps], x[steps:]) - free_fills(batch)

    best, value, done = prices, certified(prices), 0
    history = [(0, value)]
    for heat, share in STAGES:
        count = max(1, round(share * iterations))
        climbed = minimize(
            cost,
            prices,
            args=(heat,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * len(prices),
            options={"maxiter": count, "maxfun": 2 * count, "maxcor": MEMORY},
        )
        prices = np.maximum(climbed.x, 0)
        done += int(climbed.nit)
        history.append((done, certified(prices)))
        if history[-1][1] > value:
            best, value = prices, history[-1][1]
    # OPT >= 0, so 0 is a certificate too.
    return Bound(max(value, 0.0), best[:steps], best[steps:], history)


def first_prices(found: Gains, capacity: int) -> np.ndarray:
    """`[2 T]` (p, q) to start from.

    q is near the gain that a random full cache already has; p near 0: a large p makes D hopelessly negative.
    """
    steps, items = found.gain.shape
    spare = min(items - 1, max(1, items // capacity) * found.slots)
    q = 0.9 * np.partition(found.gain, items - 1 - spare, axis=1)[:, items - 1 - spare]
    return np.concatenate([np.full(steps, 1e-3), q])


def soft_dual(
    prices: Array, heat: Array, gain: Array, may: Array, start: Array, lam: Array, capacity: int, slots: int
) -> Array:
    """The softened dual without its constant, at `prices [2 T]` = (p, q); differentiated by JAX."""
    steps = gain.shape[0]
    p, q = prices[:steps], prices[steps:]

    def soft(a: Array, b: Array) -> Array:
        return jnp.minimum(a, b) - heat * jnp.log1p(jnp.exp(-jnp.abs(a - b) / heat))

    def step(ahead: tuple[Array, Array], row: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
        out, held = ahead
        w, able, pt, qt = row
        worth = heat * jax.nn.softplus((w - qt) / heat)
        return (jnp.where(able, soft(out, lam + held), out), pt - worth + soft(out, held)), None

    zero = jnp.zeros(gain.shape[1], gain.dtype)
    (out, held), _ = lax.scan(step, (zero, zero), (gain, may, p, q), reverse=True)
    return jnp.where(start, held, out).sum() - capacity * p.sum() - slots * q.sum()


_climb = jax.jit(jax.value_and_grad(soft_dual), static_argnames=("capacity", "slots"))
