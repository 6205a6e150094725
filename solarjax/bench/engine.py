"""The engine's side of a measurement: one compiled program per policy and capacity, its inputs already in place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from solarjax.bench.workload import Arrays
from solarjax.core.execute import make_rules
from solarjax.core.lanes import Lanes, Rules
from solarjax.core.parallel import block_runner, local_mesh
from solarjax.core.relevance import packed
from solarjax.core.rollout import rollout
from solarjax.core.tables import Schedule, Tables
from solarjax.core.trace import StepMode
from solarjax.policies.registry import case

DEPTH = 3
"""k, the retrieval depth of every measurement."""


class Block(NamedTuple):
    """Workloads in the engine's layout."""

    tables: Tables
    schedule: Schedule


class Program(NamedTuple):
    """A compiled block.

    run: runs it, waits, and returns the counters (`core.metrics.Sums` by name, `[B]` each).
    trace_s: seconds from Python to the compiler's input.  compile_s: seconds in the compiler.
    """

    run: Callable[[], dict[str, Any]]
    trace_s: float
    compile_s: float


def on_device(arrays: Arrays) -> Block:
    """The workloads on jax's default device, with one schedule per workload."""
    count, steps = arrays.query.shape

    def spread(row: np.ndarray) -> jax.Array:
        return jnp.asarray(np.repeat(row[:, None], count, axis=1))

    tables = Tables(
        similarity=jnp.asarray(arrays.similarity.swapaxes(0, 1)),
        relevance=jnp.asarray(arrays.relevance.swapaxes(0, 1)),
        relevant_total=jnp.asarray(arrays.total.T),
        item_similarity=jnp.asarray(arrays.near),
    )
    schedule = Schedule(
        query=jnp.asarray(arrays.query.T),
        arrival=jnp.asarray(arrays.arrival.T),
        arrival_on_miss=None,
        mode=jnp.full((steps, count), int(StepMode.SCORED), jnp.uint8),
        second_half=spread(arrays.second_half),
        slope_weight=spread(arrays.slope_weight),
    )
    return jax.block_until_ready(Block(packed(tables), schedule))


def rules_of(policy: str, capacity: int, per_step: bool = False) -> Rules:
    """What is fixed in a compilation of `policy` on `capacity` slots."""
    return make_rules(case(policy), capacity, None, DEPTH, "hit", "retrieved", 0.5, per_step)


def lanes_of(policy: str, capacity: int, lanes: int, workloads: int, root: int = 0) -> Lanes:
    """B lanes over W workloads, lane b on workload b mod W, each with a key of its own."""
    index = jnp.arange(lanes, dtype=jnp.int32) % np.int32(workloads)
    return Lanes(
        table=index,
        pair=index,
        capacity=jnp.full(lanes, capacity, jnp.int32),
        key=jax.random.key_data(jax.random.split(jax.random.key(root), lanes)).T,
        params={name: jnp.full(lanes, value, jnp.float32) for name, value in case(policy).traced},
    )


def inputs(block: Block, rules: Rules) -> Block:
    """The block without the tables that these rules do not read."""
    if rules.pairwise or rules.candidate_similarity:
        return block
    return block._replace(tables=block.tables._replace(item_similarity=None))


def program(
    block: Block,
    policy: str,
    capacity: int,
    lanes: int | None = None,
    *,
    devices: Sequence[Any] | None = None,
    per_step: bool = False,
) -> Program:
    """Compiles a policy for a block and puts the inputs where the program wants them.

    Args:
      block: from `on_device`; W workloads.
      policy: a name of the registry, with its default parameters.
      capacity: K, also the number of slots.
      lanes: B. By default one lane per workload; a multiple of that many lanes shares the tables.
      devices: over which the lane axis is sharded, by default the first one.
      per_step: also return `step_hits [T, B]`.
    """
    workloads = block.schedule.query.shape[1]
    rules = rules_of(policy, capacity, per_step)
    count = workloads if lanes is None else lanes
    operands = lanes_of(policy, capacity, count, workloads)
    chosen = list(jax.devices()[:1] if devices is None else devices)
    if len(chosen) > 1:
        # A shard holds its own workloads and counts them from 0.
        local = operands.table % np.int32(workloads // len(chosen))
        operands = operands._replace(table=local, pair=local)
    used = inputs(block, rules)
    run = block_runner(rules, local_mesh(chosen), count != workloads)
    start = time.perf_counter()
    lowered = run.lower(used.tables, used.schedule, operands)  # type: ignore[attr-defined]
    traced = time.perf_counter()
    compiled = lowered.compile()
    done = time.perf_counter()
    places, _ = compiled.input_shardings
    placed = jax.block_until_ready(jax.device_put((used.tables, used.schedule, operands), places))
    return Program(lambda: jax.block_until_ready(compiled(*placed)), traced - start, done - traced)


def carried_bytes(policy: str, capacity: int) -> int:
    """Bytes that one lane carries from step to step: store, policy state, looked-up similarities, counters."""
    rules = rules_of(policy, capacity)
    steps, items, lanes = 2, 2, 2

    def final() -> Any:
        table = jnp.zeros((steps, 1, items), jnp.float32)
        tables = Tables(table, table > 0, jnp.zeros((steps, 1), jnp.float32), jnp.zeros((1, items, items), jnp.float32))
        zero = jnp.zeros((steps, 1), jnp.int32)
        schedule = Schedule(zero, zero, None, zero.astype(jnp.uint8), zero > 0, zero.astype(jnp.float32))
        return rollout(rules, tables, schedule, lanes_of(policy, capacity, lanes, 1))[0]

    leaves = jax.tree.leaves(jax.eval_shape(final))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves) // lanes
