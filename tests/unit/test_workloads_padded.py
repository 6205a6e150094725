"""Padding changes no result."""

import numpy as np
import pytest

from solarjax.core.chunks import SweepError
from solarjax.core.sweep import sweep
from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode
from solarjax.core.types import NEVER
from solarjax.policies.registry import parse_cases
from solarjax.workloads.padded import PaddedSource, Size, common_size
from solarjax.workloads.registry import make
from solarjax.workloads.sources import GeneratedSource


def workload(topics):
    return make("cycling", n_topics=topics, items_per_topic=2, n_cycles=3, dim=16)


def test_common_size():
    assert common_size([workload(3), workload(5)]) == Size(num_steps=15, num_queries=15, num_items=10)


def test_the_arrays_are_the_same_and_the_rest_is_empty():
    plain = GeneratedSource(workload(3)).block([(0, 0), (0, 1)], 0, True, True)
    padded = PaddedSource(workload(3), Size(21, 13, 11)).block([(0, 0), (0, 1)], 0, True, True)
    fill = {"query": NO_QUERY, "arrival": NO_ITEM, "mode": StepMode.FROZEN, "next_use": NEVER, "last_asked": -1}
    grown = 0
    for part in ("tables", "schedule"):
        for name, want in getattr(plain, part)._asdict().items():
            got = getattr(getattr(padded, part), name)
            assert (got is None) == (want is None), name
            if want is None:
                continue
            here = tuple(slice(n) for n in want.shape)
            np.testing.assert_array_equal(got[here], want, err_msg=name)
            rest = np.ones(got.shape, bool)
            rest[here] = False
            assert np.all(np.asarray(got)[rest] == fill.get(name, 0)), name
            grown += got.shape != want.shape
    assert grown >= 11
    assert padded.tables.similarity.shape == (13, 2, 11) and padded.schedule.query.shape == (21, 2)


def test_padding_changes_no_count():
    cases, _ = parse_cases("oracle")
    plain = sweep(GeneratedSource(workload(3)), cases, [3], 3)
    padded = sweep(PaddedSource(workload(3), Size(21, 13, 11)), cases, [3], 3)
    assert plain["hit_rate"].values.any()
    for name in ("hit_rate", "recall_at_k", "admissions", "evictions", "offers", "final_size", "second_half"):
        np.testing.assert_array_equal(plain[name].values, padded[name].values, err_msg=name)
    for name in plain.data_vars:
        np.testing.assert_allclose(plain[name].values, padded[name].values, rtol=1e-6, err_msg=str(name))


def test_a_workload_that_does_not_fit():
    with pytest.raises(SweepError, match="num_steps = 15 does not fit"):
        PaddedSource(workload(5), common_size([workload(3)]))
