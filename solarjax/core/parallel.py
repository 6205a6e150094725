"""Sharding the lane axis over devices.

A block holds P pairs (trace, seed). Each device gets P / devices whole pairs with all their lanes, so no device
ever waits for another and a lane's arithmetic is the same program on 1 or many devices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from solarjax.core.metrics import Compensated
from solarjax.core.lanes import Lanes, Rules
from solarjax.core.rollout import rollout
from solarjax.core.tables import Schedule, Tables

AXIS = "lanes"


def local_mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """A one-dimensional mesh over the given devices, by default all local ones."""
    return Mesh(np.asarray(jax.local_devices() if devices is None else list(devices)), (AXIS,))


@functools.lru_cache(maxsize=None)
def block_runner(
    rules: Rules, mesh: Mesh, shared_tables: bool
) -> Callable[[Tables, Schedule, Lanes], dict[str, Array]]:
    """A compiled function (tables, schedule, lanes) -> counters with the lane axis last.

    Args:
      rules: static side of the rollout.
      mesh: from `local_mesh`.
      shared_tables: True if every device needs all tables (recorded traces, replicated), False if tables follow the
        pairs (axis W is then sharded as well).
    """

    def local(tables: Tables, schedule: Schedule, lanes: Lanes) -> dict[str, Array]:
        carry, outcome = rollout(rules, tables, schedule, lanes)
        counters = {
            name: part.value if isinstance(part, Compensated) else part
            for name, part in carry.sums._asdict().items()
        }
        counters["final_size"] = carry.store.size
        if outcome is not None:
            counters["step_hits"] = outcome.hit.astype(np.uint8)
        return counters

    def last(x: Array) -> PartitionSpec:
        return PartitionSpec(*[None] * (x.ndim - 1), AXIS)

    def second(x: Array) -> PartitionSpec:
        return PartitionSpec(None, AXIS)

    def whole(x: Array) -> PartitionSpec:
        return PartitionSpec()

    @jax.jit
    def run(tables: Tables, schedule: Schedule, lanes: Lanes) -> dict[str, Array]:
        by_table = jax.tree.map(whole if shared_tables else second, tables)
        if tables.item_similarity is not None and not shared_tables:
            by_table = by_table._replace(item_similarity=PartitionSpec(AXIS))
        specs = (by_table, jax.tree.map(second, schedule), jax.tree.map(last, lanes))
        names = jax.eval_shape(local, tables, schedule, lanes)
        return jax.shard_map(
            local, mesh=mesh, in_specs=specs, out_specs=jax.tree.map(last, names), check_vma=False
        )(tables, schedule, lanes)

    return run
