"""Small sources for sweep tests, and a comparison of labelled results."""

from __future__ import annotations

import dataclasses

import numpy as np
import xarray as xr

from solarjax.core.trace import Trace
from solarjax.workloads.registry import make
from solarjax.workloads.sources import GeneratedSource, RecordedSource
from tests.support.worlds import TRACE_BYTES, trace_of


def generated(availability: bool = False) -> GeneratedSource:
    """6 topics of 3 items in 4 cycles: 24 steps, 18 items, and every seed another workload."""
    return GeneratedSource(make("cycling", n_topics=6, items_per_topic=3, n_cycles=4, dim=16), availability)


def recorded_traces() -> list[Trace]:
    """Three traces of 48, 40 and 17 steps, the last without answers, grades, categories and `arrival_on_miss`."""
    rng = np.random.default_rng(11)
    full, shorter, plain = (trace_of(rng.bytes(TRACE_BYTES), name) for name in ("full", "shorter", "plain"))
    return [
        full,
        cut(shorter, 40),
        dataclasses.replace(
            cut(plain, 17),
            answer_recall=None,
            relevant_grade=None,
            category=None,
            category_names=(),
            arrival_on_miss=None,
        ),
    ]


def cut(trace: Trace, steps: int) -> Trace:
    """The first steps of a trace."""
    fields = ("query", "arrival", "arrival_on_miss", "mode")
    return dataclasses.replace(trace, **{name: getattr(trace, name)[:steps] for name in fields})


def recorded() -> RecordedSource:
    """The traces of `recorded_traces`."""
    return RecordedSource(recorded_traces())


def assert_part_of(part: xr.Dataset, whole: xr.Dataset) -> None:
    """Every value of `part` has the same bits as `whole` has at the same coordinates."""
    assert set(part.data_vars) == set(whole.data_vars)
    for name, values in part.data_vars.items():
        dims = [d for d in values.dims if d in part.coords]
        there = whole[name].sel({d: part[d] for d in dims})
        assert values.dtype == there.dtype and values.shape == there.shape, name
        assert values.values.tobytes() == there.transpose(*values.dims).values.tobytes(), name
