"""What every policy must do, as functions of a `Subject` that raise AssertionError.

Nothing here knows a policy by name: exceptions are flags of `PolicySpec`. `PROPERTIES` is what the suite runs;
the guards break each of them once.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from solarjax.core.trace import NO_ITEM
from tests.conformance.subject import (
    SUFFIX,
    Subject,
    exact_match,
    flagged,
    other_neighbours,
    other_suffix,
    relabelled,
    subject_of,
)
from tests.support import engine
from tests.support.engine import LANES, SLOTS, TRACINGS, Run, run
from tests.support.replay import Write, replay, same_bits
from tests.support.stepper import Stepped, step_through
from tests.support.worlds import TRACES


def replays(subject: Subject) -> list[tuple[int, list[Write], dict[int, int]]]:
    """(capacity, steps, residents at the end) of every lane of the base run."""
    lanes = subject.lanes
    return [
        (int(lanes.capacity[b]), *replay(subject.world.traces[lanes.pair[b]], subject.base, b, int(lanes.capacity[b])))
        for b in range(LANES)
    ]


def same_run(left: Run, right: Run) -> bool:
    """Every number of two runs has the same bits."""
    return all(jax.tree.leaves(jax.tree.map(same_bits, left, right)))


def capacity_is_never_exceeded(subject: Subject) -> None:
    """Residents sit in slots 0..K-1, and a free slot is used before anyone is replaced."""
    for capacity, steps, held in replays(subject):
        assert len(held) <= capacity
        for step in steps:
            assert not step.admitted or 0 <= step.slot < capacity
            assert not step.admitted or len(step.before) == capacity or step.slot == len(step.before)


def admissions_minus_evictions_are_residents(subject: Subject) -> None:
    sums, cache = subject.base.carry.sums.named(), subject.base.carry.store
    for lane, (_, _, held) in enumerate(replays(subject)):
        assert sums["admissions"][lane] - sums["evictions"][lane] == cache.size[lane] == len(held)
        ids = cache.ids[:, lane]
        assert {s: i for s, i in enumerate(ids) if i != NO_ITEM} == held


def the_victim_was_resident(subject: Subject) -> None:
    for _, steps, _ in replays(subject):
        for step in steps:
            assert step.evicted == (step.before.get(step.slot, NO_ITEM) if step.admitted else NO_ITEM)


def duplicates_are_never_inserted(subject: Subject) -> None:
    offered = 0
    for _, steps, _ in replays(subject):
        for step in steps:
            offered += step.item in step.before.values()
            assert not step.admitted or step.item not in (NO_ITEM, *step.before.values())
    assert offered > LANES, "the traces must offer residents again"


def counters_agree_with_the_record(subject: Subject) -> None:
    sums, outcome = subject.base.carry.sums.named(), subject.base.outcome
    for lane, (capacity, steps, _) in enumerate(replays(subject)):
        offers = [s for s in steps if s.item != NO_ITEM]
        fresh = [s for s in offers if s.item not in s.before.values()]
        expected = {
            "hits": outcome.hit[:, lane].sum(),
            "admissions": sum(s.admitted for s in steps),
            "evictions": sum(s.evicted != NO_ITEM for s in steps),
            "offers": len(offers),
            "duplicates": len(offers) - len(fresh),
            "offers_full": sum(len(s.before) == capacity for s in fresh),
        }
        assert expected == {name: sums[name][lane] for name in expected}


def a_lane_does_not_see_its_neighbours(subject: Subject) -> None:
    """At another place, among lanes of other traces and keys: the same bits, carry included."""
    lanes, order = subject.lanes, np.random.default_rng(5).permutation(LANES)
    stays = lanes.pair == 0
    strangers = engine.lanes_of(subject.case, seed=8)
    lanes = lanes._replace(key=np.where(stays, lanes.key, strangers.key))
    record = run(subject.rules, other_neighbours(), jax.tree.map(lambda x: x[..., order], lanes))
    back = jax.tree.map(lambda x: x[..., np.argsort(order)], record)
    mine, theirs = (
        [jax.tree.map(lambda x, at=at: x[..., at], r) for r in (back, subject.base)] for at in (stays, ~stays)
    )
    assert same_run(*mine)
    assert not same_run(*theirs)


def one_compilation_serves_all(subject: Subject) -> None:
    """Seeds, capacities, traces and parameters are values: a batch that differs in all of them is not traced again."""
    assert subject.base
    before = TRACINGS.total()
    points = {name: np.array([v, 2 * v, 3 * v]) for name, v in subject.case.traced}
    lanes = engine.lanes_of(subject.case, seed=2, points=points)
    lanes = lanes._replace(capacity=np.roll(lanes.capacity, 1))
    assert run(engine.rules_of(subject.case), other_suffix(), lanes)
    assert TRACINGS.total() == before


def state_keeps_its_types(subject: Subject) -> None:
    """Structure, shapes and dtypes, weak types included, survive every function."""
    params = {name: jnp.float32(v) for name, v in subject.case.traced}
    rules = subject.rules
    view = _stepped(subject)[0].view
    key, slot = jnp.zeros(2, jnp.uint32), jnp.int32(0)

    def types(fn: Callable, *args: object) -> object:
        made = jax.eval_shape(fn, *args)
        return jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), made)

    policy = rules.make(**params)
    state = policy.init(rules.num_slots)
    start = types(lambda: policy.init(rules.num_slots))
    assert types(lambda s: policy.observe(key, s, view)[0], state) == start
    assert types(lambda s: policy.insert(s, slot, view), state) == start
    assert types(lambda s: policy.observe(key, s, view)[1], state) == ((), np.dtype(bool), False)


def an_idle_step_changes_nothing(subject: Subject) -> None:
    """Neither query nor candidate, be the step empty, frozen or a refused fill: the state keeps its bits."""
    idle = [s for s in _stepped(subject) if not bool(s.view.has_query) and not bool(s.view.has_candidate)]
    assert len(idle) >= 3
    for step in idle:
        assert all(jax.tree.leaves(jax.tree.map(same_bits, step.before, step.after)))


def compiled_and_stepped_agree(subject: Subject) -> None:
    """The compiled batch decides as a plain loop over the policy's own functions does, uncompiled."""
    number, outcome = _busy_lane(subject), subject.base.outcome
    stepped = _stepped(subject)
    for t, step in enumerate(stepped):
        retrieved = [i for i in outcome.retrieved[t, :, number] if i != NO_ITEM]
        assert (step.retrieved, step.admitted, step.slot, step.evicted) == (
            retrieved,
            outcome.admitted[t, number],
            outcome.slot[t, number],
            outcome.evicted[t, number],
        ), t


