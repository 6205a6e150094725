"""Every registered policy against every property."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from solarjax.core.trace import NO_ITEM, StepMode
from solarjax.policies.registry import POLICIES
from tests.conformance.properties import PROPERTIES
from tests.conformance.subject import Subject, flagged, subject_of, ties_and_none


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda p: p.__name__)
@pytest.mark.parametrize("name", POLICIES)
def test_policy(name: str, holds: Callable[[Subject], None]) -> None:
    holds(subject_of(name))


def test_every_flag_occurs() -> None:
    """A property that a flag switches off is still tested somewhere, and so is its opposite."""
    for flag in ("online", "stochastic", "unbounded", "stack"):
        assert flagged(**{flag: True}) and flagged(**{flag: False}), flag


def test_the_traces_reach_every_path() -> None:
    """What the properties quantify over is there: evictions, duplicates, each mode, ties, and no query or item."""
    world, base = ties_and_none(), subject_of("fifo").base
    assert (base.outcome.evicted != NO_ITEM).sum() > 200
    for trace in world.traces:
        assert set(trace.mode) == set(StepMode)
        assert ((trace.query < 0) & (trace.arrival < 0)).any()
    ties = [len(np.unique(world.tables.similarity[:, w])) for w in range(len(world.traces))]
    assert max(ties[::2]) < 30 and min(ties[1::2]) > 200
