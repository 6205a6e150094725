"""Every generated workload by name: one line each."""

from __future__ import annotations

from typing import Any

from solarjax.core.params import check_name, resolve
from solarjax.workloads import (
    cycling,
    retrieval_noise_static,
    retrieval_noise_stream,
    stale_versions,
    topic_drift,
    working_set,
)
from solarjax.workloads.types import Workload, WorkloadError, WorkloadSpec

WORKLOADS: dict[str, WorkloadSpec] = {
    "cycling": cycling.SPEC,
    "working_set": working_set.SPEC,
    "topic_drift": topic_drift.SPEC,
    "retrieval_noise_static": retrieval_noise_static.SPEC,
    "retrieval_noise_stream": retrieval_noise_stream.SPEC,
    "stale_versions": stale_versions.SPEC,
}

MAX_CELLS = 2**30
"""Cells of the largest table of an instance (relevance, or embeddings): 1 GiB of relevance."""


def make(name: str, /, **params: Any) -> Workload:
    """Builds a workload; parameters that are not given keep their defaults.

    Args:
      name: a key of `WORKLOADS`.
      **params: values, or the strings of a command line ("50", "0.3", "uniform").

    Returns:
      The workload, with `params` resolved.

    Raises:
      WorkloadError: for an unknown name (with the nearest known one), a value of the wrong type or out of
        range, a combination that cannot be built, or an instance too large to hold.
    """
    check_name("workload", name, WORKLOADS, WorkloadError)
    spec = WORKLOADS[name]
    workload = spec.make(**resolve(name, spec.params, params, WorkloadError))
    cells = workload.num_items * max(workload.num_queries, workload.dim)
    if cells > MAX_CELLS:
        raise WorkloadError(
            f"{name}: {workload.num_items} items, {workload.num_queries} queries and {workload.dim} "
            f"dimensions need a table of {cells} cells; allowed are {MAX_CELLS}"
        )
    return workload
