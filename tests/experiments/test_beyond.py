"""Artefacts beyond the paper: what they plan, how they join sweeps, and computations that are no sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments import beyond
from experiments.artefacts import admission_only, feedback, latency, sensitivity
from experiments.measurements import grid, stale_pools
from experiments.measurements.latency import decide
from experiments.types import Context
from solarjax.cli.job import Job
from solarjax.cli.sources import SourceSpec
from solarjax.core.trace import StepMode, Trace
from solarjax.policies.registry import POLICIES, case, parse_cases
from solarjax.replay.stepper import Stepper, lane_key
from tests.oracles import simulate

SMALL = ("n_topics=4", "items_per_topic=2", "n_steps=40", "dim=16", "min_sep=0.2")


def small(policies: str, **options: Any) -> Any:
    """A sweep that takes a moment."""
    source = SourceSpec("workload", "working_set", settings=SMALL)
    return Job(source, policies, capacities=(3,), seeds=(0, 1, 2), **options).sweep(None)


def policies_of(text: str) -> list[str]:
    """Registry names of a list of cases."""
    return [c.name for c in parse_cases(text)[0]]


def test_every_registered_policy_is_in_a_table() -> None:
    from experiments import policies

    full = Context()
    assert set(POLICIES) == set(policies_of(policies.synthetic(full))) | set(policies_of(beyond.policies(full)))


@pytest.fixture(scope="module")
def fifo_lru() -> Any:
    return small("fifo,lru")


def test_joined_sweeps_are_paired(fifo_lru: Any) -> None:
    ours = small("fifo,sieve")
    joined = beyond.join(fifo_lru, ours)
    assert list(joined["policy"].values) == ["fifo", "lru", "sieve"]
    assert (joined["hit_rate"].sel(policy="sieve").values == ours["hit_rate"].sel(policy="sieve").values).all()
    with pytest.raises(ValueError, match="differ in seed"):
        beyond.join(fifo_lru, ours.isel(seed=[0, 1]))
    with pytest.raises(ValueError, match="differ in feedback"):
        beyond.join(fifo_lru, ours.assign_attrs(feedback="liked"))


def test_deaf_policies_hear_nothing_and_the_others_do() -> None:
    """What the feedback study does not run is what feedback cannot change."""
    listening = {n for n in policies_of(feedback.LISTENING) if n != "fifo"}
    deaf = set(policies_of(feedback.DEAF)) - {"two_q"}
    assert listening & deaf == set() and deaf | listening | {"fifo", "two_q"} <= set(POLICIES)
    chosen = "redundancy,lfu"
    plain, told = (small(chosen, feedback=f, quality="precision") for f in ("retrieved", "liked_disliked"))
    same = (plain["hit_rate"] == told["hit_rate"]).all(["capacity", "seed", "trace"])
    assert same.sel(policy="redundancy") and not same.sel(policy="lfu")


def test_the_grid_is_the_same_as_separate_sweeps(fifo_lru: Any) -> None:
    """Each cell of the one grid holds what a sweep of that workload alone gives."""
    settings = {"n_topics": 4, "items_per_topic": 2, "n_steps": 40, "dim": 16, "min_sep": 0.2}
    cell = {"workload": "working_set", "settings": settings}
    other = {"workload": "cycling", "settings": {"n_topics": 3, "items_per_topic": 2, "n_cycles": 5, "dim": 16}}
    config = {
        "cells": {"a=1": cell, "b=1": other}, "policies": "fifo,lru", "params": [], "capacities": [3],
        "seeds": [0, 1, 2], "root_seed": 0, "window": 100,
    }  # fmt: skip
    data = grid.measure(config)
    assert (data["hit_rate"].sel(cell="a=1").values == fifo_lru["hit_rate"].isel(trace=0).values).all()
    # FIFO with room for every topic of a cycle misses each once: closed form.
    assert np.allclose(data["hit_rate"].sel(cell="b=1", policy="fifo"), 1 - 3 / 15)
    assert data["working_set"].sel(cell="a=1").values.tolist() == [4, 4, 4]


def test_the_sensitivity_grid_is_one_measurement() -> None:
    plan = sensitivity.plan(Context(seeds=2))
    assert list(plan) == ["grid"] and sensitivity.RELEASED_CELL in plan["grid"].config["cells"]
    assert set(sensitivity.QUICK_CELLS) <= set(sensitivity.cells())


def test_stale_pools_agree_with_the_engine() -> None:
    """Frozen pools and FIFO from one matrix, against the sweep of the same workload."""
    settings = {
        "n_topics": 3,
        "n_eras": 3,
        "items_per_era": 6,
        "n_queries": 20,
        "dim": 8,
        "min_sep": 0.2,
        "item_noise": 0.3,
    }
    config = {"settings": settings, "capacities": [5, 9], "noises": [0.3], "seeds": [0, 1], "root_seed": 0}
    pools = stale_pools.measure(config)["hit_rate"].sel(query_noise=0.3)
    pairs = tuple(f"{n}={v}" for n, v in settings.items()) + ("query_noise=0.3",)
    for rule, extra in (("latest", ("pool=latest",)), ("uniform", ("pool=uniform",)), ("fifo", ("protocol=online",))):
        job = Job(
            SourceSpec("workload", "stale_versions", settings=pairs + extra), "fifo", capacities=(5, 9), seeds=(0, 1)
        )
        engine = job.sweep(None)["hit_rate"].isel(trace=0, policy=0)
        assert np.allclose(pools.sel(rule=rule).values, engine.values, atol=1e-6), rule


@pytest.mark.parametrize("name", ["arc", "solar_a(fill=free)"])
def test_what_is_timed_decides_as_the_oracle(name: str) -> None:
    """One request at a time, with the best cosine as quality: the plain-Python simulation's decisions."""
    rng = np.random.default_rng(5)
    steps, dim, capacity = 60, 8, 6
    points = rng.normal(size=(2, steps, dim))
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    items, queries = points.astype(np.float32)
    number = np.arange(steps)
    trace = Trace(
        name="t", items=items, queries=queries, query=number, arrival=number, mode=np.full(steps, StepMode.SCORED),
        relevant_indptr=np.arange(steps + 1), relevant_indices=number,
    )  # fmt: skip
    chosen = parse_cases(name)[0][0]
    params = dict(chosen.static) | dict(chosen.traced)
    expected = simulate(trace, chosen.name, params, capacity=capacity, quality="max_similarity")
    stepper = Stepper(chosen, capacity, steps, dim, lane_key(0, "latency", 0))
    for t, (want, got) in enumerate(zip(expected, decide(stepper, queries, items), strict=True)):
        assert got.admitted == want.admitted, t
        assert got.evicted == (-1 if want.evicted is None else want.evicted), t
    assert sum(s.evicted is not None for s in expected) > 3


def test_quantile_interval() -> None:
    """95 % order statistics of the median of 100: the 40th and the 60th (binomial tables)."""
    assert latency.quantile_interval(np.arange(1.0, 101.0), 0.5) == (40.0, 61.0)


def test_quick_plans_are_small() -> None:
    """A quick run compiles one program per policy and slot size: they are kept few."""
    quick = replace(Context(quick=True), seeds=2)
    assert len(policies_of(beyond.policies(quick))) <= 10
    assert list(admission_only.plan(quick)) == ["working set"]
    assert case("bernoulli", p=0.17).label == "bernoulli"
