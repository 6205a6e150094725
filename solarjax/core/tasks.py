"""A sweep as a list of named tasks: planning it.

A plan says what is computed and how it is cut; it holds no results. Every task can be run in any process that makes
the same plan, in any order, and gives the same bits: `core.sweep` runs them one after the other, the launchers of
`solarjax.scale` hand them to other processes and machines.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from jax.sharding import Mesh

from solarjax.core.arguments import check_arguments, check_policies
from solarjax.core.chunks import SweepError
from solarjax.core.execute import Task, make_rules
from solarjax.core.parallel import local_mesh
from solarjax.core.plan import (
    LANES_PER_DEVICE_CPU,
    LANES_PER_DEVICE_GPU,
    SlotGroup,
    default_budget,
    lane_bytes,
    pairs_per_block,
    slot_groups,
)
from solarjax.core.source import Pair, Source
from solarjax.core.store import check_order_range

ENGINE_VERSION = 1
"""Part of a stored sweep's identity; raised whenever results may change."""
MAX_COMBOS = 1024
"""Combinations of one block; more are cut into several chunks."""


@dataclasses.dataclass(frozen=True)
class SweepPlan:
    """What a sweep computes, and how it is cut.

    source, policies, capacities, seeds, k, quality, feedback, like_at, grid, lambdas, root_seed, per_step: as
      `core.sweep.sweep` takes them, checked and in canonical types.
    groups: per policy the slot groups its lanes run in.
    block_pairs: (trace, seed) pairs of one block.
    by_trace: True if no block spans two traces; a store of rectangular regions needs that.
    """

    source: Source
    policies: tuple[Any, ...]
    capacities: list[int]
    seeds: list[int]
    k: int
    quality: str
    feedback: str
    like_at: float
    grid: dict[str, list[float]]
    lambdas: list[float]
    root_seed: int
    per_step: bool
    groups: tuple[tuple[SlotGroup, ...], ...]
    block_pairs: int
    by_trace: bool = False

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """What decides the counters, JSON-able; how they are cut is not part of it."""
        return {
            "engine": ENGINE_VERSION,
            "source": self.source.fingerprint(),
            "policies": [[c.name, c.label, dict(c.static), dict(c.traced)] for c in self.policies],
            "capacities": self.capacities,
            "seeds": self.seeds,
            "k": self.k,
            "quality": self.quality,
            "feedback": self.feedback,
            "like_at": self.like_at,
            "grid": self.grid,
            "root_seed": self.root_seed,
            "per_step": self.per_step,
        }

    @property
    def layout(self) -> dict[str, Any]:
        """How the sweep is cut, JSON-able; `tasks` is how many pieces that makes."""
        return {"block_pairs": self.block_pairs, "by_trace": self.by_trace, "tasks": len(self.tasks)}

    def laid_out(self, layout: Mapping[str, Any]) -> SweepPlan:
        """The same sweep cut as a store says; one begun on another machine may be cut differently."""
        block_pairs, by_trace = int(layout["block_pairs"]), bool(layout.get("by_trace", False))
        if (block_pairs, by_trace) == (self.block_pairs, self.by_trace):
            return self
        return dataclasses.replace(self, block_pairs=block_pairs, by_trace=by_trace)

    @property
    def dims(self) -> tuple[str, ...]:
        """Axes of the results."""
        return ("trace", "policy", "capacity", *self.grid, "seed")

    @property
    def coords(self) -> dict[str, Sequence[Any]]:
        """Labels along `dims`."""
        labels = [c.label for c in self.policies]
        axes: list[Sequence[Any]] = [list(self.source.traces), labels, self.capacities, *self.grid.values(), self.seeds]
        return dict(zip(self.dims, axes, strict=True))

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the results."""
        from solarjax import __version__

        return {
            "title": "solarjax sweep",
            "solarjax_version": __version__,
            "quality": self.quality,
            "feedback": self.feedback,
            "k": self.k,
            "root_seed": self.root_seed,
            "online": json.dumps({c.label: bool(c.spec.online) for c in self.policies}),
            "config": json.dumps(self.config, sort_keys=True),
        }

    @property
    def num_blocks(self) -> int:
        """Blocks of pairs."""
        traces, seeds = len(self.source.traces), len(self.seeds)
        if self.by_trace:
            return traces * -(-seeds // self.block_pairs)
        return -(-traces * seeds // self.block_pairs)

    def pairs(self, block: int) -> list[Pair]:
        """The (trace, seed) pairs of a block, trace-major; made when asked for, for there may be millions."""
        seeds = len(self.seeds)
        if self.by_trace:
            trace, number = divmod(block, -(-seeds // self.block_pairs))
            return [(trace, s) for s in self.seeds[number * self.block_pairs : (number + 1) * self.block_pairs]]
        start = block * self.block_pairs
        stop = min(start + self.block_pairs, len(self.source.traces) * seeds)
        return [(i // seeds, self.seeds[i % seeds]) for i in range(start, stop)]

    @functools.cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Every chunk, block by block. A name says block and content, so it means the same in every process."""
        kinds = []
        for case, groups in zip(self.policies, self.groups, strict=True):
            for group in groups:
                rules = make_rules(
                    case, group.num_slots, self.source, self.k, self.quality, self.feedback, self.like_at, self.per_step
                )
                identity = json.dumps([case.label, group.num_slots, group.combos])
                kinds.append((hashlib.sha256(identity.encode()).hexdigest()[:16], case, group, rules))
        return tuple(
            Task(f"{number:06d}-{kind}", number, case, group, rules)
            for number in range(self.num_blocks)
            for kind, case, group, rules in kinds
        )


