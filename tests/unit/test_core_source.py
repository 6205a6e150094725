"""Sources: future tables by brute force, blocks that do not depend on their company, and errors."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from solarjax.core import streams
from solarjax.core.chunks import SweepError
from solarjax.core.source import future_tables
from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode, Trace
from solarjax.core.types import NEVER
from solarjax.workloads.registry import make
from solarjax.workloads.sources import GeneratedSource, RecordedSource, last_asked, second_half
from tests.support.replay import same_bits
from tests.support.sweeps import generated, recorded, recorded_traces
from tests.support.worlds import (
    future_by_hand,
    last_asked_by_hand,
    random_traces,
    scored_steps,
)


def test_future_tables() -> None:
    for trace in random_traces(8):
        tables = jax.jit(future_tables)(trace.relevance_matrix() > 0, trace.query, scored_steps(trace))
        for got, expected in zip(tables, future_by_hand(trace), strict=True):
            np.testing.assert_array_equal(got, expected)
        assert (np.asarray(tables[1]) == NEVER).any() and np.asarray(tables[0]).max() > 3
        last = last_asked(trace.query[:, None], scored_steps(trace)[:, None], len(trace.queries))
        np.testing.assert_array_equal(last[:, 0], last_asked_by_hand(trace))


def test_second_half() -> None:
    """Of 5 scored steps the last 2; of 4 the last 2; of 1 none."""
    assert second_half(np.array([1, 0, 1, 1, 0, 1, 1], bool)).astype(int).tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert second_half(np.array([1, 1, 1, 1], bool)).astype(int).tolist() == [0, 0, 1, 1]
    assert not second_half(np.array([0, 1], bool)).any()


def test_streams_are_named_and_nested() -> None:
    """root -> stream -> trace -> seed, each folded in; CRC-32 of `123456789` is a published constant."""
    root = jax.random.key(5)
    expected = jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(root, 0xCBF43926), 0xCBF43926), 2**32 - 1)
    got = streams.per_seed(5, "123456789", "123456789", [3, 2**32 - 1])
    np.testing.assert_array_equal(jax.random.key_data(got[1]), jax.random.key_data(expected))
    keys = [
        tuple(np.asarray(jax.random.key_data(streams.per_seed(root, stream, trace, [seed])))[0].tolist())
        for root in (0, 1)
        for stream in (streams.WORKLOAD, streams.POLICY)
        for trace in ("a", "b")
        for seed in (0, 1)
    ]
    assert len(set(keys)) == 16


@pytest.mark.parametrize("source", [generated(), recorded()], ids=["generated", "recorded"])
def test_a_pair_does_not_depend_on_its_block(source: GeneratedSource | RecordedSource) -> None:
    """Another place, other pairs beside it, fewer optional tables: the same bits."""
    traces = len(source.traces)
    many = source.block([(0, 3), (traces - 1, 9), (0, 4), (0, 3)], 0, True, True)
    few = source.block([(traces - 1, 9)], 0, False, False)
    at, alone = int(many.table_of_pair[1]), int(few.table_of_pair[0])
    for name, table in few.tables._asdict().items():
        if table is not None and name != "item_similarity":
            assert same_bits(np.asarray(table)[:, alone], np.asarray(getattr(many.tables, name))[:, at]), name
    for name, rows in few.schedule._asdict().items():
        if rows is not None:
            assert same_bits(np.asarray(rows)[:, 0], np.asarray(getattr(many.schedule, name))[:, 1]), name
    assert many.tables.item_similarity is not None and many.schedule.future_uses is not None
    twin = jax.tree.map(lambda x: same_bits(np.asarray(x)[:, 0], np.asarray(x)[:, 3]), many.schedule)
    assert all(jax.tree.leaves(twin))


def test_recorded_traces_are_padded_with_nothing() -> None:
    """Shorter traces end in steps without query and arrival, and see the numbers of their own tables."""
    traces = recorded_traces()
    source = recorded()
    assert (source.num_steps, source.num_items, source.num_queries) == (48, 16, 16)
    block = source.block([(i, 0) for i in range(3)], 0, True, False)
    schedule, tables = block.schedule, block.tables
    for i, trace in enumerate(traces):
        steps = trace.num_steps
        for name, fill in (("query", NO_QUERY), ("arrival", NO_ITEM), ("mode", StepMode.TRAIN)):
            column = np.asarray(getattr(schedule, name))[:, i]
            np.testing.assert_array_equal(column[:steps], getattr(trace, name))
            assert (column[steps:] == fill).all()
        other = trace.arrival if trace.arrival_on_miss is None else trace.arrival_on_miss
        np.testing.assert_array_equal(np.asarray(schedule.arrival_on_miss)[:steps, i], other)
        np.testing.assert_allclose(tables.similarity[:, i], trace.queries @ trace.items.T, atol=1e-6)
        np.testing.assert_allclose(tables.item_similarity[i], trace.items @ trace.items.T, atol=1e-6)
        np.testing.assert_array_equal(tables.relevance[:, i], trace.relevance_matrix().astype(np.float32))
        np.testing.assert_array_equal(tables.relevant_total[:, i], trace.relevance_matrix().sum(axis=1))
        answers = np.zeros((16, 16)) if trace.answer_recall is None else trace.answer_recall
        np.testing.assert_array_equal(tables.answer_recall[:, i], answers)
        category = np.full(16, -1) if trace.category is None else trace.category
        np.testing.assert_array_equal(tables.category[:, i], category)


def test_protocols_draw_their_own_order() -> None:
    """A function of the seed replaces the recorded order; without one every seed has the recorded order."""
    trace = recorded_traces()[0]

    def shuffled(seed: int) -> tuple[np.ndarray, ...]:
        order = np.random.default_rng(seed).permutation(trace.num_steps)
        return trace.query[order], trace.arrival[order], trace.mode[order], None  # type: ignore[return-value]

    block = RecordedSource([trace], [shuffled]).block([(0, 1), (0, 2)], 0, False, False)
    for pair, seed in enumerate((1, 2)):
        np.testing.assert_array_equal(block.schedule.query[:, pair], shuffled(seed)[0])
    assert (np.asarray(block.schedule.query)[:, 0] != np.asarray(block.schedule.query)[:, 1]).any()


def test_categories_are_matched_by_name() -> None:
    """Two traces that number their categories differently."""
    first = recorded_traces()[0]
    swapped = dataclasses.replace(
        first, name="swapped", category=1 - np.asarray(first.category), category_names=("odd", "even")
    )
    source = RecordedSource([first, swapped])
    category = np.asarray(source.block([(0, 0), (1, 0)], 0, False, False).tables.category)
    assert source.categories == ("even", "odd")
    np.testing.assert_array_equal(category[:, 0], category[:, 1])


def replaced(**fields: object) -> Trace:
    """The first recorded trace, changed."""
    return dataclasses.replace(recorded_traces()[0], **fields)


@pytest.mark.parametrize(
    "field", ["items", "queries", "query", "mode", "arrival_on_miss", "answer_recall", "category", "relevant_grade"]
)
def test_the_fingerprint_sees_every_field(field: str) -> None:
    """Two traces that differ in anything that counts are different sweeps."""
    trace = recorded_traces()[0]
    value = np.array(getattr(trace, field))
    if field == "arrival_on_miss":
        at = int(np.flatnonzero(trace.arrival >= 0)[0])
        value[at] = (value[at] + 1) % 16
    elif field == "mode":
        value[np.flatnonzero(value == StepMode.SCORED)[0]] = StepMode.TRAIN
    elif field == "query":
        at = int(np.flatnonzero(value >= 0)[0])
        value[at] = (value[at] + 1) % 16
    elif field == "category":
        value[0] = 1 - value[0]
    elif field in ("answer_recall", "relevant_grade"):
        value.flat[0] = 0.25
    else:
        value[0] = -value[0]
    one, other = (RecordedSource([t]).fingerprint() for t in (trace, replaced(**{field: value})))
    assert one != other and RecordedSource([replaced()]).fingerprint() == one


@pytest.mark.parametrize(
    ("traces", "message"),
    [
        ([], "no trace given"),
        ([replaced(), replaced()], "two traces are named 'full'; names must differ"),
        (
            [replaced(mode=np.full(48, StepMode.TRAIN), arrival=replaced().arrival)],
            "trace 'full' has no scored query, so there is nothing to measure",
        ),
    ],
)
def test_sources_that_cannot_run(traces: list[Trace], message: str) -> None:
    with pytest.raises(SweepError) as caught:
        RecordedSource(traces)
    assert str(caught.value) == message


def test_centres_that_cannot_be_separated_are_reported() -> None:
    source = GeneratedSource(make("cycling", n_topics=12, n_cycles=1, items_per_topic=1, dim=3, min_sep=0.5))
    with pytest.raises(SweepError, match="seed 3 found no centres that far apart; ask for fewer topics"):
        source.block([(0, 3)], 0, False, False)
