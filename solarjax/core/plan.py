"""How a sweep is cut: slot groups, combinations, and blocks that fit a memory budget."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LANES_PER_DEVICE_CPU = 256
"""Lanes of one device that keep its state in a core's L2 cache for K = 50."""
LANES_PER_DEVICE_GPU = 65536


class Combo(NamedTuple):
    """One lane kind within a policy case: a capacity and a point of the case's own grid axes."""

    capacity: int
    point: tuple[float, ...]


class SlotGroup(NamedTuple):
    """Capacities that share one compilation: N slots, and the combinations run on them. `axes` names the points."""

    num_slots: int
    axes: tuple[str, ...]
    combos: tuple[Combo, ...]


def slot_groups(
    capacities: Sequence[int], num_items: int, grid: Mapping[str, Sequence[float]]
) -> tuple[SlotGroup, ...]:
    """Groups capacities so that no lane pays for more than twice its slots.

    N is the largest capacity of the group, and the smallest is at least N / 2. A capacity above the item count needs
    no more slots than there are items: nothing is ever evicted.
    """
    need = sorted({min(c, num_items) for c in capacities})
    sizes: list[int] = []
    for slots in reversed(need):
        if not sizes or slots * 2 < sizes[-1]:
            sizes.append(slots)
    groups: dict[int, list[Combo]] = {n: [] for n in sizes}
    for capacity in sorted(set(capacities)):
        slots = min(capacity, num_items)
        num_slots = min(n for n in sizes if n >= slots)
        groups[num_slots] += [Combo(capacity, point) for point in itertools.product(*grid.values())]
    return tuple(SlotGroup(n, tuple(grid), tuple(groups[n])) for n in sorted(groups))


def default_budget() -> int:
    """A quarter of the physical memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


def lane_bytes(num_slots: int, k: int, per_step: int) -> int:
    """Device bytes of one lane: store, policy state, temporaries, and per-step output if asked for."""
    return num_slots * 4 * 24 + 512 + per_step


def pairs_per_block(
    *, pair_bytes: int, lane_cost: int, combos: int, lanes: int, num_pairs: int, devices: int, budget: int
) -> int:
    """Pairs in a block: as many as the budget and the preferred lane count allow, a multiple of the devices.

    Raises:
      ValueError: one pair per device does not fit the budget.
    """
    per_pair = pair_bytes + lane_cost * combos
    fit = budget // per_pair
    if fit < devices:
        raise ValueError(
            f"one trace needs {per_pair / 2**20:.0f} MiB and {devices} device(s) run at once, but the memory budget is "
            f"{budget / 2**20:.0f} MiB; raise the budget or name fewer capacities"
        )
    wanted = max(1, lanes // combos) * devices
    most = -(-num_pairs // devices) * devices
    return max(devices, min(fit, wanted, most) // devices * devices)
