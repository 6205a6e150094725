"""What is measured, and at which size."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from solarjax.bench.errors import BenchError

PEERED = ("fifo", "lru", "lfu", "arc", "solar_a", "solar")
"""Policies measured by default: those that have a compiled peer."""


@dataclass(frozen=True)
class Options:
    """Sizes of every section; each reads what it needs.

    policies, capacities: what is compared.        growth_policies: those whose growth is measured.
    lanes, steps, repeats: B, T and timed runs.    seeds: of the memory section.
    device_lanes: of the device section, increasing; it leaves out points that would take longer than point_seconds.
    quick: smaller growth axes as well.            bounds: state the floor beside the comparison.
    """

    policies: tuple[str, ...] = PEERED
    growth_policies: tuple[str, ...] = ("fifo", "solar")
    capacities: tuple[int, ...] = (10, 50)
    lanes: int = 1024
    steps: int = 500
    repeats: int = 7
    seeds: tuple[int, ...] = (512, 1024, 2048, 4096)
    device_lanes: tuple[int, ...] = (100, 1_000, 10_000, 100_000, 1_000_000)
    point_seconds: float = 60.0
    quick: bool = False
    bounds: bool = True

    def checked(self) -> Options:
        """These options.

        Raises:
          BenchError: a list is empty or a number is out of range.
        """
        for name in ("policies", "growth_policies", "capacities", "seeds", "device_lanes"):
            if not getattr(self, name):
                raise BenchError(f"{name} is empty; name at least one")
        for name in ("lanes", "steps", "repeats"):
            if getattr(self, name) < 1:
                raise BenchError(f"{name} {getattr(self, name)} is out of range; allowed are whole numbers from 1")
        return self

    def plain(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def quick(options: Options) -> Options:
    """A smaller measurement: seconds instead of minutes, and rougher."""
    return replace(
        options,
        lanes=min(options.lanes, 256),
        steps=min(options.steps, 200),
        repeats=min(options.repeats, 3),
        seeds=options.seeds[:2],
        device_lanes=options.device_lanes[:3],
        point_seconds=10.0,
        quick=True,
    )
