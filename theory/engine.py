"""Registered policies on theory instances, through the engine's own step.

Nothing of a policy is written here. An instance's similarities and relevance go straight into the engine's tables,
`core.rollout` runs the policy, and what it did is read off the per-step record. Where a convention differs from what
the policies do (A5, A6, A8), the policy is wrapped: the wrapper changes what it sees or carries, not its rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from solarjax.core import streams
from solarjax.core.execute import make_rules
from solarjax.core.lanes import Lanes, Rules
from solarjax.core.parallel import AXIS, local_mesh
from solarjax.core.rollout import Outcome, rollout
from solarjax.core.tables import Schedule, Tables
from solarjax.core.trace import StepMode
from solarjax.policies.registry import PolicyCase
from theory.errors import TheoryError
from theory.losses import set_losses
from theory.model import Batch, Conventions, item_similarities
from theory.wrappers import with_conventions, with_gauge

ABOVE = 1 + 2e-6
"""Factor on tau that turns c >= tau into c > tau for losses that differ by more than float32 can tell."""
LANES = 4096
"""Lanes of one compiled block and device."""


class Gauge(NamedTuple):
    """What a regret gate did, `[B, R]` each: `least` threshold it had, `signal` accumulated in sum,
    `opened` times; see `wrappers.Gauged`."""

    least: np.ndarray
    signal: np.ndarray
    opened: np.ndarray


class Played(NamedTuple):
    """What a policy did on B instances under R keys.

    contents: `[B, R, T + 1, N] bool`, S_0..S_T.         changed: `[B, R, T] bool`, steps that count in N.
    admitted: `[B, R, T] bool`, steps that wrote.        losses: `[B, R, T] f64`.
    cost: `[B, R] f64`, sum of losses + lam * N - b, with the conventions' A1 and A4 applied.
    gauge: readings of the gate, on request.
    """

    contents: np.ndarray
    changed: np.ndarray
    admitted: np.ndarray
    losses: np.ndarray
    cost: np.ndarray
    gauge: Gauge | None = None


def apply_conventions(case: PolicyCase, conventions: Conventions) -> PolicyCase:
    """The case with conventions A5 and A7 written into its own parameters.

    Raises:
      TheoryError: `fires = above` for a gate whose threshold is adaptive.
    """
    static, traced = dict(case.static), dict(case.traced)
    if conventions.fill != "policy" and "fill" in static:
        static["fill"] = conventions.fill
    if conventions.fires == "above" and "threshold" in static:
        if static["threshold"] != "fixed":
            raise TheoryError(f"fires = above needs threshold = fixed, {case.label} has {static['threshold']}")
        traced["tau_per_lam"] *= ABOVE
    return case._replace(static=tuple(static.items()), traced=tuple(traced.items()))


def rules_for(case: PolicyCase, batch: Batch) -> Rules:
    """The static side of `case` on instances shaped like `batch`."""
    conventions = batch.conventions
    ignore, carry = conventions.resident_arrival == "ignored", conventions.overshoot == "carried"
    slots = batch.num_items if case.spec.unbounded else batch.capacity
    rules = make_rules(case, slots, None, batch.k, batch.quality, conventions.touch, 0.5, True)
    return rules._replace(make=with_conventions(rules.make, ignore, carry)) if ignore or carry else rules


def play(
    case: PolicyCase,
    batch: Batch,
    *,
    keys: int = 1,
    root_key: int = 0,
    params: dict[str, np.ndarray] | None = None,
    devices: Sequence[Any] | None = None,
    lanes: int = LANES,
    gauge: bool = False,
) -> Played:
    """Runs a registered policy on every instance.

    Args:
      case: from `policies.registry.case`; its `lam` parameter is replaced by each instance's.
      keys: policy keys per instance; a deterministic policy is run once and its result repeated.
      root_key: root of the policy's random stream; key r is the same for every instance (common random numbers).
      params: numeric parameters per instance, `[B]` each, over those of the case.
      devices: lanes are spread over these; all local ones by default.
      lanes: lanes of one block and device; smaller blocks waste less on few instances.
      gauge: also read the regret gate of a SOLAR-like policy.

    Raises:
      TheoryError: an offline policy, a parameter the case does not have, or keys < 1.
    """
    if not case.spec.online:
        raise TheoryError(f"{case.name} sees the future; only online policies have a competitive ratio")
    if keys < 1:
        raise TheoryError(f"keys = {keys} must be >= 1")
    case = apply_conventions(case, batch.conventions)
    rules = rules_for(case, batch)
    if gauge:
        static = dict(case.static)
        if "threshold" not in static:
            raise TheoryError(f"{case.label} has no regret gate to read")
        gain = static["signal"] == "information_gain"
        rules = rules._replace(make=with_gauge(rules.make, static["threshold"] == "release", gain))
    runs = keys if case.spec.stochastic else 1
    values = {name: np.full(len(batch), value) for name, value in case.traced}
    if "lam" in values:
        values["lam"] = np.maximum(batch.lam, case.spec.params["lam"].low or 0)
    for name, given in (params or {}).items():
        if name not in values:
            raise TheoryError(f"{case.name} has no numeric parameter {name!r} (it has: {', '.join(values) or 'none'})")
        values[name] = np.broadcast_to(given, (len(batch),))
    seeds = streams.per_seed(root_key, streams.POLICY, "theory", list(range(runs)))
    words = np.asarray(jax.random.key_data(seeds)).T  # [2, R]
    mesh = local_mesh(devices)
    block = max(1, min(lanes // runs, -(-len(batch) // mesh.size))) * mesh.size
    near = item_similarities(batch) if rules.pairwise or rules.candidate_similarity else None
    outcomes = []
    for start in range(0, len(batch), block):
        index = np.minimum(np.arange(start, start + block), len(batch) - 1)
        outcome = _runner(rules, mesh, gauge)(*_arrays(batch, index, near, values, words, block // mesh.size))
        count = min(block, len(batch) - start)
        outcomes.append([np.asarray(x).reshape(*x.shape[:-1], block, runs)[..., :count, :] for x in outcome])
    admitted, evicted, *readings = (np.concatenate(x, axis=-2) for x in zip(*outcomes, strict=True))
    return _read(batch, admitted, evicted, Gauge(*readings) if gauge else None, keys)


def _arrays(
    batch: Batch, index: np.ndarray, near: np.ndarray | None, values: dict, words: np.ndarray, local: int
) -> tuple[Tables, Schedule, Lanes]:
    runs, size = words.shape[1], len(index)
    lead = len(batch.conventions.initial)
    query = np.pad(batch.query[index].T, ((lead, 0), (0, 0)), constant_values=-1)
    arrival = np.pad(batch.arrival[index].T, ((lead, 0), (0, 0)))
    arrival[:lead] = np.array(batch.conventions.initial, np.int32)[:, None]
    mode = np.full(query.shape, StepMode.SCORED, np.uint8)
    mode[:lead] = StepMode.PREFILL
    relevance: Any = batch.relevance[index].swapaxes(0, 1).astype(np.float32)
    tables = Tables(
        similarity=batch.similarity[index].swapaxes(0, 1).astype(np.float32),
        relevance=relevance,
        relevant_total=relevance.sum(axis=2),
        item_similarity=None if near is None else near[index].astype(np.float32),
    )
    blank = np.zeros(query.shape, np.float32)
    plan: tuple[Any, ...] = (query, arrival.astype(np.int32), None, mode, blank > 0, blank)
    pair: Any = np.repeat(np.arange(size, dtype=np.int32) % local, runs)
    own: dict[str, Any] = {name: np.repeat(v[index], runs).astype(np.float32) for name, v in values.items()}
    capacity: Any = np.full(size * runs, batch.capacity, np.int32)
    key: Any = np.tile(words, (1, size))
    return tables, Schedule(*plan), Lanes(table=pair, pair=pair, capacity=capacity, key=key, params=own)


@functools.cache
def _runner(rules: Rules, mesh: Mesh, gauge: bool) -> Callable[[Tables, Schedule, Lanes], tuple[Array, ...]]:
    """Compiled: (tables, schedule, lanes) -> admitted, evicted, `[T, lanes]` each, and the gauge's readings, `[lanes]`
    each, if asked for; lanes spread over the mesh."""

    def local(tables: Tables, schedule: Schedule, lanes: Lanes) -> tuple[Array, ...]:
        carry, outcome = rollout(rules, tables, schedule, lanes)
        assert isinstance(outcome, Outcome)
        readings = (carry.state.least, carry.state.signal, carry.state.opened) if gauge else ()
        return outcome.admitted, outcome.evicted, *readings

    def spec(x: Array, at: int) -> PartitionSpec:
        return PartitionSpec(*[None] * at, AXIS)

    cpu = {"xla_cpu_multi_thread_eigen": False} if mesh.devices.flat[0].platform == "cpu" else None

    @functools.partial(jax.jit, compiler_options=cpu)
    def run(tables: Tables, schedule: Schedule, lanes: Lanes) -> tuple[Array, ...]:
        by_table = jax.tree.map(lambda x: spec(x, 1), tables)
        if tables.item_similarity is not None:
            by_table = by_table._replace(item_similarity=PartitionSpec(AXIS))
        specs = (
            by_table,
            jax.tree.map(lambda x: spec(x, 1), schedule),
            jax.tree.map(lambda x: spec(x, x.ndim - 1), lanes),
        )
        out = (PartitionSpec(None, AXIS), PartitionSpec(None, AXIS), *[PartitionSpec(AXIS)] * (3 * gauge))
        return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)(tables, schedule, lanes)

    return run


def _read(batch: Batch, admitted: np.ndarray, evicted: np.ndarray, gauge: Gauge | None, keys: int) -> Played:
    """The record `[T, B, R]` as contents and costs."""
    lead = len(batch.conventions.initial)
    steps, size, runs = admitted.shape
    held = np.zeros((size, runs, batch.num_items), bool)
    items = np.arange(batch.num_items)
    start = np.array(batch.conventions.initial, np.int32)
    contents = [held]
    for t in range(steps):
        item = np.broadcast_to(start[t], (size,)) if t < lead else batch.arrival[:, t - lead]
        enters = admitted[t][:, :, None] & (items == item[:, None])[:, None]
        held = (held & (items != evicted[t][:, :, None])) | enters
        contents.append(held)
    states = np.stack(contents[lead:], axis=2)
    wrote, replaced = (x[lead:].transpose(1, 2, 0) for x in (admitted, evicted >= 0))
    changed = wrote & (replaced | ~np.bool_(batch.conventions.fill_free))
    # Losses take one content per instance, so instances are repeated for the keys.
    many = batch.take(np.repeat(np.arange(size), runs)) if runs > 1 else batch
    losses = set_losses(many, states[:, :, :-1].reshape(size * runs, -1, batch.num_items)).reshape(size, runs, -1)
    cost = losses.sum(axis=2) + batch.lam[:, None] * changed.sum(axis=2) - batch.conventions.additive
    played = Played(states, changed, wrote, losses, cost, gauge)
    # A deterministic policy was run once; every key would have done the same.
    return played if runs == keys else jax.tree.map(lambda x: np.repeat(x, keys, axis=1), played)
