"""One compilation per policy, slot count and shape: seeds, capacities of a group and hyper-parameters share it.

Here through the whole sweep, with one policy that has numbers to change; that a rollout is traced once is a property
that tests/conformance checks for every policy.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

from solarjax.core.sweep import sweep
from solarjax.policies.registry import POLICIES, case
from solarjax.workloads.registry import make
from solarjax.workloads.sources import GeneratedSource

COMPILED = "/jax/core/compile/backend_compile_duration"


@functools.cache
def source(cycles: int) -> GeneratedSource:
    """24 or more steps, 18 items."""
    return GeneratedSource(make("cycling", n_topics=6, items_per_topic=3, n_cycles=cycles, dim=16))


@pytest.fixture
def compilations() -> Iterator[Counter[str]]:
    """What XLA compiled since the start of the test, by the name of the function."""
    found: Counter[str] = Counter()

    def listen(event: str, seconds: float, **about: Any) -> None:
        if event == COMPILED:
            found[str(about["fun_name"])] += 1

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def count_makes(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Counter[str]]:
    """Counts how often a policy is built: only tracing builds it."""

    def counting(name: str) -> Counter[str]:
        calls: Counter[str] = Counter()
        spec = POLICIES[name]

        def counted(**params: Any) -> Any:
            calls[name] += 1
            return spec.make(**params)

        monkeypatch.setitem(POLICIES, name, spec._replace(make=counted))
        return calls

    return counting


def test_one_compilation_serves_seeds_capacities_and_numbers(compilations, count_makes):
    built = count_makes("gated_fifo")
    first = sweep(source(4), [case("gated_fifo")], [6, 8], 3)
    traced = built.total()
    assert traced > 0 and programs(compilations) == 1
    # Other seeds, another capacity of the same group (N = 8 serves 5 to 8), other numbers, another root.
    second = sweep(source(4), [case("gated_fifo", lam=2.0)], [5, 8], [11, 12, 13], root_seed=5)
    assert built.total() == traced and programs(compilations) == 1
    assert first["hit_rate"].shape == second["hit_rate"].shape
    assert not np.array_equal(first["admissions"].values, second["admissions"].values)
    # What does change the program is seen: slots, steps.
    sweep(source(4), [case("gated_fifo")], [3, 4], 3)
    assert programs(compilations) == 2 and built.total() > traced
    sweep(source(5), [case("gated_fifo")], [6, 8], 3)
    assert programs(compilations) == 3


def programs(compilations: Counter[str]) -> int:
    """How often the program of a chunk was compiled (`core.parallel.block_runner`)."""
    return compilations["jit_run"] + compilations["jit(run)"]
