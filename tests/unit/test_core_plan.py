"""How a sweep is cut: slot groups, and blocks that fit a memory budget."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solarjax.core.plan import Combo, default_budget, lane_bytes, pairs_per_block, slot_groups

capacity_lists = st.lists(st.integers(1, 3000), min_size=1, max_size=20, unique=True)


@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(capacity_lists, st.integers(1, 1000))
def test_no_lane_pays_for_more_than_twice_its_slots(capacities: list[int], num_items: int) -> None:
    """Each combination runs once, fits its group's slots, and uses at least half of them."""
    grid = {"lam": [1.0, 5.0], "p": [0.1, 0.2, 0.3]}
    groups = slot_groups(capacities, num_items, grid)
    combos = [combo for group in groups for combo in group.combos]
    assert sorted(combos) == sorted(
        Combo(c, point) for c in capacities for point in itertools.product([1.0, 5.0], [0.1, 0.2, 0.3])
    )
    for group in groups:
        assert group.axes == ("lam", "p")
        used = [min(combo.capacity, num_items) for combo in group.combos]
        assert max(used) == group.num_slots and 2 * min(used) >= group.num_slots
    assert [g.num_slots for g in groups] == sorted({g.num_slots for g in groups})


def test_slot_groups_worked() -> None:
    """10 and 20 differ by a factor of 2 and share, 9 is too small; 30 and 50 share; 200 and 500 hold all 150 items."""
    groups = slot_groups([9, 10, 20, 30, 50, 200, 500], 150, {})
    assert [(g.num_slots, [c.capacity for c in g.combos]) for g in groups] == [
        (9, [9]),
        (20, [10, 20]),
        (50, [30, 50]),
        (150, [200, 500]),
    ]


def block(**changed: int) -> int:
    """Pairs of a block; by default everything fits."""
    standard = {
        "pair_bytes": 1000,
        "lane_cost": 100,
        "combos": 10,
        "lanes": 256,
        "num_pairs": 1000,
        "devices": 2,
        "budget": 10**9,
    }
    return pairs_per_block(**(standard | changed))


def test_blocks_have_the_preferred_size_if_they_fit() -> None:
    assert block() == 2 * (256 // 10)
    assert block(combos=300) == 2, "more combinations than lanes: one pair per device"
    assert block(num_pairs=7) == 8, "no more than there are, rounded up to the devices"
    assert block(devices=1, num_pairs=7) == 7


@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(
    st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1, 100), st.integers(1, 50), st.sampled_from([1, 2, 3])
)
def test_blocks_keep_the_budget(pair_bytes: int, lane_cost: int, combos: int, pairs: int, devices: int) -> None:
    per_pair = pair_bytes + lane_cost * combos
    budget = per_pair * devices * 3
    size = block(
        pair_bytes=pair_bytes, lane_cost=lane_cost, combos=combos, num_pairs=pairs, devices=devices, budget=budget
    )
    assert size % devices == 0 and devices <= size and size * per_pair <= budget


def test_a_budget_that_one_pair_exceeds_is_refused() -> None:
    with pytest.raises(ValueError) as caught:
        block(pair_bytes=600 * 2**20, budget=1000 * 2**20)
    assert str(caught.value) == (
        "one trace needs 600 MiB and 2 device(s) run at once, but the memory budget is 1000 MiB; "
        "raise the budget or name fewer capacities"
    )
    assert block(pair_bytes=600 * 2**20, budget=1300 * 2**20) == 2


def test_memory_estimates() -> None:
    assert default_budget() > 2**27
    assert lane_bytes(50, 3, 0) > 50 * 4 * 3
    assert lane_bytes(50, 3, 1000) == lane_bytes(50, 3, 0) + 1000