def plan_sweep(
    source: Source,
    policies: Sequence[Any],
    capacities: Sequence[int],
    seeds: int | Sequence[int],
    *,
    k: int = 3,
    quality: str = "hit",
    feedback: str = "retrieved",
    like_at: float = 0.5,
    grid: Mapping[str, Sequence[float]] | None = None,
    lambdas: Sequence[float] = (1.0,),
    root_seed: int = 0,
    per_step: bool = False,
    memory_bytes: int | None = None,
    mesh: Mesh | None = None,
) -> SweepPlan:
    """Checks a sweep's arguments and cuts it into blocks that fit the memory budget.

    Args:
      mesh: the devices a block is spread over (`core.parallel.local_mesh`), by default all local ones. Results do
        not depend on it.
      The others: as in `core.sweep.sweep`.

    Raises:
      SweepError: an argument is not allowed, or one trace does not fit the budget.
    """
    capacities, seeds, grid, lambdas = check_arguments(
        capacities, seeds, grid, lambdas, k, quality, feedback, root_seed
    )
    check_policies(policies, grid)
    mesh = local_mesh() if mesh is None else mesh
    needs = [case.needs for case in policies]
    pairwise = any(n.pairwise or n.candidate_similarity for n in needs)
    groups = tuple(_groups(case, source, capacities, grid) for case in policies)
    widths = [g.num_slots for gs in groups for g in gs]
    try:
        check_order_range(max(widths), source.num_steps)
        block_pairs = pairs_per_block(
            pair_bytes=source.bytes_per_pair(pairwise, any(n.future for n in needs)),
            lane_cost=max(lane_bytes(n, k, source.num_steps if per_step else 0) for n in widths),
            combos=max(len(g.combos) for gs in groups for g in gs),
            lanes=LANES_PER_DEVICE_CPU if mesh.devices.flat[0].platform == "cpu" else LANES_PER_DEVICE_GPU,
            num_pairs=len(source.traces) * len(seeds),
            devices=mesh.size,
            budget=default_budget() if memory_bytes is None else memory_bytes,
        )
    except ValueError as error:
        raise SweepError(str(error)) from error
    return SweepPlan(
        source, tuple(policies), capacities, seeds, k, quality, feedback, like_at, grid, lambdas, root_seed, per_step,
        groups, block_pairs,
    )  # fmt: skip


def _groups(case: Any, source: Source, capacities: Sequence[int], grid: Mapping) -> tuple[SlotGroup, ...]:
    own = {name: points for name, points in grid.items() if name in dict(case.traced)}
    unbounded = [source.num_items] if case.spec.unbounded else capacities
    cut = []
    for group in slot_groups(unbounded, source.num_items, own):
        for start in range(0, len(group.combos), MAX_COMBOS):
            cut.append(group._replace(combos=group.combos[start : start + MAX_COMBOS]))
    return tuple(cut)
