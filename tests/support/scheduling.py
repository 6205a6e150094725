"""Which worker runs what, and in which order.

Files are the units, because tests of one file share what they compile; the files that ask a real vLLM are one unit,
because they share one server. Long units start first: one that starts last runs alone, beside an idle core.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdist.scheduler import LoadFileScheduling

VLLM = "tests/vllm"
LONGEST = (
    VLLM,
    "tests/golden/test_release_means.py",
    "tests/golden/test_release_stream.py",
    "tests/golden/test_release_parity.py",
    "tests/scale/test_launchers.py",
    "tests/conformance/test_policies.py",
    "tests/replay/test_stepper.py",
    "tests/theory/test_opt_exact.py",
    "tests/experiments/test_beyond.py",
    "tests/replay/test_loop.py",
    "tests/unit/test_core_sweep.py",
    "tests/statistical/test_policy_laws.py",
    "tests/scale/test_store.py",
)
"""Units of half a minute or more, the longest first; read them off `scripts/test --durations 60`."""


def unit_of(nodeid: str) -> str:
    """The unit that a test belongs to."""
    file = nodeid.split("::", 1)[0]
    return VLLM if file.startswith(f"{VLLM}/") else file


def longest_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests with the longest units in front; the order is kept otherwise, and within a unit."""
    place = {unit: number for number, unit in enumerate(LONGEST)}
    return sorted(items, key=lambda item: place.get(unit_of(item.nodeid), len(LONGEST)))


class ByUnit(LoadFileScheduling):
    """xdist's `loadfile` with `unit_of` instead of the file (`--no-loadscope-reorder` keeps the order)."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
