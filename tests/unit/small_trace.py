"""A trace that can be worked out by hand."""

import numpy as np

from solarjax.core.trace import StepMode, Trace


def small_trace() -> Trace:
    """Orthogonal items a, b arrive as a, b, a, b; each step first asks for the one that came just before."""
    rows = np.eye(2, 4, dtype=np.float32)
    return Trace(
        name="small",
        items=rows,
        queries=rows,
        query=np.array([1, 0, 1, 0]),
        arrival=np.array([0, 1, 0, 1]),
        mode=np.full(4, StepMode.SCORED),
        relevant_indptr=np.array([0, 1, 2]),
        relevant_indices=np.array([0, 1]),
        category=np.array([0, 1]),
        category_names=("about a", "about b"),
        meta={"source": "by hand"},
    )
