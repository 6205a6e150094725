"""A policy under test with the runs that its properties look at, each made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import jax
import numpy as np

from solarjax.core.lanes import Lanes, Rules
from solarjax.policies.registry import POLICIES, case
from tests.support import engine
from tests.support.engine import Run, run
from tests.support.worlds import ITEMS, STEPS, World, exact_match_trace, random_traces, world_of

SUFFIX = 30
"""First step that the causality test rewrites."""


@cache
def ties_and_none() -> World:
    """The traces most properties run on."""
    return world_of(random_traces(1))


@cache
def other_suffix() -> World:
    """The same traces up to step SUFFIX, other ones from there on. Items, queries and relevance stay."""
    here, there = ties_and_none(), world_of(random_traces(2))
    traces = []
    for own, other in zip(here.traces, there.traces, strict=True):
        fields = dict(own.__dict__)
        for name in ("query", "arrival", "arrival_on_miss", "mode"):
            fields[name] = np.concatenate([fields[name][:SUFFIX], getattr(other, name)[SUFFIX:]])
        traces.append(type(own)(**fields))
    return world_of(traces)


@cache
def other_neighbours() -> World:
    """The first trace among three others."""
    return world_of([ties_and_none().traces[0], *random_traces(3)[1:]])


@cache
def relabelled() -> tuple[World, np.ndarray]:
    """The same traces with item i renamed `names[i]`; columns of the tables move, their bits do not change."""
    world = ties_and_none()
    names = np.random.default_rng(3).permutation(ITEMS)
    old = np.argsort(names)  # old[new name] = old name
    tables, plan = world.tables, world.schedule
    tables = tables._replace(
        similarity=tables.similarity[:, :, old],
        relevance=tables.relevance[:, :, old],
        answer_recall=tables.answer_recall[:, :, old],
        item_similarity=tables.item_similarity[:, old][:, :, old],
    )
    rename = np.append(names, -1).astype(np.int32)  # -1, no item, stays -1
    plan = plan._replace(
        arrival=rename[plan.arrival],
        arrival_on_miss=rename[plan.arrival_on_miss],
        future_uses=plan.future_uses[:, :, old],
        next_use=plan.next_use[:, :, old],
    )
    return World(world.traces, tables, plan), rename


@cache
def exact_match() -> World:
    """Classic caching: a cycle, Belady's anomaly, a skewed and a uniform stream."""
    rng = np.random.default_rng(4)
    cycle = [t % 7 for t in range(STEPS)]
    anomaly = [r - 1 for r in (1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5)] * (STEPS // 12)
    skewed = np.minimum(rng.geometric(0.3, STEPS) - 1, ITEMS - 1).tolist()
    uniform = rng.integers(0, ITEMS, STEPS).tolist()
    return world_of([exact_match_trace(r, f"t{i}") for i, r in enumerate((cycle, anomaly, skewed, uniform))])


class Subject:
    """One policy case and its runs on the shared traces.

    Args:
      case: a `PolicyCase`, or anything with its attributes.
      tamper: alters the record of the run "base" or "exact" in place, to see whether a property notices.
    """

    def __init__(self, case: Any, tamper: Callable[[Run, str], None] | None = None):
        self.case, self.spec, self._tamper = case, case.spec, tamper
        self.tampered = tamper is not None

    @cached_property
    def rules(self) -> Rules:
        return engine.rules_of(self.case)

    @cached_property
    def lanes(self) -> Lanes:
        return engine.lanes_of(self.case)

    @property
    def world(self) -> World:
        return ties_and_none()

    @cached_property
    def base(self) -> Run:
        return self._told("base", run(self.rules, self.world, self.lanes))

    @cached_property
    def rekeyed(self) -> Run:
        return run(self.rules, self.world, engine.lanes_of(self.case, seed=1))

    @cached_property
    def rewritten(self) -> Run:
        return run(self.rules, other_suffix(), self.lanes)

    @cached_property
    def renamed(self) -> Run:
        return run(self.rules, relabelled()[0], self.lanes)

    @cached_property
    def exact(self) -> Run:
        return self._told("exact", run(self.rules, exact_match(), self.lanes))

    def _told(self, which: str, truth: Run) -> Run:
        if self._tamper is None:
            return truth
        record = jax.tree.map(np.array, truth)
        self._tamper(record, which)
        return record


@cache
def subject_of(name: str) -> Subject:
    """The registry's policy with its defaults."""
    return Subject(case(name))


def flagged(**flags: bool) -> list[str]:
    """Registry names whose spec has these flags."""
    return [n for n, spec in POLICIES.items() if all(getattr(spec, f) == v for f, v in flags.items())]


def alike() -> list[str]:
    """One policy for each set of flags and needs: what the engine, and not the policy, does differently for them."""
    first: dict[tuple, str] = {}
    for name, spec in POLICIES.items():
        first.setdefault((case(name).needs, spec.online, spec.stochastic, spec.unbounded), name)
    return list(first.values())
