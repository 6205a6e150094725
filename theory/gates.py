"""The registered gates on streams of losses: what their thresholds do, and how often they open.

A stream gives each step a loss in [0, 1] and an arrival; the cache is full, so no bootstrap is at work. Streams
  bernoulli  1 with probability L, else 0 (hits and misses).
  graded     uniform on [0, 2 L], L <= 1/2.
  growth     g * (steps since the gate last opened), clipped at 1: a cache that ages and is mended by a change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core import random, streams
from solarjax.core.types import Policy
from solarjax.policies.registry import PolicyCase, case
from theory.errors import TheoryError
from theory.lane import ENVIRONMENT_STREAM, full_view, over_lanes, policy_of

STREAMS = ("bernoulli", "graded", "growth")
GATES: Mapping[str, PolicyCase] = {
    # All on the miss cost, so that one stream serves the four; the victim rule is of no account here.
    "release": case("solar", signal="miss", bonus="none"),
    "paper_ema": case("solar_paper", bonus="none"),
    "eoq": case("solar_eoq", bonus="none"),
    "fixed": case("solar_fixed", bonus="none"),
}
MARKS = tuple(int(m) for m in np.unique(np.geomspace(1, 3000, 40).astype(int)))
"""Steps at which thresholds are recorded."""
BLOCK = 12
"""Settings are padded to a multiple of this, so that one compilation serves every call."""
FULL = 64
"""Size and capacity that the gate is shown: past every bootstrap."""


class Passed(NamedTuple):
    """What gates did on B lanes over T steps.

    tau: `[C, B]` threshold after each checkpoint.   tau_late: `[B]` mean threshold over the second half.
    opened: `[B] i64`.    loss: `[B]` summed.        overshoot: `[B]` summed c - tau over openings.
    """

    tau: np.ndarray
    tau_late: np.ndarray
    opened: np.ndarray
    loss: np.ndarray
    overshoot: np.ndarray


class _Lane(NamedTuple):
    policy: object
    since: Array
    opened: Array
    loss: Array
    overshoot: Array
    late: Array


def _draw(stream: Array, key: Array, level: Array, since: Array) -> Array:
    u = random.uniform(key, 1)[0]
    kinds = (
        jnp.where(u < level, np.float32(1), np.float32(0)),
        2 * level * u,
        jnp.minimum(level * since.astype(jnp.float32), np.float32(1)),
    )
    return jnp.select([stream == i for i in range(len(kinds))], kinds)


def _step(
    gate: str, policy: Policy, key: Array, stream: Array, level: Array, t: Array, half: Array, lane: _Lane
) -> _Lane:
    now = random.fold_in(key, t)
    loss = _draw(stream, random.fold_in(now, ENVIRONMENT_STREAM), level, lane.since)
    slot, nothing = jnp.zeros(1, jnp.int32), jnp.zeros(1, bool)
    view = full_view(
        t=t, queries=t + 1, offers=t + 1, ids=slot, inserted=slot, retrieved=nothing, touched=nothing, disliked=nothing,
        miss=loss, candidate=t + 1,
    )._replace(size=jnp.int32(FULL), capacity=jnp.int32(FULL))  # fmt: skip
    before = lane.policy.admission  # type: ignore[attr-defined]
    held, admit = policy.observe(now, lane.policy, view)
    # The release moves its threshold before it compares, the others after.
    tau = held.admission.threshold if gate == "release" else before.threshold
    over = before.accumulated + loss - tau
    return _Lane(
        held,
        jnp.where(admit, 0, lane.since + 1),
        lane.opened + admit.astype(jnp.int32),
        lane.loss + loss.astype(jnp.float64),
        lane.overshoot + jnp.where(admit, over, np.float32(0)).astype(jnp.float64),
        lane.late + jnp.where(t >= half, held.admission.threshold, np.float32(0)).astype(jnp.float64),
    )


@functools.lru_cache(maxsize=64)
def _compiled(gate: str, steps: int) -> Callable:
    found = GATES[gate]

    def policy(own: Mapping[str, Array]) -> Policy:
        return policy_of(found, **own)

    def run(keys: Array, stream: Array, level: Array, params: dict[str, Array]) -> tuple[Array, ...]:
        size = level.shape[0]
        half, places = jnp.int32(steps // 2), jnp.asarray(MARKS, jnp.int32)
        zero, none = jnp.zeros(size, jnp.float64), jnp.zeros(size, jnp.int32)
        state = over_lanes(lambda own: policy(own).init(1), params, size=size)
        lane = _Lane(state, none, none, zero, zero, zero)

        def body(carry, t):
            lane, record = carry
            clock = jnp.broadcast_to(t, (size,))
            lane = over_lanes(
                lambda key, kind, at, own, now, one: _step(gate, policy(own), key, kind, at, now, half, one),
                keys, stream, level, params, clock, lane, size=size,
            )  # fmt: skip
            record = jnp.where((places == t + 1)[:, None], lane.policy.admission.threshold[None], record)
            return (lane, record), None

        start = (lane, jnp.zeros((len(MARKS), size), jnp.float32))
        (lane, record), _ = lax.scan(body, start, jnp.arange(steps, dtype=jnp.int32))
        return record, lane.late / (steps - steps // 2), lane.opened, lane.loss, lane.overshoot

    return jax.jit(run)


def pass_gate(
    gate: str,
    stream: str,
    level: Sequence[float],
    lam: Sequence[float],
    steps: int,
    keys: int,
    root_key: int,
    params: Mapping[str, Sequence[float]] | None = None,
) -> list[Passed]:
    """Runs one gate on one stream at S settings.

    Args:
      gate: a name in GATES.      stream: one of STREAMS.
      level: `[S]` L of the stream, or g of `growth`.     lam: `[S]` switching cost.
      steps: T.    keys: repetitions R.    root_key: root of the random numbers.
      params: name -> `[S]`, other numeric parameters of the policy.

    Returns:
      One `Passed` of R lanes per setting.

    Raises:
      TheoryError: unknown names, or a value out of range.
    """
    if gate not in GATES or stream not in STREAMS:
        raise TheoryError(
            f"gate {gate!r} or stream {stream!r} is unknown (gates {list(GATES)}, streams {list(STREAMS)})"
        )
    top = 0.5 if stream == "graded" else 1.0
    if not all(0 < x <= top for x in level):
        raise TheoryError(f"levels {list(level)} of stream {stream} must lie in (0, {top}]")
    if not all(0 < x < float("inf") for x in lam):
        raise TheoryError(f"lam = {list(lam)} must be positive and finite")
    count = -(-len(level) // BLOCK) * BLOCK
    own = streams.per_seed(root_key, "theory", f"gate {stream}", range(keys))
    words = np.tile(np.asarray(random.key_words(own)), (count, 1)).T

    def spread(values: Sequence[float]) -> np.ndarray:
        padded = np.pad(np.asarray(values, np.float32), (0, count - len(values)), mode="edge")
        return np.repeat(padded, keys)

    more = dict(params or {})
    if gate == "fixed":
        more = {"tau_per_lam": [2.0] * len(level)} | more
    kind = np.full(count * keys, STREAMS.index(stream), np.int32)
    numbers = {"lam": spread(lam)} | {name: spread(values) for name, values in more.items()}
    # Sums over 10^5 steps in float32 would lose the digits that the intervals are about.
    with jax.enable_x64(True):
        out = _compiled(gate, steps)(words, kind, spread(level), numbers)
    tau, late, opened, loss, overshoot = (np.asarray(x, np.float64) for x in out)
    return [
        Passed(tau[:, s], late[s], opened[s].astype(np.int64), loss[s], overshoot[s])
        for s in (slice(i * keys, (i + 1) * keys) for i in range(len(level)))
    ]


def growth_cost(n: np.ndarray, g: float, lam: float) -> np.ndarray:
    """Cost per step if the cache is changed every `n` steps and step j after a change costs `g j`, j = 0 .. n - 1."""
    n = np.asarray(n, np.float64)
    return lam / n + g * (n - 1) / 2


def growth_period(g: float, lam: float) -> int:
    """The cheapest whole period: the least n with g n (n + 1) / 2 >= lam (see the README for why)."""
    n = max(1, int(np.sqrt(2 * lam / g)) - 2)
    while g * n * (n + 1) / 2 < lam:
        n += 1
    return n


def unlearning_lag(uses: int, limit: int) -> int:
    """Idle queries until a resident of `solar_e` that was used `uses` times has a posterior mean of at most 1/2.

    The registered rule is run; `limit` is where counting stops.

    Raises:
      TheoryError: if the mean is still above 1/2 after `limit` queries.
    """
    policy = policy_of(case("solar_e", bonus="none"))
    slot, here, nothing = jnp.zeros(1, jnp.int32), jnp.ones(1, bool), jnp.zeros(1, bool)

    def look(state, t: Array, used: Array):
        seen = here & used
        view = full_view(
            t=t, queries=t + 1, offers=t, ids=slot, inserted=slot, retrieved=seen, touched=seen, disliked=nothing,
            miss=jnp.float32(0), candidate=jnp.int32(-1),
        )  # fmt: skip
        return policy.observe(jnp.zeros(2, jnp.uint32), state, view)[0]

    @jax.jit
    def run() -> Array:
        def body(state, t):
            state = look(state, t, t < uses)
            held = state.victim
            return state, (held.alpha[0] - held.beta[0]) <= np.float32(1e-3)

        # Uses come in the first queries, so that ageing meets the resident idle from query `uses` on.
        start = policy.init(1)
        return lax.scan(body, start, jnp.arange(uses + limit, dtype=jnp.int32))[1]

    low = np.asarray(run())[uses:]
    if not low.any():
        raise TheoryError(f"the posterior mean is still above 1/2 after {limit} idle queries")
    return int(np.argmax(low)) + 1
