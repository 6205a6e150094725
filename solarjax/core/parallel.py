"""Sharding the lane axis over devices.

A block holds P pairs (trace, seed). Each device gets P / devices whole pairs with all their lanes, so no device
ever waits for another and a lane's arithmetic is the same program on 1 or many devices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, PartitionSpec

from solarjax.core.lanes import Lanes, Rules
from solarjax.core.relevance import queries_of_items
from solarjax.core.rollout import Carry, Outcome, rollout
from solarjax.core.tables import Schedule, Tables

AXIS = "lanes"


def local_mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """A one-dimensional mesh over the given devices, by default all local ones."""
    return Mesh(np.asarray(jax.local_devices() if devices is None else list(devices)), (AXIS,))


def sub_block(rules: Rules) -> int:
    """Lanes that run through the scan together.

    Many lanes spread the cost of starting XLA's kernels, few keep the state in a core's cache. A rule that
    compares residents wants few: its tables are what has to stay in the cache.
    """
    if jax.default_backend() != "cpu":
        return 2**20
    if rules.coverage:
        return 64  # its temporaries are N times Q / 32 words per lane
    if rules.pairwise:
        return 256
    return int(np.clip(320_000 // (rules.num_slots * 24), 64, 1024))


def _counters(carry: Carry, outcome: Outcome | None) -> dict[str, Array]:
    counters = carry.sums.named()
    counters["final_size"] = carry.store.size
    if outcome is not None:
        counters["step_hits"] = outcome.hit.astype(np.uint8)
    return counters


def _join(parts: Array) -> Array:
    """`[S, ..., b] -> [..., S * b]`."""
    moved = jnp.moveaxis(parts, 0, -2)
    return moved.reshape(*moved.shape[:-2], moved.shape[-2] * moved.shape[-1])


@functools.cache
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
        count = lanes.capacity.shape[0]
        if rules.coverage:
            tables = tables._replace(queries_of=queries_of_items(tables))
        number = -(-count // sub_block(rules))
        size = -(-count // number)  # equal parts: the last one is not mostly padding
        index = jnp.minimum(jnp.arange(number * size, dtype=jnp.int32), np.int32(count - 1)).reshape(number, size)

        def run_some(index: Array) -> dict[str, Array]:
            some = jax.tree.map(lambda x: jnp.take(x, index, axis=-1), lanes)
            return _counters(*rollout(rules, tables, schedule, some))

        if number == 1:
            return run_some(index[0])
        parts = lax.map(run_some, index)
        return {name: _join(part)[..., :count] for name, part in parts.items()}

    def last(x: Array) -> PartitionSpec:
        return PartitionSpec(*[None] * (x.ndim - 1), AXIS)

    def second(x: Array) -> PartitionSpec:
        return PartitionSpec(None, AXIS)

    def whole(x: Array) -> PartitionSpec:
        return PartitionSpec()

    # One thread per device: the devices are the parallelism, and handing a step's tiny kernels to a pool costs more
    # than running them. Similarities are never NaN (traces are checked), so max and min need not look for it.
    cpu = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_enable_fast_min_max": True}

    @functools.partial(jax.jit, compiler_options=cpu if mesh.devices.flat[0].platform == "cpu" else None)
    def run(tables: Tables, schedule: Schedule, lanes: Lanes) -> dict[str, Array]:
        by_table = jax.tree.map(whole if shared_tables else second, tables)
        if tables.item_similarity is not None and not shared_tables:
            by_table = by_table._replace(item_similarity=PartitionSpec(AXIS))
        specs = (by_table, jax.tree.map(second, schedule), jax.tree.map(last, lanes))
        names = jax.eval_shape(local, tables, schedule, lanes)
        return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=jax.tree.map(last, names), check_vma=False)(
            tables, schedule, lanes
        )

    return run
