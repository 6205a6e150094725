"""The step contract, seen by a policy that writes down what it is shown, and what a hostile policy can do."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from solarjax.core.lanes import Lanes, Rules
from solarjax.core.rollout import rollout
from solarjax.core.store import check_order_range
from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode, Trace
from solarjax.core.types import NO_SLOT, Key, Policy, View, given
from solarjax.policies.registry import case
from tests.support import engine
from tests.support.replay import same_bits
from tests.support.worlds import random_traces, world_of

PREFILL, FILL, TRAIN, SCORED, FROZEN = StepMode
STEPS = 9


class Log(NamedTuple):
    """What each step showed. `[T]`, `[T, k]` for retrieved."""

    shown: Array
    retrieved: Array
    touched: Array
    hit: Array
    miss: Array
    size: Array
    queries: Array
    offers: Array
    candidate: Array
    duplicate: Array
    free: Array


def witness() -> Policy:
    """Admits everything that is offered, evicts slot 0, and logs every view."""

    def init(num_slots: int) -> Log:
        blank = jnp.full(STEPS, -9, jnp.int32)
        return Log(*(blank if name != "retrieved" else jnp.full((STEPS, 2), -9, jnp.int32) for name in Log._fields))

    def observe(key: Key, log: Log, view: View) -> tuple[Log, Array]:
        now = Log(
            shown=view.has_query,
            retrieved=jnp.where(
                view.retrieved_slots < 0, NO_ITEM, view.resident_id[jnp.maximum(view.retrieved_slots, 0)]
            ),
            touched=view.touched.astype(jnp.int32).sum(),
            hit=view.scores.hit > 0,
            miss=view.miss,
            size=view.size,
            queries=view.query_count,
            offers=view.offer_count,
            candidate=view.candidate_id,
            duplicate=view.candidate_resident,
            free=view.free_slot,
        )
        here = jnp.arange(STEPS, dtype=jnp.int32) == view.t
        put = [
            jnp.where(here if old.ndim == 1 else here[:, None], new.astype(jnp.int32), old)
            for old, new in zip(log, now, strict=True)
        ]
        return Log(*put), view.has_candidate

    return Policy(init, observe, lambda key, log, view: jnp.int32(0), lambda log, slot, view: log)


def test_the_order_of_a_step() -> None:
    """Lookup, score, touch, decide, write, in this order; one row per step, worked by hand.

    Items 0..3 are orthogonal and query q asks for item q, so with k = 2 item q is retrieved first if it is resident
    and whoever was inserted first fills up. Capacity is 2.
    """
    rows = [  # query, arrival, mode
        (NO_QUERY, 0, PREFILL),
        (1, 1, SCORED),  # asks for the item that is just arriving: it is not there yet
        (1, NO_ITEM, SCORED),  # now it is
        (NO_QUERY, 3, FILL),  # the cache is full: not offered
        (0, 1, TRAIN),  # offered, but resident
        (2, 2, TRAIN),  # replaces slot 0, item 0, after item 0 was looked up once more
        (0, NO_ITEM, SCORED),  # gone
        (2, NO_ITEM, FROZEN),  # counted, but the policy sees nothing
        (NO_QUERY, NO_ITEM, SCORED),
    ]
    query, arrival, mode = (np.array(column) for column in zip(*rows, strict=True))
    trace = Trace(
        name="worked",
        items=np.eye(4),
        queries=np.eye(4),
        query=query,
        arrival=arrival,
        mode=mode,
        relevant_indptr=np.arange(5),
        relevant_indices=np.arange(4),
        answer_recall=np.eye(4),
        category=np.zeros(4, int),
        category_names=("all",),
    )
    rules = Rules(make=witness, num_slots=2, k=2, per_step=True)
    zero = np.zeros(1, np.int32)
    lanes = Lanes(zero, zero, np.array([2], np.int32), np.zeros((2, 1), np.uint32), {})
    record = engine.run(rules, world_of([trace]), lanes)
    log = Log(*(x[..., 0].tolist() for x in record.carry.state))
    assert log.shown == [0, 1, 1, 0, 1, 1, 1, 0, 0]
    assert log.retrieved == [[-1, -1], [0, -1], [1, 0], [-1, -1], [0, 1], [0, 1], [1, 2], [-1, -1], [-1, -1]]
    assert log.touched == [0, 1, 2, 0, 2, 2, 2, 0, 0]
    assert log.hit == [0, 0, 1, 0, 1, 0, 0, 0, 0]
    assert log.miss == [0, 1, 0, 0, 0, 1, 1, 0, 0]
    assert log.size == [0, 1, 2, 2, 2, 2, 2, 2, 2]
    assert log.queries == [0, 1, 2, 2, 3, 4, 5, 5, 5]
    assert log.offers == [1, 2, 2, 2, 3, 4, 4, 4, 4]
    assert log.candidate == [0, 1, -1, -1, 1, 2, -1, -1, -1]
    assert log.duplicate == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert log.free == [0, 1] + [NO_SLOT] * 7
    outcome = jax.tree.map(lambda x: x[..., 0].tolist(), record.outcome)
    assert outcome.admitted == [True, True, False, False, False, True, False, False, False]
    assert outcome.slot == [0, 1, -1, -1, -1, 0, -1, -1, -1]
    assert outcome.evicted == [-1, -1, -1, -1, -1, 0, -1, -1, -1]
    # The record shows the frozen lookup that the policy did not see; TRAIN hits are not counted.
    assert outcome.retrieved[7] == [2, 1]
    assert outcome.hit == [False, False, True, False, False, False, False, True, False]
    sums = {name: value[..., 0].tolist() for name, value in record.carry.sums.named().items()}
    expected = {"requests": 4, "hits": 2, "queries": 6, "offers": 4, "duplicates": 1, "offers_full": 1}
    assert {name: sums[name] for name in expected} == expected
    assert (sums["admissions"], sums["evictions"]) == (3, 1)


def hostile(slot: Array | float) -> Policy:
    """Admits always, candidate or not, resident or not, and names `slot` as the victim."""
    return Policy(
        lambda num_slots: (),
        lambda key, state, view: (state, jnp.bool_(True)),
        lambda key, state, view: jnp.asarray(slot).astype(jnp.int32),
        lambda state, slot, view: state,
    )


def test_a_hostile_policy_cannot_break_the_store() -> None:
    """Nothing is written without an offer or twice, and a slot that holds nobody means the earliest inserted."""
    rules = Rules(make=hostile, num_slots=engine.SLOTS, per_step=True)
    world = world_of(random_traces(5))
    lanes = engine.lanes_of(case("fifo"))
    named = np.array([-5, engine.SLOTS, 7], np.float32)  # slot 7 exists, but holds someone only where K = 8
    lanes = lanes._replace(params={"slot": np.tile(named, engine.LANES // 3)})
    outcome = engine.run(rules, world, lanes).outcome
    honest = engine.run(engine.rules_of(case("fifo")), world, lanes._replace(params={})).outcome
    invalid = (lanes.params["slot"] != 7) | (lanes.capacity < 8)
    assert 0 < invalid.sum() < engine.LANES
    for theirs, fifo in zip(outcome, honest, strict=True):
        assert same_bits(theirs[..., invalid], fifo[..., invalid])
    obeyed = outcome.slot[:, ~invalid][(outcome.evicted != NO_ITEM)[:, ~invalid]]
    assert len(obeyed) > 10 and (obeyed == 7).all()


def test_running_a_rule_only_where_needed_changes_nothing() -> None:
    """Blocks of the lanes that need a victim, the last one padded, choose as all lanes together do."""
    policy = case("random")
    rules, world, lanes = engine.rules_of(policy), world_of(random_traces(5)), engine.lanes_of(policy)
    everyone = engine.run(rules, world, lanes)
    some = engine.run(rules._replace(costly_victim=True), world, lanes)
    needed = (everyone.outcome.evicted != NO_ITEM).sum(axis=1)
    assert needed.max() > 32 and 0 in needed and ((needed > 0) & (needed < 32)).any()
    assert all(jax.tree.leaves(jax.tree.map(same_bits, everyone, some)))


def test_the_record_is_made_on_request_only() -> None:
    policy = case("fifo")
    rules = engine.rules_of(policy)._replace(per_step=False)
    world, lanes = world_of(random_traces(5)), engine.lanes_of(policy)
    tables = world.tables._replace(item_similarity=None)
    schedule = world.schedule._replace(future_uses=None, next_use=None, last_asked=None)
    _, outcome = jax.eval_shape(lambda *args: rollout(rules, *args), tables, schedule, lanes)
    assert outcome is None


def test_a_policy_that_forgot_its_needs_is_told() -> None:
    with pytest.raises(TypeError, match=r"future_uses was read but not asked for.*PolicySpec\.needs"):
        given(None, "future_uses")


def test_insertion_keys_must_fit() -> None:
    check_order_range(1000, 2_000_000)
    with pytest.raises(ValueError, match=r"2200000 steps x 1000 slots exceed .* below 2\^31"):
        check_order_range(1000, 2_200_000)
