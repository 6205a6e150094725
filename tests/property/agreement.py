"""Engine and plain-Python oracle side by side: the same trace, the same random numbers, every decision compared.

Compared are the items retrieved, by rank, whether the arrival was written, and which item it replaced. The engine
computes in float32, the oracles in float64; nothing is tolerated, because what can be equal is equal exactly in
both: cosines are multiples of 1/64, grades and answer recalls are dyadic, and so are the parameters that are
accumulated. What is left, sums with an exponential or a square root in them, differs by far more than its rounding.
`lam` keeps the thresholds with a square root irrational: one that decays towards 1 from above reaches it in float32
after 24 steps, and never in exact arithmetic. (What happens exactly at a threshold: `fixed` here, the others in
`tests/unit/test_policies_gates.py`.)
Examples are derandomized, so a run repeats the previous one, and not shrunk: a difference names its lane and step.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import hypothesis.strategies as st
import jax
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings

from solarjax.core import random
from solarjax.core.lanes import Lanes, Rules
from solarjax.core.trace import NO_ITEM
from solarjax.core.victims import VICTIM_STREAM
from tests.oracles import ORACLES, Draws, Step, simulate
from tests.oracles import World as OracleWorld
from tests.support.engine import LANES, VARIANTS, Run, lanes_of, run
from tests.support.worlds import STEPS, TRACE_BYTES, TRACES, World, trace_of, world_of

POINTS: dict[str, tuple[float, ...]] = {
    "lam": (0.75, 1.25, 3, 5),
    "ema": (0, 0.25, 0.5, 1),
    "tau0": (0, 0.5, 0.75),
    "tau_per_lam": (0, 1, 2),
    "prior_alpha": (0.5, 1, 2),
    "prior_beta": (0.5, 1, 2),
    "bonus_weight": (0, 0.25, 1),
    "age_scale": (2, 20),
    "age_step": (0, 0.0625, 0.5),
    "age_period": (1, 2, 5),
    "discount": (0, 0.5, 1),
    "p": (0, 0.25, 0.5, 1),
    "recency_weight": (0, 0.4, 1),
    "frequency_weight": (0, 0.7),
    "novelty_weight": (0, 0.3),
    "recency_scale": (2, 100),
    "in_fraction": (0, 0.25, 0.5, 1),
    "out_fraction": (0, 0.5, 1),
    "small_fraction": (0, 0.125, 0.5, 1),
    "window_fraction": (0, 0.25, 0.5, 1),
    "protected_fraction": (0, 0.5, 0.75),
    "history": (1, 2, 3, 4),
    "miss_weight": (0, 0.5, 1),
}
"""Values of every parameter that is not structural."""


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


def traced_points(policy: Any) -> st.SearchStrategy[dict[str, list[float]]]:
    """Values of the policy's parameters in the VARIANTS of a batch."""
    values = {
        name: st.lists(st.sampled_from(POINTS[name]), min_size=VARIANTS, max_size=VARIANTS) for name, _ in policy.traced
    }
    return st.fixed_dictionaries(values)


def compare(policy: Any, rules: Rules, examples: int) -> Counter[str]:
    """Compares on so many examples; what happened in them. Raises AssertionError at the first disagreement."""
    seen: Counter[str] = Counter()

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(min_size=TRACES * TRACE_BYTES, max_size=TRACES * TRACE_BYTES), st.data())
    def check(raw: bytes, data: st.DataObject) -> None:
        parts = [raw[i * TRACE_BYTES : (i + 1) * TRACE_BYTES] for i in range(TRACES)]
        world = world_of([trace_of(part, f"t{i}") for i, part in enumerate(parts)], grid=64)
        lanes = lanes_of(policy, data.draw(st.integers(0, 2**32 - 1)), data.draw(traced_points(policy)))
        record = run(rules, world, lanes)
        # A costly rule is compared on one variant per example, in turn: drawing single numbers takes its time.
        seen["examples"] += 1
        which = range(seen["examples"] % VARIANTS, LANES, VARIANTS) if rules.costly_victim else range(LANES)
        seen["admissions"] += int(record.outcome.admitted[:, which].sum())
        seen["evictions"] += int((record.outcome.evicted[:, which] != NO_ITEM).sum())
        found = differences(policy, rules, world, lanes, record, which)
        assert not found, found[0]

    check()
    return seen
