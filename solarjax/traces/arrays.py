"""Checks on arrays read from a file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from solarjax.core.trace import TraceError


def checked(arrays: Mapping[str, np.ndarray], name: str, kind: type, axes: int) -> np.ndarray:
    """`arrays[name]`, of the kind and number of axes asked for.

    Args:
      arrays: what a file held.
      name: of the field.
      kind: `np.floating` or `np.integer`; any width is accepted.
      axes: number of axes.

    Raises:
      TraceError: if it is missing or of another kind or shape.
    """
    if name not in arrays:
        raise TraceError(f"field {name!r} is missing; the file has {sorted(arrays)}")
    array = arrays[name]
    if not np.issubdtype(array.dtype, kind):
        raise TraceError(f"field {name!r} has dtype {array.dtype}; expected {kind.__name__} numbers")
    if array.ndim != axes:
        raise TraceError(f"field {name!r} has shape {array.shape}; expected {axes} axes")
    return array
