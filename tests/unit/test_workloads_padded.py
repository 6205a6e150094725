"""Padding changes no result."""

import numpy as np
import pytest

from solarjax.core.chunks import SweepError
from solarjax.core.sweep import sweep
from solarjax.policies.registry import parse_cases
from solarjax.workloads.padded import PaddedSource, Size, common_size
from solarjax.workloads.registry import make
from solarjax.workloads.sources import GeneratedSource


def workload(topics):
    return make("cycling", n_topics=topics, items_per_topic=2, n_cycles=3, dim=16)


def test_common_size():
    assert common_size([workload(3), workload(5)]) == Size(num_steps=15, num_queries=15, num_items=10)


@pytest.mark.parametrize("policy", ["solar_a", "oracle", "oracle_cover"])  # all pairs of residents; the future
def test_padding_changes_no_count(policy):
    cases, _ = parse_cases(policy)
    plain = sweep(GeneratedSource(workload(3)), cases, [2], 3)
    padded = sweep(PaddedSource(workload(3), Size(21, 13, 11)), cases, [2], 3)
    assert plain["hit_rate"].values.any()
    for name in ("hit_rate", "recall_at_k", "admissions", "evictions", "offers", "final_size", "second_half"):
        np.testing.assert_array_equal(plain[name].values, padded[name].values, err_msg=name)
    for name in plain.data_vars:
        np.testing.assert_allclose(plain[name].values, padded[name].values, rtol=1e-6, err_msg=str(name))


def test_a_workload_that_does_not_fit():
    with pytest.raises(SweepError, match="num_steps = 15 does not fit"):
        PaddedSource(workload(5), common_size([workload(3)]))
