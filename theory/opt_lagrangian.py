"""A certified lower bound on OPT at any size: the Lagrangian dual of the relaxation, maximised in JAX.

Prices p_t >= 0 on the capacity and q_t >= 0 on the retrieval slots take the coupling between items away. What is left
is a two-state recursion per item (cached or not), O(T N) for all:

  D(p, q) = #asked - K sum p - slots sum q
            + sum_i min over paths { sum_t x_ti (p_t - max(0, w_ti - q_t)) + lam * inserts }

EVERY (p, q) >= 0 is a certificate, D(p, q) <= OPT, whatever the optimiser did; it is evaluated in float64 and has no
solver tolerance. D is concave and piecewise linear, and ascent on it stalls. So the minimum is replaced by a soft
minimum whose temperature falls, and p is a sum of pieces constant over 256, 16 and 1 steps, which lets a price level
move at once: with both, T = 2000 and K = 50 converges.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from theory.errors import TheoryError
from theory.model import Batch
from theory.opt_relaxed import Gains, free_fills, gains

SPANS = (256, 16, 1)
"""Steps over which the pieces of p are constant."""
RATE = 0.03
"""Largest step of a price, in units of loss; it falls to a hundredth."""
WARM, COLD = 0.1, 0.002
"""Temperature of the soft minimum, first and last, in units of loss."""


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


def lagrangian_bound(batch: Batch, iterations: int = 300, evaluate_every: int = 50) -> Bound:
    """Maximises the dual of one instance by Adam and returns the best certificate seen.

    Args:
      iterations: gradient steps; any number gives a valid bound. About 0.1 s each at T = N = 2000 on one core.

    Raises:
      TheoryError: several instances, the action class `store_step`, or iterations < 1.
    """
    if iterations < 1:
        raise TheoryError(f"iterations = {iterations} must be >= 1")
    found = gains(batch)
    lam, capacity = float(batch.lam[0]), batch.capacity
    steps, items = found.gain.shape
    # q starts near the gain that a random full cache already has; p near 0: a large p makes D hopelessly negative.
    spare = min(items - 1, max(1, items // capacity) * found.slots)
    q = 0.9 * np.partition(found.gain, items - 1 - spare, axis=1)[:, items - 1 - spare]
    scales = [max(1, -(-steps // span)) for span in SPANS]
    prices = (tuple(jnp.full(n, 1e-3 / len(SPANS), jnp.float32) for n in scales), jnp.asarray(q, jnp.float32))
    zero = jax.tree.map(jnp.zeros_like, prices)
    carry = (prices, zero, zero)
    fixed = (jnp.asarray(found.gain, jnp.float32), jnp.asarray(found.may), jnp.asarray(found.start))
    best = Bound(-np.inf, np.zeros(steps), np.zeros(steps), [])
    history: list[tuple[int, float]] = []
    done = 0
    while True:
        p, q = (np.maximum(np.asarray(x, np.float64), 0) for x in _prices(carry[0], steps))
        value = certificate(found, lam, capacity, p, q) - free_fills(batch)
        history.append((done, value))
        if value > best.value:
            best = Bound(value, p, q, history)
        if done >= iterations:
            break
        count = min(evaluate_every, iterations - done)
        carry = _ascend(
            carry,
            *fixed,
            jnp.float32(lam),
            jnp.int32(done),
            jnp.int32(count),
            jnp.int32(iterations),
            capacity=capacity,
            slots=found.slots,
        )
        done += count
    # OPT >= 0, so 0 is a certificate too.
    return best._replace(value=max(best.value, 0.0), history=history)


def _prices(variables: tuple[tuple[Array, ...], Array], steps: int) -> tuple[Array, Array]:
    pieces, q = variables
    spread = [
        jnp.repeat(x, span, total_repeat_length=len(x) * span)[:steps] for x, span in zip(pieces, SPANS, strict=True)
    ]
    return functools.reduce(jnp.add, spread), q


@functools.partial(jax.jit, static_argnames=("capacity", "slots"))
def _ascend(
    carry: tuple,
    gain: Array,
    may: Array,
    start: Array,
    lam: Array,
    done: Array,
    count: Array,
    iterations: Array,
    *,
    capacity: int,
    slots: int,
) -> tuple:
    """`count` Adam steps on the softened dual; prices are projected to >= 0 inside the objective."""
    steps = gain.shape[0]

    def dual(variables: tuple, heat: Array) -> Array:
        p, q = (jnp.maximum(x, 0) for x in _prices(variables, steps))

        def soft(a: Array, b: Array) -> Array:
            low = jnp.minimum(a, b)
            return low - heat * jnp.log1p(jnp.exp(-jnp.abs(a - b) / heat))

        def step(ahead: tuple[Array, Array], row: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
            out, held = ahead
            w, able, pt, qt = row
            worth = heat * jax.nn.softplus((w - qt) / heat)
            return (jnp.where(able, soft(out, lam + held), out), pt - worth + soft(out, held)), None

        zero = jnp.zeros(gain.shape[1], gain.dtype)
        (out, held), _ = lax.scan(step, (zero, zero), (gain, may, p, q), reverse=True)
        return jnp.where(start, held, out).sum() - capacity * p.sum() - slots * q.sum()

    def adam(index: Array, state: tuple) -> tuple:
        variables, first, second = state
        share = (done + index).astype(jnp.float32) / iterations.astype(jnp.float32)
        heat = WARM * (COLD / WARM) ** share
        rate = RATE * np.float32(0.01) ** share
        grad = jax.grad(dual)(variables, heat)
        n = (done + index + 1).astype(jnp.float32)
        first = jax.tree.map(lambda m, g: np.float32(0.9) * m + np.float32(0.1) * g, first, grad)
        second = jax.tree.map(lambda v, g: np.float32(0.99) * v + np.float32(0.01) * g * g, second, grad)
        scale = rate * jnp.sqrt(1 - np.float32(0.99) ** n) / (1 - np.float32(0.9) ** n)
        moved = jax.tree.map(lambda x, m, v: x + scale * m / (jnp.sqrt(v) + np.float32(1e-8)), variables, first, second)
        # Only the finest piece and q are kept >= 0 one by one; p itself is clipped where it is used.
        return (moved[0], jnp.maximum(moved[1], 0)), first, second

    return lax.fori_loop(np.int32(0), count, adam, carry)
