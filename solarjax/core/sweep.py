"""The main job: traces x policies x capacities x hyper-parameters x seeds, in one labelled dataset."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from solarjax.core import dataset as ds
from solarjax.core.arguments import check_arguments, check_policies
from solarjax.core.chunks import ChunkStore, SweepError
from solarjax.core.execute import Task, make_rules, run_chunk
from solarjax.core.parallel import local_mesh
from solarjax.core.plan import (
    LANES_PER_DEVICE_CPU,
    LANES_PER_DEVICE_GPU,
    SlotGroup,
    default_budget,
    lane_bytes,
    pairs_per_block,
    slot_groups,
)
from solarjax.core.relevance import packed
from solarjax.core.source import Block, Pair, Source
from solarjax.core.store import check_order_range
from solarjax.core.trace import StepMode

ENGINE_VERSION = 1
"""Part of a stored sweep's identity; raised whenever results may change."""
MAX_COMBOS = 1024
"""Combinations of one block; more are cut into several chunks."""

Progress = Callable[[int, int, str], None]


def sweep(
    source: Source,
    policies: Sequence[Any],
    capacities: Sequence[int],
    seeds: int | Sequence[int],
    *,
    k: int = 3,
    quality: str = "hit",
    feedback: str = "retrieved",
    like_at: float = 0.5,
    grid: Mapping[str, Sequence[float]] | None = None,
    lambdas: Sequence[float] = (1.0,),
    root_seed: int = 0,
    per_step: bool = False,
    memory_bytes: int | None = None,
    devices: Sequence[Any] | None = None,
    out_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Runs every combination and returns its metrics.

    Args:
      source: the traces (`workloads.sources`).
      policies: `PolicyCase`s (`policies.registry.parse_cases` or `case`).
      capacities: K values, >= 1. Above the item count nothing is ever evicted.
      seeds: a count n (seeds 0..n-1) or the seeds themselves. A seed draws the workload (or protocol) and the policy.
      k: retrieval depth.
      quality: the score whose complement is the miss cost, a field of `core.types.Scores`.
      feedback: what a policy sees as accessed: `retrieved`, `liked` (retrieved, if quality >= like_at) or
        `liked_disliked`.
      grid: parameter name -> values; each becomes a dimension. A policy without the parameter runs once.
      lambdas: switching costs for `total_cost`.
      root_seed: root of every random stream, 0..2^32-1.
      per_step: also return `hits` per step (memory: T bytes per lane).
      memory_bytes: device memory the working set may take; a quarter of the machine by default.
      devices: jax devices to shard lanes over; all local ones by default.
      out_dir: where finished chunks are kept; a killed sweep called again with the same arguments continues.
      progress: called as progress(done, total, label) after each chunk.

    Returns:
      Dataset with dims (trace, policy, capacity, *grid, seed); see `core.dataset.VARIABLES`.

    Raises:
      SweepError: an argument is not allowed, or `out_dir` holds another sweep.
    """
    capacities, seeds, grid, lambdas = check_arguments(
        capacities, seeds, grid, lambdas, k, quality, feedback, root_seed
    )
    check_policies(policies, grid)
    mesh = local_mesh(devices)
    budget = default_budget() if memory_bytes is None else memory_bytes
    pairs: list[Pair] = [(t, s) for t in range(len(source.traces)) for s in seeds]
    needs = [case.needs for case in policies]
    pairwise = any(n.pairwise or n.candidate_similarity for n in needs)
    pair_bytes = source.bytes_per_pair(pairwise, any(n.future for n in needs))
    groups = [_groups(case, source, capacities, grid) for case in policies]
    widest = max(len(g.combos) for gs in groups for g in gs)
    lane_cost = max(lane_bytes(g.num_slots, k, source.num_steps if per_step else 0) for gs in groups for g in gs)
    try:
        check_order_range(max(g.num_slots for gs in groups for g in gs), source.num_steps)
        block_pairs = pairs_per_block(
            pair_bytes=pair_bytes,
            lane_cost=lane_cost,
            combos=widest,
            lanes=LANES_PER_DEVICE_CPU if mesh.devices.flat[0].platform == "cpu" else LANES_PER_DEVICE_GPU,
            num_pairs=len(pairs),
            devices=mesh.size,
            budget=budget,
        )
    except ValueError as error:
        raise SweepError(str(error)) from error
    config = {
        "engine": ENGINE_VERSION,
        "source": source.fingerprint(),
        "policies": [[c.name, c.label, dict(c.static), dict(c.traced)] for c in policies],
        "capacities": capacities,
        "seeds": seeds,
        "k": k,
        "quality": quality,
        "feedback": feedback,
        "like_at": like_at,
        "grid": grid,
        "root_seed": root_seed,
        "per_step": per_step,
    }
    store = ChunkStore(None if out_dir is None else Path(out_dir), config, {"block_pairs": block_pairs})
    block_pairs = int(store.layout["block_pairs"])
    blocks = [pairs[i : i + block_pairs] for i in range(0, len(pairs), block_pairs)]
    # A layout found on disk may come from a machine with another number of devices.
    padded = -(-block_pairs // mesh.size) * mesh.size

    tasks = []
    for number in range(len(blocks)):
        for case, case_groups in zip(policies, groups, strict=True):
            for group in case_groups:
                rules = make_rules(case, group.num_slots, source, k, quality, feedback, like_at, per_step)
                identity = json.dumps([case.label, group.num_slots, group.combos])
                name = f"{number:06d}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
                tasks.append(Task(name, number, case, group, rules))

    values: dict[str, np.ndarray] = {}
    shape = (len(source.traces), len(policies), len(capacities), *(len(v) for v in grid.values()), len(seeds))
    built: tuple[int, Block | None] = (-1, None)
    for done, task in enumerate(tasks):
        chunk = store.load(task.name)
        block = blocks[task.block]
        if chunk is None:
            if built[0] != task.block:
                built = (-1, None)  # frees the old block before the next is built
                full = block + [block[-1]] * (padded - len(block))
                rest = [t.rules for t in tasks[done:] if t.block == task.block]
                near = any(r.pairwise or r.candidate_similarity for r in rest)
                made = source.block(full, root_seed, near, any(r.future for r in rest))
                built = (task.block, made._replace(tables=packed(made.tables)))
            assert built[1] is not None
            chunk = run_chunk(task, built[1], source, block, padded, root_seed, mesh)
            capacity = np.tile([c.capacity for c in task.group.combos], len(block))
            ds.check_invariants(chunk, capacity, f"{task.case.label}, block {task.block}")
            store.save(task.name, chunk)
        policy = policies.index(task.case)
        _place(values, shape, chunk, task, policy, capacities, grid, block, seeds)
        if progress is not None:
            progress(done + 1, len(tasks), f"{task.case.label} N={task.group.num_slots}")

    dims = ("trace", "policy", "capacity", *grid, "seed")
    coords: dict[str, Sequence] = {
        "trace": list(source.traces),
        "policy": [c.label for c in policies],
        "capacity": capacities,
        **grid,
        "seed": seeds,
    }
    if per_step:
        values["step_scored"] = _scored_steps(source, pairs, root_seed, padded).reshape(
            len(source.traces), len(seeds), source.num_steps
        )
    from solarjax import __version__

    attrs = {
        "title": "solarjax sweep",
        "solarjax_version": __version__,
        "quality": quality,
        "feedback": feedback,
        "k": k,
        "root_seed": root_seed,
        "online": json.dumps({c.label: bool(c.spec.online) for c in policies}),
        "config": json.dumps(config, sort_keys=True),
    }
    return ds.assemble(values, dims, coords, lambdas, source.answers, source.availability, source.categories, attrs)


def _groups(case, source: Source, capacities: Sequence[int], grid) -> tuple[SlotGroup, ...]:
    own = {name: points for name, points in grid.items() if name in dict(case.traced)}
    unbounded = [source.num_items] if case.spec.unbounded else capacities
    cut = []
    for group in slot_groups(unbounded, source.num_items, own):
        for start in range(0, len(group.combos), MAX_COMBOS):
            cut.append(group._replace(combos=group.combos[start : start + MAX_COMBOS]))
    return tuple(cut)


def _place(
    values: dict[str, np.ndarray],
    shape: tuple[int, ...],
    chunk: Mapping[str, np.ndarray],
    task: Task,
    policy: int,
    capacities: Sequence[int],
    grid: Mapping[str, Sequence[float]],
    pairs: Sequence[Pair],
    seeds: Sequence[int],
) -> None:
    """Writes a chunk's counters into the result arrays, spread over the axes the case does not have."""
    trace = np.asarray([t for t, _ in pairs])
    position = {s: i for i, s in enumerate(seeds)}
    seed = np.asarray([position[s] for _, s in pairs])
    for name, array in chunk.items():
        lanes = np.moveaxis(array, -1, 0).reshape(len(pairs), len(task.group.combos), *array.shape[:-1])
        if name not in values:
            values[name] = np.zeros((*shape, *array.shape[:-1]), array.dtype)
        for column, combo in enumerate(task.group.combos):
            where_k = range(len(capacities)) if task.case.spec.unbounded else [capacities.index(combo.capacity)]
            point = dict(zip(task.group.axes, combo.point, strict=True))
            axes = [[points.index(point[a])] if a in point else range(len(points)) for a, points in grid.items()]
            for at in itertools.product(where_k, *axes):
                index: tuple[Any, ...] = (trace, policy, *at, seed)
                values[name][index] = lanes[:, column]


def _scored_steps(source: Source, pairs: Sequence[Pair], root_seed: int, padded: int) -> np.ndarray:
    """`[pairs, T] u8`: which steps of the per-step output are scored."""
    rows = []
    for start in range(0, len(pairs), padded):
        part = list(pairs[start : start + padded])
        schedule = source.block(part + [part[-1]] * (padded - len(part)), root_seed, False, False).schedule
        scored = (np.asarray(schedule.mode) >= StepMode.SCORED) & (np.asarray(schedule.query) >= 0)
        rows.append(scored.T[: len(part)].astype(np.uint8))
    return np.concatenate(rows)
