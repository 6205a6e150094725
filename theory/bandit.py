"""Eviction as a bandit: the worlds on which the regret theorems are tested.

All utilities are Bernoulli and take two values, so a regret is `gap * (an integer count)` and exact however long the
run. Regret is in requests: expected uses lost against the best rule, which knows the utilities.

Worlds
  pull     B1, the textbook bandit: each step keeps ONE of K arms and sees only that arm. One arm is used with
           probability 1/2 + gap, the others 1/2 (the lower-bound instance of Theorem 6).
  leave    M1, cache feedback with fixed arms: K + 1 items, each step leaves one out and sees all K others. One item is
           used with probability 1/2 - gap, the others 1/2. Statistics of an item survive its eviction.
  phases   M3: as `leave`, but the bad item changes at t = 100, 200, 400, ... (O(log T) changes).
  cycle    M1 as a cache runs: K slots and K + 1 items, the item that is out arrives at every step and must replace a
           resident, whose statistics are lost. Best rule on that admission schedule: the bad item every other step.
  fresh    M2, fresh arrivals: every `PERIOD` steps an unknown item arrives and replaces a resident; half of all items
           are used with probability 1/2 + gap, half with 1/2 - gap. Best rule: give up a bad one if there is one.

"Choosing" a slot means giving that item up, except in `pull`: there keeping is the choice. The rules choose the least
sampled value; theta ~ Beta(a, b) means 1 - theta ~ Beta(b, a), so exchanging uses and non-uses turns the very same
code into "keep the arm of greatest sampled value".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core import random
from solarjax.core.trace import NO_ITEM
from solarjax.core.types import Policy
from solarjax.core.victims import VICTIM_STREAM
from theory.lane import ENVIRONMENT_STREAM, full_view, over_lanes

WORLDS = ("pull", "leave", "phases", "cycle", "fresh")
PERIOD = 10
"""Steps between arrivals in `fresh`."""
FIRST_PHASE = 100


class World(NamedTuple):
    """Static side of a run. kind: one of WORLDS.  k: K.  verdicts: a policy is told of non-uses as well (the textbook
    posterior) instead of uses alone (as the caches run).  near: cosine between good items where a rule asks for
    similarities; the bad one is orthogonal to them."""

    kind: str
    k: int
    verdicts: bool
    near: float = 0.0

    @property
    def slots(self) -> int:
        """Slots the policy sees."""
        return self.k + 1 if self.kind in ("leave", "phases") else self.k

    @property
    def arms(self) -> int:
        """Items whose use is drawn per step."""
        return self.k + 1 if self.kind == "cycle" else self.slots


class State(NamedTuple):
    """One lane. policy: its state.  ids: `[N] i32` item per slot.  inserted: `[N] i32`.  out: `[] i32` item
    that is out.
    offers: `[] i32`.  good: `[N] bool` and best: `[] i32` good items that the best rule holds (in `fresh` only)."""

    policy: Any
    ids: Array
    inserted: Array
    good: Array
    out: Array
    offers: Array
    best: Array


def _init(world: World, policy: Policy, key: Array) -> State:
    size = world.slots
    good = random.uniform(random.fold_in(key, 2**31 - 1), size) < np.float32(0.5)
    ids = jnp.arange(size, dtype=jnp.int32)
    return State(
        policy.init(size), ids, ids, good, jnp.int32(size if world.kind == "cycle" else 0), jnp.int32(0),
        good.astype(jnp.int32).sum(),
    )  # fmt: skip


def _bad(world: World, t: Array) -> Array:
    """Number of the odd item at step t: the last, or a different one per phase."""
    last = jnp.int32(world.arms - 1)
    if world.kind != "phases":
        return jnp.int32(0) if world.kind == "pull" else last
    ratio = jnp.maximum(t, 1).astype(jnp.float32) / np.float32(FIRST_PHASE)
    # The small term keeps a power of two on its own side of the rounding of log2.
    phase = jnp.floor(jnp.log2(ratio) + np.float32(1e-4)).astype(jnp.int32) + 1
    return last - jnp.maximum(phase, 0) % np.int32(world.arms)


def _step(world: World, policy: Policy, key: Array, gap: Array, t: Array, state: State) -> tuple[State, Array]:
    """One step of one lane: the new state and the excess count, `[] i32`."""
    size, arms = world.slots, world.arms
    number = jnp.arange(arms, dtype=jnp.int32)
    slot_number = jnp.arange(size, dtype=jnp.int32)
    now = random.fold_in(key, t)
    bad = _bad(world, t)
    if world.kind == "fresh":
        odds = jnp.where(state.good, 0.5 + gap, 0.5 - gap).astype(jnp.float32)
    else:
        odds = jnp.where(number == bad, 0.5 + (gap if world.kind == "pull" else -gap), 0.5).astype(jnp.float32)
    used = random.uniform(random.fold_in(now, ENVIRONMENT_STREAM), arms) < odds
    pairs = None
    if world.near:
        odd = ~state.good if world.kind == "fresh" else state.ids == bad
        alike = ~odd[:, None] & ~odd[None]
        pairs = jnp.where(alike, np.float32(world.near), np.float32(0))
        pairs = jnp.where(slot_number[:, None] == slot_number[None], np.float32(-jnp.inf), pairs)

    def view(uses: Array, seen: Array, candidate: Array, missed: Array):
        return full_view(
            t=t, queries=t + 1, offers=state.offers + 1, ids=state.ids, inserted=state.inserted,
            retrieved=uses & seen, touched=uses & seen, disliked=~uses & seen & world.verdicts,
            miss=missed.astype(jnp.float32), candidate=candidate, resident_similarity=pairs,
        )  # fmt: skip

    def choose(held: Any, seen_as: Any) -> Array:
        return policy.victim(random.fold_in(now, VICTIM_STREAM), held, seen_as)

    no_item, nothing = jnp.int32(NO_ITEM), jnp.zeros(size, bool)
    if world.kind == "pull":
        arm = choose(state.policy, view(nothing, nothing, no_item, t < 0))
        seen = slot_number == arm
        held, _ = policy.observe(now, state.policy, view(~used, seen, no_item, ~used[arm]))
        held = policy.insert(held, arm, view(~used, seen, no_item, ~used[arm])) if not world.verdicts else held
        return state._replace(policy=held, offers=state.offers + 1), (arm != bad).astype(jnp.int32)
    if world.kind in ("leave", "phases"):
        slot = choose(state.policy, view(nothing, nothing, no_item, t < 0))
        seen = slot_number != slot
        held, _ = policy.observe(now, state.policy, view(used, seen, no_item, used[slot]))
        return state._replace(policy=held, offers=state.offers + 1), (slot != bad).astype(jnp.int32)

    everything = jnp.ones(size, bool)
    if world.kind == "cycle":
        shown = view(used[state.ids], everything, state.out, used[state.out])
        held, _ = policy.observe(now, state.policy, shown)
        slot = choose(held, shown)
        held = policy.insert(held, slot, shown)
        here = slot_number == slot
        excess = (state.out != bad).astype(jnp.int32)
        return state._replace(
            policy=held, out=state.ids[slot], ids=jnp.where(here, state.out, state.ids), offers=state.offers + 1,
            inserted=jnp.where(here, (t + np.int32(size)) * np.int32(size) + slot, state.inserted),
        ), excess  # fmt: skip

    excess = state.best - state.good.astype(jnp.int32).sum()
    due = t % np.int32(PERIOD) == np.int32(PERIOD - 1)
    item = jnp.where(due, np.int32(size) + t, no_item)
    shown = view(used, everything, item, ~used.any())
    held, _ = policy.observe(now, state.policy, shown)
    slot = choose(held, shown)
    fresh = random.uniform(random.fold_in(now, ENVIRONMENT_STREAM + 1), 1)[0] < np.float32(0.5)
    here = (slot_number == slot) & due
    kept = jax.tree.map(lambda new, old: jnp.where(due, new, old), policy.insert(held, slot, shown), held)
    # The best rule gives up a bad resident while it has one, and else a good one.
    best = jnp.where(due, jnp.minimum(state.best, np.int32(size - 1)) + fresh.astype(jnp.int32), state.best)
    return State(
        kept, jnp.where(here, item, state.ids),
        jnp.where(here, (t + np.int32(size)) * np.int32(size) + slot, state.inserted),
        jnp.where(here, fresh, state.good), state.out, state.offers + due.astype(jnp.int32), best,
    ), excess  # fmt: skip


def excess_counts(
    world: World,
    make: Callable[..., Policy],
    keys: Array,
    gaps: Array,
    params: Mapping[str, Array],
    marks: Array,
    steps: int,
) -> Array:
    """Excess counts of B lanes at checkpoints, all from one run; pure and jittable.

    Args:
      world: the world.
      make: the policy's factory, called as make(**params).
      keys: `[2, B] u32` key words.
      gaps: `[B] f32` in (0, 1/2].
      params: name -> `[B] f32`, numeric parameters of the lanes.
      marks: `[C] i32` checkpoints, 1..steps.
      steps: T.

    Returns:
      `[C, B] i32`: the sum over the first `mark` steps; times the gap (twice the gap in `fresh`) it is the regret.
      In `cycle` the best rule's own `mark // 2` is already taken off.
    """
    size = gaps.shape[0]
    numbers = dict(params)
    state = over_lanes(lambda key, own: _init(world, make(**own), key), keys, numbers, size=size)
    start = (state, jnp.zeros(size, jnp.int32), jnp.zeros((marks.shape[0], size), jnp.int32))

    def body(carry: tuple, t: Array) -> tuple[tuple, None]:
        state, total, record = carry
        clock = jnp.broadcast_to(t, (size,))
        state, excess = over_lanes(
            lambda key, gap, own, now, lane: _step(world, make(**own), key, gap, now, lane),
            keys, gaps, numbers, clock, state, size=size,
        )  # fmt: skip
        total = total + excess
        record = jnp.where((marks == t + 1)[:, None], total[None], record)
        return (state, total, record), None

    (_, _, record), _ = lax.scan(body, start, jnp.arange(steps, dtype=jnp.int32))
    if world.kind == "cycle":
        record = record - (marks // 2)[:, None]
    return record
