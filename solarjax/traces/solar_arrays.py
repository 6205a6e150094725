"""The SOLAR authors' synthetic workloads as arrays: read into a `Trace`.

Layout: item_embeddings `[N, d] f32`, item_topic `[N] i32`, query_embeddings `[T, d] f32`, query_topic `[T]
  i32`,
arrival `[T] i32` (-1 none), relevant_indptr `[T+1]` and relevant_indices (CSR over items), prefill `[P] i32`,
warmup_steps (one number). Step t asks query t and then brings arrival[t].
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from solarjax.core.trace import NO_QUERY, StepMode, Trace, TraceError
from solarjax.traces.arrays import checked


def to_trace(arrays: Mapping[str, np.ndarray], name: str) -> Trace:
    """A trace of P PREFILL steps, then `warmup_steps` TRAIN steps, then SCORED steps.

    Topics are checked for length and otherwise left out: they are how the data was generated, nothing at run
    time depends on them.

    Args:
      arrays: the file's entries.
      name: of the trace.

    Raises:
      TraceError: if an entry is missing, malformed, or they do not fit together.
    """
    items = checked(arrays, "item_embeddings", np.floating, 2)
    queries = checked(arrays, "query_embeddings", np.floating, 2)
    arrival = checked(arrays, "arrival", np.integer, 1)
    prefill = checked(arrays, "prefill", np.integer, 1)
    warmup = int(checked(arrays, "warmup_steps", np.integer, 0))
    total = len(queries)
    for field, array, size in (
        ("arrival", arrival, total),
        ("item_topic", checked(arrays, "item_topic", np.integer, 1), len(items)),
        ("query_topic", checked(arrays, "query_topic", np.integer, 1), total),
    ):
        if len(array) != size:
            raise TraceError(f"field {field!r} has {len(array)} entries, expected {size}")
    if not 0 <= warmup <= total:
        raise TraceError(f"warmup_steps = {warmup} is out of range; allowed are 0..{total}")
    bad = np.flatnonzero((prefill < 0) | (prefill >= len(items)))
    if len(bad):
        raise TraceError(f"prefill[{bad[0]}] = {prefill[bad[0]]} is out of range; items are 0..{len(items) - 1}")
    mode = np.full(len(prefill) + total, StepMode.SCORED, np.uint8)
    mode[: len(prefill)] = StepMode.PREFILL
    mode[len(prefill) : len(prefill) + warmup] = StepMode.TRAIN
    return Trace(
        name=name,
        items=items,
        queries=queries,
        query=np.concatenate([np.full(len(prefill), NO_QUERY), np.arange(total)]),
        arrival=np.concatenate([prefill.astype(np.int64), arrival.astype(np.int64)]),
        mode=mode,
        relevant_indptr=checked(arrays, "relevant_indptr", np.integer, 1),
        relevant_indices=checked(arrays, "relevant_indices", np.integer, 1),
        meta={"source": "SOLAR synthetic workloads", "warmup_steps": warmup},
    )