def the_past_does_not_depend_on_the_future(subject: Subject) -> None:
    """Online: another suffix leaves every decision of the prefix. Offline: it must not, or the test is blind."""
    base, other = subject.base.outcome, subject.rewritten.outcome
    later = [same_bits(a[SUFFIX:], b[SUFFIX:]) for a, b in zip(base, other, strict=True)]
    assert not all(later), "the suffixes must differ"
    prefix = [same_bits(a[:SUFFIX], b[:SUFFIX]) for a, b in zip(base, other, strict=True)]
    assert all(prefix) == subject.spec.online


def the_key_matters_only_to_the_stochastic(subject: Subject) -> None:
    same = all(jax.tree.leaves(jax.tree.map(same_bits, subject.base.outcome, subject.rekeyed.outcome)))
    assert same == (not subject.spec.stochastic)


def names_of_items_do_not_matter(subject: Subject) -> None:
    rename = relabelled()[1]
    base, renamed = subject.base.outcome, subject.renamed.outcome
    expected = base._replace(evicted=rename[base.evicted], retrieved=rename[base.retrieved])
    assert all(jax.tree.leaves(jax.tree.map(same_bits, expected, renamed)))


def everything_is_finite(subject: Subject) -> None:
    for part in (subject.base.carry, subject.exact.carry):
        for leaf in jax.tree.leaves((part.sums, part.state)):
            assert np.isfinite(leaf).all()


def keeping_everything_is_best(subject: Subject) -> None:
    """On exact-match traces, step by step: what an unbounded cache misses, nobody can hit."""
    for name in flagged(unbounded=True):
        assert (subject.exact.outcome.hit <= subject_of(name).exact.outcome.hit).all()


def foresight_pays(subject: Subject) -> None:
    """On each exact-match trace a clairvoyant policy hits no less than first in, first out, and more in all."""
    if not subject.spec.online:
        blind = subject_of("fifo").exact.outcome.hit
        gain = subject.exact.outcome.hit.sum(axis=0) - blind.sum(axis=0)
        gains = [int(gain[subject.lanes.pair == trace].sum()) for trace in range(TRACES)]
        assert min(gains) >= 0 and max(gains) > 0


def larger_caches_include_smaller_ones(subject: Subject) -> None:
    """Stack property, on exact-match traces at depth 1 where only a true hit counts as an access.

    A miss also retrieves someone; were that an access, it would touch different items in different caches.
    """
    if not subject.spec.stack:
        return
    capacity = np.tile(np.arange(1, SLOTS + 1, dtype=np.int32), LANES // SLOTS)
    pair = np.arange(LANES, dtype=np.int32) // SLOTS % TRACES
    lanes = subject.lanes._replace(capacity=capacity, pair=pair, table=pair)
    record = run(engine.rules_of(subject.case, k=1, feedback="liked"), exact_match(), lanes)
    traces = exact_match().traces
    held = [replay(traces[pair[b]], record, b, int(capacity[b]))[0] for b in range(LANES)]
    for small, large in zip(held, held[1:], strict=False):
        if len(small[-1].before) <= len(large[-1].before):  # the next trace starts with K = 1 again
            assert all(set(a.before.values()) <= set(b.before.values()) for a, b in zip(small, large, strict=True))


def _busy_lane(subject: Subject) -> int:
    """The lane that replaces and refuses most often within the steps that are driven singly."""
    outcome, lanes = subject.base.outcome, subject.lanes
    offered = subject.world.schedule.arrival[:STEPPED, lanes.pair] != NO_ITEM
    evicts = (outcome.evicted[:STEPPED] != NO_ITEM).sum(axis=0)
    refuses = (offered & ~outcome.admitted[:STEPPED]).sum(axis=0)
    return int(np.argmax(np.minimum(evicts, 4) * 100 + refuses))


STEPPED = 18
"""Steps driven singly."""


def _stepped(subject: Subject) -> list[Stepped]:
    if not hasattr(subject, "stepped"):
        number = _busy_lane(subject)
        subject.stepped = step_through(subject.rules, subject.world, subject.lanes, number, STEPPED)  # type: ignore
    return subject.stepped  # type: ignore


PROPERTIES: tuple[Callable[[Subject], None], ...] = (
    capacity_is_never_exceeded,
    admissions_minus_evictions_are_residents,
    the_victim_was_resident,
    duplicates_are_never_inserted,
    counters_agree_with_the_record,
    a_lane_does_not_see_its_neighbours,
    one_compilation_serves_all,
    state_keeps_its_types,
    an_idle_step_changes_nothing,
    compiled_and_stepped_agree,
    the_past_does_not_depend_on_the_future,
    the_key_matters_only_to_the_stochastic,
    names_of_items_do_not_matter,
    everything_is_finite,
    keeping_everything_is_best,
    foresight_pays,
    larger_caches_include_smaller_ones,
)
