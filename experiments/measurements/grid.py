"""Many workloads in one sweep: each cell of a sensitivity grid is a trace of one source, so one program runs all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from solarjax.analysis.working_set_size import working_set_size
from solarjax.core.source import Block, Pair
from solarjax.core.sweep import sweep
from solarjax.policies.registry import parse_cases
from solarjax.workloads import cycling, working_set
from solarjax.workloads.padded import PaddedSource, common_size
from solarjax.workloads.registry import make

SIZED_ON = 20
"""Seeds on which the working set of a cell is measured."""
WORKLOADS = {"cycling": cycling.SPEC, "working_set": working_set.SPEC}
"""What a cell may name. The registry is not followed when results are keyed by code, these imports are."""


class GridSource:
    """Several generated workloads as the traces of one source, padded to a common size.

    A seed draws each of them from the stream of its name, so cells that differ in noise only share their topics.

    Args:
      cells: label -> workload, as `workloads.registry.make` returns it.
    """

    shared_tables = False
    same_for_all_seeds = False
    categories: tuple[str, ...] = ()
    answers = False
    availability = False

    def __init__(self, cells: Mapping[str, Any]):
        size = common_size(list(cells.values()))
        self._parts = [PaddedSource(workload, size) for workload in cells.values()]
        self.traces = tuple(cells)
        self.num_steps, self.num_queries, self.num_items = size

    def fingerprint(self) -> dict:
        """Labels and parameters."""
        return {"cells": {name: part.fingerprint() for name, part in zip(self.traces, self._parts, strict=True)}}

    def bytes_per_pair(self, pairwise: bool, future: bool) -> int:
        """Device bytes of one seed of the largest cell; all are padded to it."""
        return max(part.bytes_per_pair(pairwise, future) for part in self._parts)

    def block(self, pairs: Sequence[Pair], root_seed: int, pairwise: bool, future: bool) -> Block:
        """Blocks of the cells that occur, put together in the order of `pairs`."""
        present = sorted({trace for trace, _ in pairs})
        order = np.argsort([trace for trace, _ in pairs], kind="stable")
        blocks = [
            self._parts[trace].block([p for p in pairs if p[0] == trace], root_seed, pairwise, future)
            for trace in present
        ]
        back = np.argsort(order)

        def together(axis: int) -> Any:
            def join(*arrays: Any) -> Any:
                return jnp.take(jnp.concatenate(arrays, axis=axis), back, axis=axis)

            return join

        tables = [b.tables._replace(item_similarity=None) for b in blocks]
        near = None
        if blocks[0].tables.item_similarity is not None:
            near = together(0)(*[b.tables.item_similarity for b in blocks])
        joined = jax.tree.map(together(1), *tables)._replace(item_similarity=near)
        schedule = jax.tree.map(together(1), *[b.schedule for b in blocks])
        return Block(joined, schedule, np.arange(len(pairs), dtype=np.int32))


def measure(config: Mapping[str, Any]) -> xr.Dataset:
    """One sweep over all cells, capacities and parameters of the grid.

    Args:
      config: `cells` (label -> {"workload", "settings"}), `policies` and `params` as `parse_cases` reads them,
        `capacities`, `seeds`, `root_seed`, `window` of the working set in queries.

    Returns:
      `hit_rate`, `store_rate`, `final_size` `[cell, policy, capacity, (grid), seed]`, and `working_set` `[cell, sized]`
      in items, over the first seeds.

    Raises:
      PolicyError, WorkloadError, SweepError: what is wrong with the grid.
    """
    cells = {name: make(cell["workload"], **cell["settings"]) for name, cell in config["cells"].items()}
    cases, grid = parse_cases(config["policies"], list(config["params"]))
    seeds, root = list(config["seeds"]), int(config["root_seed"])
    source = GridSource(cells)
    data = sweep(source, cases, list(config["capacities"]), seeds, grid=grid or None, root_seed=root)
    chosen = data[["hit_rate", "store_rate", "final_size"]].rename(trace="cell")
    sized = seeds[:SIZED_ON]
    sizes = [_working_sets(source, cell, sized, root, int(config["window"])) for cell in range(len(cells))]
    chosen["working_set"] = (("cell", "sized"), np.asarray(sizes))
    return chosen.assign_coords(sized=sized)


def _working_sets(source: GridSource, cell: int, seeds: Sequence[int], root_seed: int, window: int) -> list[float]:
    block = source.block([(cell, seed) for seed in seeds], root_seed, False, False)
    relevance, query = np.asarray(block.tables.relevance), np.asarray(block.schedule.query)
    return [working_set_size(relevance[:, i], query[:, i], window) for i in range(len(seeds))]
