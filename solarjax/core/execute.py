"""One chunk of a sweep: from a plan to counters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from solarjax.core import streams
from solarjax.core.lanes import Lanes, Rules
from solarjax.core.parallel import block_runner
from solarjax.core.plan import SlotGroup
from solarjax.core.source import Block, Pair, Source


class Task(NamedTuple):
    """One chunk: a policy case on one slot group, for one block of pairs and one run of combinations."""

    name: str
    block: int
    case: Any
    group: SlotGroup
    rules: Rules


@functools.cache
def _maker(make: Callable, static: tuple) -> Callable:
    """One factory object per (policy, structural choices): its identity keys the compilation cache."""
    return functools.partial(make, **dict(static))


def make_rules(
    case: Any,
    num_slots: int,
    source: Source | None,
    k: int,
    quality: str,
    feedback: str,
    like_at: float,
    per_step: bool,
) -> Rules:
    """The static side of one policy case on `num_slots` slots; without a source nothing is counted by its facts."""
    needs = case.needs
    return Rules(
        make=_maker(case.spec.make, case.static),
        num_slots=num_slots,
        k=k,
        quality=quality,
        feedback=feedback,
        like_at=like_at,
        costly_victim=needs.costly_victim,
        candidate_similarity=needs.candidate_similarity,
        pairwise=needs.pairwise,
        nearest=needs.nearest,
        future=needs.future,
        coverage=needs.coverage,
        availability=source is not None and source.availability,
        categories=0 if source is None else len(source.categories),
        per_step=per_step,
    )


def run_chunk(
    task: Task, block: Block, source: Source, pairs: Sequence[Pair], padded: int, root_seed: int, mesh: Mesh
) -> dict[str, np.ndarray]:
    """Runs one chunk; lanes are pair-major, so that a shard of the lane axis holds whole pairs.

    Returns:
      Counters of `core.metrics.Sums` plus `final_size`, each `[..., pairs * combos]`; `step_hits [T, lanes]` on
      request.
    """
    combos = task.group.combos
    full = [*pairs, *[pairs[-1]] * (padded - len(pairs))]
    local = padded // mesh.size
    pair = np.repeat(np.arange(padded, dtype=np.int32), len(combos))
    words = np.zeros((2, padded), np.uint32)
    for index, trace in enumerate(source.traces):
        at = [i for i, (t, _) in enumerate(full) if t == index]
        if at:
            keys = streams.per_seed(root_seed, streams.POLICY, trace, [full[i][1] for i in at])
            words[:, at] = np.asarray(jax.random.key_data(keys)).T
    params = {name: np.full(len(pair), value, np.float32) for name, value in task.case.traced}
    for axis, name in enumerate(task.group.axes):
        params[name] = np.tile(np.asarray([c.point[axis] for c in combos], np.float32), padded)
    table = block.table_of_pair[pair]
    lanes = Lanes(
        table=jnp.asarray(table if source.shared_tables else table % local, jnp.int32),
        pair=jnp.asarray(pair % local, jnp.int32),
        capacity=jnp.asarray(np.tile([c.capacity for c in combos], padded), jnp.int32),
        key=jnp.asarray(words[:, pair]),
        params={name: jnp.asarray(values) for name, values in params.items()},
    )
    tables, schedule = block.tables, block.schedule
    if not (task.rules.pairwise or task.rules.candidate_similarity):
        tables = tables._replace(item_similarity=None)
    if not task.rules.future:
        schedule = schedule._replace(future_uses=None, next_use=None)
    if not task.rules.coverage:
        schedule = schedule._replace(last_asked=None)
    run = block_runner(task.rules, mesh, source.shared_tables)
    count = len(pairs) * len(combos)
    return {name: np.asarray(array)[..., :count] for name, array in run(tables, schedule, lanes).items()}
