"""Engine and plain-Python oracle side by side: the same trace, the same random numbers, every decision compared."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from solarjax.core import random
from solarjax.core.lanes import Lanes, Rules
from solarjax.core.trace import NO_ITEM
from solarjax.core.victims import VICTIM_STREAM
from tests.oracles import ORACLES, Draws, Step, simulate
from tests.oracles import World as OracleWorld
from tests.support.engine import Run
from tests.support.worlds import STEPS, World


class Difference(NamedTuple):
    """The first step at which a lane of the engine and the oracle decide differently."""

    lane: int
    t: int
    engine: Step
    oracle: Step


@jax.jit
def _uniforms(key: jax.Array, steps: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`[T, B]` each: the admission's and the victim's uniform of every step of lanes with key words `[2, B]`."""

    def one(words: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        now = random.fold_in(words, t)
        return random.uniform(now, 1)[0], random.uniform(random.fold_in(now, VICTIM_STREAM), 1)[0]

    return jax.vmap(lambda t: jax.vmap(one, in_axes=(1, None))(key, t))(steps)


@jax.jit
def _thetas(key: jax.Array, t: jax.Array, alpha: jax.Array, beta: jax.Array) -> jax.Array:
    """The posterior draws of one lane's victim rule at step t; entries with alpha 0 are not drawn."""
    now = random.fold_in(random.fold_in(key, t), VICTIM_STREAM)
    return random.beta(now, alpha, beta, alpha > 0)


def engine_draws(lanes: Lanes, lane: int, num_slots: int, uniforms: tuple[np.ndarray, np.ndarray]) -> Draws:
    """The random numbers that the engine draws in one lane."""
    key = np.asarray(lanes.key)[:, lane]
    admission, victim = (u[:, lane] for u in uniforms)

    def theta(t: int, slots: list[int], alpha: list[float], beta: list[float]) -> list[float]:
        by_slot = np.zeros((2, num_slots), np.float32)
        by_slot[:, slots] = alpha, beta
        return np.asarray(_thetas(key, np.int32(t), *by_slot))[slots].tolist()

    def pick(t: int, slots: list[int]) -> int:
        return min(int(victim[t] * np.float32(len(slots))), len(slots) - 1)

    return Draws(theta, lambda t: float(admission[t]), pick)


def decisions(record: Run, lane: int) -> list[Step]:
    """The engine's decisions in the oracle's terms."""
    outcome = record.outcome
    return [
        Step(
            [int(i) for i in outcome.retrieved[t, :, lane] if i != NO_ITEM],
            bool(outcome.admitted[t, lane]),
            int(outcome.evicted[t, lane]) if outcome.evicted[t, lane] != NO_ITEM else None,
        )
        for t in range(STEPS)
    ]


def differences(case: Any, rules: Rules, world: World, lanes: Lanes, record: Run, which: range) -> list[Difference]:
    """Runs the oracle on the lanes `which`; the first difference to the engine's record of each that has one."""
    uniforms = tuple(np.asarray(u) for u in _uniforms(lanes.key, np.arange(STEPS, dtype=np.int32)))
    tables = world.tables
    assert tables.item_similarity is not None
    worlds = [OracleWorld.of(t, tables.similarity[:, w], tables.item_similarity[w]) for w, t in enumerate(world.traces)]
    found = []
    for lane in which:
        params = dict(case.static) | {name: float(values[lane]) for name, values in lanes.params.items()}
        theirs = simulate(
            worlds[lanes.pair[lane]],
            case.name,
            params,
            capacity=int(lanes.capacity[lane]),
            k=rules.k,
            quality=rules.quality,
            feedback=rules.feedback,
            like_at=rules.like_at,
            draws=engine_draws(lanes, lane, rules.num_slots, uniforms),  # type: ignore[arg-type]
        )
        ours = decisions(record, lane)
        assert case.name in ORACLES and len(ours) == len(theirs)
        t = next((t for t in range(STEPS) if ours[t] != theirs[t]), None)
        if t is not None:
            found.append(Difference(lane, t, ours[t], theirs[t]))
    return found
