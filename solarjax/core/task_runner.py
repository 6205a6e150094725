"""Running the tasks of a sweep plan in one process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.sharding import Mesh

from solarjax.core import dataset as ds
from solarjax.core.execute import Task, run_chunk
from solarjax.core.parallel import local_mesh
from solarjax.core.relevance import packed
from solarjax.core.source import Block, Pair
from solarjax.core.tasks import SweepPlan
from solarjax.core.trace import StepMode


class TaskRunner:
    """Runs tasks of one plan in this process, and keeps the tables of the block it used last.

    Args:
      plan: the sweep.
      mesh: from `core.parallel.local_mesh`, by default over all local devices.
    """

    def __init__(self, plan: SweepPlan, mesh: Mesh | None = None):
        self.plan = plan
        self.mesh = local_mesh() if mesh is None else mesh
        # A layout found on disk may come from a machine with another number of devices.
        self.padded = -(-plan.block_pairs // self.mesh.size) * self.mesh.size
        self._per_block = len(plan.tasks) // plan.num_blocks
        self._built: dict[bool, tuple[int, bool, bool, Block]] = {}

    def run(self, task: Task) -> dict[str, np.ndarray]:
        """Counters of one task, `[..., pairs * combos]`, see `core.execute.run_chunk`.

        Raises:
          SweepError: a seed's workload cannot be drawn, or an invariant of the engine is broken.
        """
        pairs = self.plan.pairs(task.block)
        if self.plan.source.same_for_all_seeds and not task.case.spec.stochastic:
            chunk = self._run_once_per_trace(task, pairs)
        else:
            chunk = self._run(task, pairs, self.padded, once=False)
        capacity = np.tile([c.capacity for c in task.group.combos], len(pairs))
        ds.check_invariants(chunk, capacity, f"{task.case.label}, block {task.block}")
        return chunk

    def _run(self, task: Task, pairs: list[Pair], padded: int, once: bool) -> dict[str, np.ndarray]:
        block = self._block(task, pairs, padded, once)
        return run_chunk(task, block, self.plan.source, pairs, padded, self.plan.root_seed, self.mesh)

    def _run_once_per_trace(self, task: Task, pairs: list[Pair]) -> dict[str, np.ndarray]:
        """Without random numbers nothing distinguishes the seeds of a recorded trace: one of them stands for all."""
        plan, combos = self.plan, len(task.group.combos)
        traces = sorted({trace for trace, _ in pairs})
        # Traces that a block may touch: the same number for every block, so that one compilation serves them all.
        most = min(len(plan.source.traces), (plan.block_pairs - 1) // len(plan.seeds) + 2)
        padded = min(self.padded, -(-most // self.mesh.size) * self.mesh.size)
        chunk = self._run(task, [(trace, plan.seeds[0]) for trace in traces], padded, once=True)
        row = np.asarray([traces.index(trace) for trace, _ in pairs], np.int64)
        lane = (row[:, None] * combos + np.arange(combos)).reshape(-1)
        return {name: array[..., lane] for name, array in chunk.items()}

    def scored_steps(self, pairs: Sequence[Pair]) -> np.ndarray:
        """`[pairs, T] u8`: which steps of the per-step output are scored."""
        rows = []
        for start in range(0, len(pairs), self.padded):
            part = list(pairs[start : start + self.padded])
            full = part + [part[-1]] * (self.padded - len(part))
            schedule = self.plan.source.block(full, self.plan.root_seed, False, False).schedule
            scored = (np.asarray(schedule.mode) >= StepMode.SCORED) & (np.asarray(schedule.query) >= 0)
            rows.append(scored.T[: len(part)].astype(np.uint8))
        return np.concatenate(rows)

    def _block(self, task: Task, pairs: list[Pair], padded: int, once: bool) -> Block:
        """The tables of the task's block, with what this task and the block's later ones need."""
        near, future = task.rules.pairwise or task.rules.candidate_similarity, task.rules.future
        if once in self._built:
            number, has_near, has_future, block = self._built[once]
            if number == task.block and has_near >= near and has_future >= future:
                return block
        first = task.block * self._per_block
        own = self.plan.tasks[first : first + self._per_block]
        at = next(i for i, t in enumerate(own) if t.name == task.name)
        rest = [t.rules for t in own[at:]]
        near, future = any(r.pairwise or r.candidate_similarity for r in rest), any(r.future for r in rest)
        # Frees the old block before the next is built.
        self._built = {kind: held for kind, held in self._built.items() if held[0] == task.block and kind != once}
        full = pairs + [pairs[-1]] * (padded - len(pairs))
        made = self.plan.source.block(full, self.plan.root_seed, near, future)
        self._built[once] = (task.block, near, future, made._replace(tables=packed(made.tables)))
        return self._built[once][3]
