"""A generated workload in larger arrays, so that workloads of several sizes share one compilation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.chunks import SweepError
from solarjax.core.source import Block, Pair
from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode
from solarjax.core.types import NEVER
from solarjax.workloads.sources import GeneratedSource
from solarjax.workloads.types import Workload


class Size(NamedTuple):
    """T steps, Q queries, M items of the padded arrays."""

    num_steps: int
    num_queries: int
    num_items: int


def common_size(workloads: Sequence[Workload]) -> Size:
    """The smallest size that holds each of the workloads."""
    return Size(*(max(getattr(w, name) for w in workloads) for name in Size._fields))


class PaddedSource(GeneratedSource):
    """The same decisions as `GeneratedSource`: padding steps ask nothing and bring nothing.

    Counts are equal; sums of fractions agree to float32 rounding, since another program adds them up.

    Args:
      workload: from `workloads.registry.make`.
      size: at least the workload's own.

    Raises:
      SweepError: the workload does not fit.
    """

    def __init__(self, workload: Workload, size: Size, **options: Any):
        super().__init__(workload, **options)
        for name in Size._fields:
            if getattr(size, name) < getattr(workload, name):
                raise SweepError(f"{workload.name}: {name} = {getattr(workload, name)} does not fit into {size}")
        self.num_steps, self.num_queries, self.num_items = size

    def block(self, pairs: Sequence[Pair], root_seed: int, pairwise: bool, future: bool) -> Block:
        """Draws the workloads of the pairs' seeds and pads them."""
        block = super().block(pairs, root_seed, pairwise, future)
        steps, queries, items = self.num_steps, self.num_queries, self.num_items
        tables, schedule = block.tables, block.schedule
        # Uses after the last step: none, of any item.
        uses = None if schedule.future_uses is None else _grow(schedule.future_uses, {0: steps, 2: items}, 0)
        following = None if schedule.next_use is None else _grow(schedule.next_use, {0: steps, 2: items}, NEVER)
        return Block(
            tables._replace(
                similarity=_grow(tables.similarity, {0: queries, 2: items}, 0),
                relevance=_grow(tables.relevance, {0: queries, 2: items}, 0),
                relevant_total=_grow(tables.relevant_total, {0: queries}, 0),
                item_similarity=None
                if tables.item_similarity is None
                else _grow(tables.item_similarity, {1: items, 2: items}, 0),
            ),
            schedule._replace(
                query=_grow(schedule.query, {0: steps}, NO_QUERY),
                arrival=_grow(schedule.arrival, {0: steps}, NO_ITEM),
                mode=_grow(schedule.mode, {0: steps}, int(StepMode.FROZEN)),
                second_half=_grow(schedule.second_half, {0: steps}, 0),
                slope_weight=_grow(schedule.slope_weight, {0: steps}, 0),
                future_uses=uses,
                next_use=following,
            ),
            block.table_of_pair,
        )


def _grow(array: Array, sizes: dict[int, int], value: int) -> Array:
    """`array` with its axes `sizes` (axis -> length) extended at the end by `value`."""
    widths = [(0, sizes.get(axis, length) - length) for axis, length in enumerate(array.shape)]
    return jnp.pad(array, widths, constant_values=np.asarray(value, array.dtype))
