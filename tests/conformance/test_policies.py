"""Every registered policy against every property, and against its plain-Python oracle.

All of it in one file, because tests of one file run in one process and share what was compiled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from solarjax.core.trace import NO_ITEM, StepMode
from solarjax.policies.registry import POLICIES
from tests.conformance.properties import PROPERTIES, same_run
from tests.conformance.subject import Subject, alike, flagged, subject_of, ties_and_none
from tests.conformance.wrong_oracles import WRONG
from tests.oracles import ORACLES
from tests.property.agreement import compare
from tests.support.engine import LANES, alone, run

pytestmark = pytest.mark.usefixtures("usual_emitters")


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda p: p.__name__)
@pytest.mark.parametrize("name", POLICIES)
def test_policy(name: str, holds: Callable[[Subject], None]) -> None:
    holds(subject_of(name))


@pytest.mark.parametrize("name", alike())
def test_a_lane_alone(name: str) -> None:
    """One lane as a batch of its own, another program: the same bits, carry included."""
    subject = subject_of(name)
    for number in (1, LANES // 2 + 4, LANES - 1):
        record = run(subject.rules, *alone(subject.lanes, subject.world, number))
        assert same_run(record, subject.base.lane(number))


@pytest.mark.parametrize("name", POLICIES)
def test_policy_agrees_with_its_oracle(name: str) -> None:
    """Decision by decision on random traces and parameters (see `tests/property/agreement.py`)."""
    subject = subject_of(name)
    seen = compare(subject.case, subject.rules, examples=5)
    assert seen["admissions"] > 200, seen
    # Who never replaced anyone keeps everything, or the first.
    assert seen["evictions"] > 100 or subject.spec.unbounded or subject.spec.stack, seen


@pytest.mark.parametrize("name", WRONG)
def test_a_slightly_wrong_oracle_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wrong rule differs from the right one in a single detail."""
    monkeypatch.setitem(ORACLES, name, WRONG[name])
    subject = subject_of(name)
    with pytest.raises(AssertionError, match="Difference"):
        compare(subject.case, subject.rules, examples=7)


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
