"""The rollout, compiled once per policy and shared by all tests of a process."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np

from solarjax.core.execute import make_rules
from solarjax.core.lanes import Lanes, Rules
from solarjax.core.rollout import Carry, Outcome, rollout
from tests.support.worlds import ITEMS, TRACES, World

SLOTS, CAPACITIES, VARIANTS = 8, (1, 3, 6, 8), 3
LANES = TRACES * len(CAPACITIES) * VARIANTS
"""More than one block of the costly victim rules (32), and no multiple of it."""
LIKE_AT = 0.45
"""No quality of a palette trace lies near it, so float32 and float64 like the same answers."""
TRACINGS: Counter[Rules] = Counter()
"""How often a rollout was traced for each `Rules`; a compilation each."""


class Run(NamedTuple):
    """Per-step record and final carry of a batch, as numpy arrays; lane axis last."""

    outcome: Outcome
    carry: Carry

    def lane(self, number: int) -> Run:
        """The run of one lane, lane axis kept."""
        return jax.tree.map(lambda x: x[..., number : number + 1], self)


def _counted(rules: Rules, tables: Any, schedule: Any, lanes: Lanes) -> tuple[Carry, Outcome | None]:
    TRACINGS[rules] += 1
    return rollout(rules, tables, schedule, lanes)


_compiled = jax.jit(_counted, static_argnums=0)


def num_slots(case: Any) -> int:
    """Slots of the tests' batches."""
    return ITEMS if case.spec.unbounded else SLOTS


def rules_of(
    case: Any, k: int = 3, quality: str = "hit", feedback: str = "retrieved", like_at: float = LIKE_AT
) -> Rules:
    """The static side of a case, every counter and the per-step record on."""
    source: Any = SimpleNamespace(availability=True, categories=("even", "odd"))
    return make_rules(case, num_slots(case), source, k, quality, feedback, like_at, True)


def lanes_of(case: Any, seed: int = 0, points: dict[str, Any] | None = None) -> Lanes:
    """All lanes: traces x CAPACITIES x VARIANTS, each with its own key.

    Args:
      points: parameter name -> its values in the VARIANTS; the others take their default, half and an eighth of it,
        as far as their range allows.
    """
    trace, capacity, variant = (
        x.reshape(-1).astype(np.int32)
        for x in np.meshgrid(np.arange(TRACES), CAPACITIES, np.arange(VARIANTS), indexing="ij")
    )
    if case.spec.unbounded:
        capacity = np.full_like(capacity, ITEMS)
    values = {name: np.array([value, value / 2, value / 8]) for name, value in case.traced}
    values = {name: np.maximum(v, case.spec.params[name].low) for name, v in values.items()} | (points or {})
    return Lanes(
        table=trace,
        pair=trace,
        capacity=capacity,
        key=np.random.default_rng(seed).integers(0, 2**32, (2, LANES), dtype=np.uint32),
        params={name: np.asarray(v, np.float32)[variant] for name, v in values.items()},
    )


def run(rules: Rules, world: World, lanes: Lanes) -> Run:
    """Runs the lanes; compiles only if these rules are new."""
    tables, schedule = world.tables, world.schedule
    if not (rules.pairwise or rules.candidate_similarity):
        tables = tables._replace(item_similarity=None)
    if not rules.future:
        schedule = schedule._replace(future_uses=None, next_use=None)
    if not rules.coverage:
        schedule = schedule._replace(last_asked=None)
    carry, outcome = _compiled(rules, tables, schedule, lanes)
    if carry.nearest is not None:
        carry = carry._replace(nearest=np.moveaxis(carry.nearest, 0, -1))
    return jax.tree.map(np.asarray, Run(outcome, carry))


def alone(lanes: Lanes, world: World, number: int) -> tuple[World, Lanes]:
    """One lane as a batch of its own: its trace and its tables only."""
    at = int(lanes.pair[number])
    tables = type(world.tables)(
        *(
            x if x is None else x[at : at + 1] if name == "item_similarity" else x[:, at : at + 1]
            for name, x in world.tables._asdict().items()
        )
    )
    schedule = jax.tree.map(lambda x: x[:, at : at + 1], world.schedule)
    zero = np.zeros(1, np.int32)
    one = jax.tree.map(lambda x: x[..., number : number + 1], lanes)._replace(table=zero, pair=zero)
    return World(world.traces[at : at + 1], tables, schedule), one
