"""A sweep as a list of tasks, and how it is cut for several processes and for a store; nothing is computed here."""

from __future__ import annotations

import itertools
import json

import pytest

from solarjax.core.chunks import SweepError
from solarjax.core.tasks import plan_sweep
from solarjax.policies.registry import case
from solarjax.scale import memory
from solarjax.scale.ray_worker import identity, run_named
from solarjax.scale.regions import REGION_BYTES, cell_bytes, cells_per_seed, lay_out, regions
from solarjax.scale.shares import share
from solarjax.workloads.registry import make
from solarjax.workloads.sources import GeneratedSource
from tests.scale.worlds import SEEDS, small_plan

ALL_PAIRS = sorted(itertools.product(range(3), SEEDS))


@pytest.mark.parametrize("by_trace", [False, True])
@pytest.mark.parametrize("block", [1, 2, 4, 7, 100])
def test_blocks_are_all_pairs_once(block: int, by_trace: bool) -> None:
    plan = small_plan().laid_out({"block_pairs": block, "by_trace": by_trace})
    blocks = [plan.pairs(i) for i in range(plan.num_blocks)]
    assert sorted(itertools.chain(*blocks)) == ALL_PAIRS
    assert all(1 <= len(pairs) <= block for pairs in blocks)
    if by_trace:
        assert all(len({trace for trace, _ in pairs}) == 1 for pairs in blocks)
    assert len(plan.tasks) % plan.num_blocks == 0 and len({t.name for t in plan.tasks}) == len(plan.tasks)


def test_tasks_mean_the_same_in_every_process() -> None:
    """Names and identity depend on content and layout only; a change of either shows."""
    plan = small_plan()
    again = small_plan().laid_out(json.loads(json.dumps(plan.layout)))
    assert [t.name for t in again.tasks] == [t.name for t in plan.tasks]
    assert identity(again) == identity(plan)
    assert identity(small_plan(root_seed=1)) != identity(plan) != identity(plan.laid_out({"block_pairs": 3}))


def test_a_worker_with_another_plan_refuses() -> None:
    plan = small_plan()
    with pytest.raises(SweepError, match="other code or other input files than the driver"):
        run_named(small_plan, plan.layout, identity(small_plan(root_seed=1)), 0)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_shares_are_all_parts_once(count: int) -> None:
    parts = list(range(7))
    shares = [share(parts, i, count) for i in range(count)]
    assert sorted(itertools.chain(*shares)) == parts
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(("index", "count"), [(2, 2), (-1, 2), (0, 0)])
def test_a_process_that_is_not_there(index: int, count: int) -> None:
    with pytest.raises(SweepError, match=f"process {index} of {count}: allowed are 0..{count - 1}"):
        share([1, 2], index, count)


@pytest.mark.parametrize("writers", [1, 3])
@pytest.mark.parametrize("budget", [1, 2, 10])
def test_regions_are_all_cells_and_all_tasks_once(writers: int, budget: int) -> None:
    """`budget` in seeds that fit."""
    whole = small_plan()
    layout = lay_out(whole, writers, budget * cells_per_seed(whole) * cell_bytes(whole))
    plan = whole.laid_out(layout)
    cut = regions(plan, layout["region_seeds"])
    assert sorted((r.trace, s) for r in cut for s in plan.seeds[r.start : r.stop]) == ALL_PAIRS
    assert [t.name for r in cut for t in r.tasks] == [t.name for t in plan.tasks]
    for region in cut:
        there = {pair for t in region.tasks for pair in plan.pairs(t.block)}
        assert there == {(region.trace, s) for s in plan.seeds[region.start : region.stop]}
        assert region.stop - region.start <= budget
    if budget == 10:
        assert len(cut) >= min(4 * writers, 6)


def big(seeds: int) -> tuple:
    """`seeds` x 4 policies x 5 capacities over T = 1,000."""
    source = GeneratedSource(make("working_set", n_topics=15, n_steps=1000))
    cases = [case(name) for name in ("fifo", "lru", "solar_e", "solar")]
    plan = plan_sweep(source, cases, [10, 20, 30, 40, 50], seeds, memory_bytes=2**30)
    return plan, lay_out(plan)


def test_a_million_lanes_stay_below_four_gib() -> None:
    """Twice the lanes need more for the plan's lists only, and that by less than 2 KiB per seed."""
    plan, layout = big(50_000)
    assert memory.lanes(plan) == 10**6 and plan.source.num_steps == 1000
    large = memory.peak_bytes(plan, layout, devices=2)
    assert large["total"] == sum(size for name, size in large.items() if name != "total") < 4 * 2**30
    assert layout["region_seeds"] * cells_per_seed(plan) * cell_bytes(plan) <= REGION_BYTES
    twice = memory.peak_bytes(*big(100_000), devices=2)
    grown = {name: twice[name] - size for name, size in large.items() if twice[name] != size}
    assert grown.keys() == {"plan", "total"} and 0 < grown["plan"] < 50_000 * 2048
