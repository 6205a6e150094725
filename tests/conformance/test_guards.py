"""Guards of the guards: for each property one subject that breaks it, and nothing else.

Where a policy can break the property there is a broken policy. The engine owns the store, so no policy can break
capacity or invent a victim (`tests/unit/test_core_rollout.py`); there the record of a sound run is altered instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, core
from jax.custom_batching import custom_vmap

from solarjax.core.metrics import COUNTS
from solarjax.core.params import Param
from solarjax.core.trace import NO_ITEM
from solarjax.core.types import Key, Policy, View
from solarjax.policies.admission.always import always
from solarjax.policies.combine import combine
from solarjax.policies.joint.oracle import oracle
from solarjax.policies.registry import POLICIES, Needs, PolicySpec
from solarjax.policies.slots import argmin_resident, earliest
from solarjax.policies.victims.fifo import fifo
from tests.conformance import properties as p
from tests.conformance.properties import PROPERTIES
from tests.conformance.subject import Subject, subject_of
from tests.support.engine import Run
from tests.support.worlds import ITEMS


class Broken(NamedTuple):
    """Stands in for a `PolicyCase`."""

    spec: PolicySpec
    label: str = "broken"
    static: tuple = ()
    traced: tuple = ()

    @property
    def needs(self) -> Needs:
        return self.spec.needs({})


def broken(make: Callable[..., Policy], **flags: Any) -> Subject:
    """A subject that is made by `make`."""
    return Subject(Broken(PolicySpec(make, "", "", **flags)))


def reflagged(name: str, **flags: Any) -> Subject:
    """A sound policy under false flags."""
    return Subject(Broken(POLICIES[name]._replace(**flags)))


# A mapped function that mixes its lanes, as a random generator does whose draws depend on the batch.
@custom_vmap
def leak(x: Array) -> Array:
    return x


@leak.def_vmap
def _leak_batched(size: int, batched: list[bool], x: Array) -> tuple[Array, bool]:
    return jnp.roll(x, 1, axis=0), True


SOUND, LEAKS, BY_NAME, COUNTS_STEPS, POISONED, DIFFERS_COMPILED = range(6)


def flawed(fault: Array) -> Policy:
    """Evicts the earliest inserted, but for one fault. A traced number chooses it, so one program has them all.

    LEAKS evicts by what a neighbouring lane knows, BY_NAME the smallest item id, DIFFERS_COMPILED the newest when
    compiled. COUNTS_STEPS counts every step in its state, POISONED carries a NaN there.
    """

    def observe(key: Key, state: tuple[Array, Array], view: View) -> tuple[tuple[Array, Array], Array]:
        count, number = state
        tick = (fault == COUNTS_STEPS).astype(jnp.int32)
        return (count + tick, jnp.where(fault == POISONED, np.float32(np.nan), number)), view.has_candidate

    def victim(key: Key, state: tuple[Array, Array], view: View) -> Array:
        compiled = isinstance(view.t, core.Tracer)
        rules = {
            LEAKS: argmin_resident(leak(view.inserted), view),
            BY_NAME: argmin_resident(view.resident_id, view),
            DIFFERS_COMPILED: argmin_resident(-view.inserted if compiled else view.inserted, view),
        }
        slot = earliest(view.occupied, view)
        for number, other in rules.items():
            slot = jnp.where(fault == number, other, slot)
        return slot

    return Policy(lambda num_slots: (jnp.int32(0), jnp.float32(0)), observe, victim, lambda state, slot, view: state)


def flaw(number: int) -> Subject:
    """`flawed` with one fault in all lanes."""
    spec = PolicySpec(flawed, "", "", {"fault": Param(0.0, "", low=float(number))})
    return Subject(Broken(spec, traced=(("fault", float(number)),)))


def retyping() -> Policy:
    """Starts from a Python number and goes on with an array."""
    inner = combine(always(), fifo())

    def observe(key: Key, state: tuple, view: View) -> tuple[tuple, Array]:
        first, admit = inner.observe(key, state[0], view)
        return (first, jnp.float32(0)), admit

    return Policy(
        lambda num_slots: (inner.init(num_slots), 0.0),
        observe,
        lambda key, state, view: inner.victim(key, state[0], view),
        lambda state, slot, view: (inner.insert(state[0], slot, view), state[1]),
    )


def perverse() -> Policy:
    """Sees the future and keeps what is useless."""
    good = oracle()

    def flip(view: View) -> View:
        assert view.future_uses is not None and view.candidate_future_uses is not None
        return view._replace(future_uses=-view.future_uses, candidate_future_uses=-view.candidate_future_uses)

    return Policy(
        good.init,
        lambda key, state, view: good.observe(key, state, flip(view)),
        lambda key, state, view: good.victim(key, state, flip(view)),
        good.insert,
    )


class UnstableSpec(PolicySpec):
    """Makes a new factory each time but the first, so every run is another program."""

    made: list = []

    @property
    def make(self) -> Callable[..., Policy]:  # type: ignore[override]
        self.made.append(0)
        return self[0] if len(self.made) == 1 else functools.partial(self[0])


def tampered(change: Callable[[Run], None], where: str = "base") -> Subject:
    """FIFO with one of its records altered by `change`, in place."""
    return Subject(subject_of("fifo").case, lambda run, which: change(run) if which == where else None)


def count(run: Run, name: str, lane: int, by: int) -> None:
    """Changes a counter."""
    run.carry.sums.counts[COUNTS.index(name), lane] += by


def overfull(run: Run) -> None:
    """The last replacement of a small cache becomes a resident too many."""
    lane = int(np.flatnonzero(subject_of("fifo").lanes.capacity == 3)[0])
    t = int(np.flatnonzero(run.outcome.evicted[:, lane] != NO_ITEM)[-1])
    slot, cache = run.outcome.slot[t, lane], run.carry.store
    cache.ids[3, lane], cache.ids[slot, lane] = cache.ids[slot, lane], run.outcome.evicted[t, lane]
    run.outcome.slot[t, lane], run.outcome.evicted[t, lane] = 3, NO_ITEM
    cache.size[lane] += 1
    count(run, "evictions", lane, -1)


def lost_resident(run: Run) -> None:
    """A resident more than were written."""
    run.carry.store.size[0] += 1


def invented_victim(run: Run) -> None:
    """Another item than the one in the slot is said to have left."""
    t, lane = np.argwhere(run.outcome.evicted != NO_ITEM)[0]
    run.outcome.evicted[t, lane] = (run.outcome.evicted[t, lane] + 1) % ITEMS


def inserted_twice(run: Run) -> None:
    """An arrival that is resident replaces itself."""
    lane = int(np.flatnonzero(subject_of("fifo").lanes.capacity == 3)[0])
    steps = p.replays(subject_of("fifo"))[lane][1]
    step = next(s for s in steps if len(s.before) == 3 and s.item in s.before.values())
    run.outcome.admitted[step.t, lane] = True
    run.outcome.slot[step.t, lane] = next(s for s, i in step.before.items() if i == step.item)
    run.outcome.evicted[step.t, lane] = step.item
    count(run, "admissions", lane, 1)
    count(run, "evictions", lane, 1)


def too_good(run: Run) -> None:
    """The first query is answered by an empty cache."""
    run.outcome.hit[0] = True


GUARDS: list[tuple[Callable[[Subject], None], Callable[[], Subject]]] = [
    (p.capacity_is_never_exceeded, lambda: tampered(overfull)),
    (p.admissions_minus_evictions_are_residents, lambda: tampered(lost_resident)),
    (p.the_victim_was_resident, lambda: tampered(invented_victim)),
    (p.duplicates_are_never_inserted, lambda: tampered(inserted_twice)),
    (p.counters_agree_with_the_record, lambda: tampered(lambda run: count(run, "hits", 0, 1))),
    (p.keeping_everything_is_best, lambda: tampered(too_good, "exact")),
    (p.a_lane_does_not_see_its_neighbours, lambda: flaw(LEAKS)),
    (p.one_compilation_serves_all, lambda: Subject(Broken(UnstableSpec(POLICIES["fifo"].make, "", "")))),
    (p.state_keeps_its_types, lambda: broken(retyping)),
    (p.an_idle_step_changes_nothing, lambda: flaw(COUNTS_STEPS)),
    (p.compiled_and_stepped_agree, lambda: flaw(DIFFERS_COMPILED)),
    (p.the_past_does_not_depend_on_the_future, lambda: reflagged("oracle", online=True)),
    (p.the_key_matters_only_to_the_stochastic, lambda: reflagged("random", stochastic=False)),
    (p.the_key_matters_only_to_the_stochastic, lambda: reflagged("fifo", stochastic=True)),
    (p.names_of_items_do_not_matter, lambda: flaw(BY_NAME)),
    (p.everything_is_finite, lambda: flaw(POISONED)),
    (p.foresight_pays, lambda: broken(perverse, online=False, needs=lambda params: Needs(future=True))),
    (p.larger_caches_include_smaller_ones, lambda: reflagged("fifo", stack=True)),
]
RECORD = PROPERTIES[:5]
"""Properties of a single record: only these can be asked of an altered one, the others compare it with true runs."""


def test_every_property_has_a_guard() -> None:
    assert {holds for holds, _ in GUARDS} == set(PROPERTIES)


@pytest.mark.parametrize("guard", GUARDS, ids=[f"{holds.__name__}-{i}" for i, (holds, _) in enumerate(GUARDS)])
def test_guard(guard: tuple[Callable[[Subject], None], Callable[[], Subject]]) -> None:
    """The broken subject fails the property and no other."""
    target, make = guard
    subject = make()
    with pytest.raises(AssertionError):
        target(subject)
    for holds in RECORD if subject.tampered else PROPERTIES:
        # A single lane, stepped, differs from a batch that leaks.
        leaks = target is p.a_lane_does_not_see_its_neighbours and holds is p.compiled_and_stepped_agree
        if holds is not target and not leaks:
            holds(subject)


def test_the_flawless_policy_passes() -> None:
    for holds in PROPERTIES:
        holds(flaw(SOUND))
