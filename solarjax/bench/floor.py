"""The floor: the least a step must move and compute, from K, k and the policy's state, whatever the implementation.

Counting rules. Bytes: what the step contract has to read and write, each once, 4 bytes a number; whole arrays where a
rule looks at every resident, single entries where it changes one. Operations: one per comparison, addition,
multiplication or bit operation on a 32-bit number; index arithmetic is free. What happens on a share of the steps is
counted with that share: a = items written, f = residents replaced, per step (measured).

  every policy
    lookup      8K bytes (ids, cosines)      K ops (each resident against the k-th best)
    duplicate   0 (ids are read already)     K ops
    score       4k + 4 bytes                 6k + 12 ops (relevance, recall, precision, F1, means)
    schedule    24 bytes (query now and next, arrival, mode, half, weight)
    counters    2 * 4 * 26 bytes             42 ops (10 counts, 8 compensated sums of 4 operations)
    write       8a bytes (id, order)
  fifo          8 bytes, 2 ops (pointer)
  lru           touch 4k bytes; insert 4a; victim f (4K bytes, K ops)
  lfu           touch 8k bytes, k ops; insert 4a; victim f (4K bytes, K ops)
  arc           touch 5k bytes; ghosts 8K bytes, 2K ops; target 8 bytes, 4 ops; insert 5a + f (8 + 4K bytes, K ops);
                victim f (5K bytes, 2K ops)
  gate          (solar, solar_a) 4K bytes (cosines to the arriving item), K ops; window 124 bytes, 4 * 30 ops
  thompson      (solar, solar_e) touch 8k bytes, k ops; ageing every 5th step: (8K bytes, K ops) / 5; insert 8a;
                victim f (8K + 2K(K - 1) bytes, K(K - 1) + K (2 G + 6) ops), G = 220 for an exact gamma draw: threefry
                117, two logarithms 40, inverse error function 40, the proposal and its test 23
  weighted      (solar_a) touch 12k bytes, k ops; insert 8a; victim f (8K + 2K(K - 1) bytes, K(K - 1) + 30K ops)

Time per step is at least max(bytes / bandwidth, operations / throughput) with the machine's measured figures
(`machine`). A state that stays in a cache moves faster than the bandwidth of a stream, so a distance below 1 by bytes
alone is possible in principle; the larger of the two bounds is what is reported.

Beside it stands what the engine streams by construction: `lax.scan` reads and writes its whole carry at every step.
On a GPU, where the carry of many lanes fills the memory, that is the bound that counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from solarjax.bench.engine import DEPTH, carried_bytes, rules_of
from solarjax.bench.machine import Speed
from solarjax.core.neighbours import empty

GAMMA_OPERATIONS = 220
COUNTS, COMPENSATED = 10, 8
SCHEDULE_BYTES = 24
WINDOW = 30


class Work(NamedTuple):
    """Bytes and operations of one step."""

    bytes: float
    operations: float

    def __add__(self, other: tuple) -> Work:
        return Work(self.bytes + other[0], self.operations + other[1])

    def __mul__(self, share: float) -> Work:  # type: ignore[override]
        return Work(self.bytes * share, self.operations * share)


def shared_work(capacity: int, written: float, depth: int = DEPTH) -> Work:
    """What every policy needs per step; `written`: a."""
    counters = 2 * 4 * (COUNTS + 2 * COMPENSATED)
    moved = 8 * capacity + 4 * depth + 4 + SCHEDULE_BYTES + counters + 8 * written
    return Work(moved, 2 * capacity + 6 * depth + 12 + COUNTS + 4 * COMPENSATED)


def rule_work(policy: str, capacity: int, written: float, replaced: float, depth: int = DEPTH) -> Work | None:
    """What the policy's own rule adds; None for a policy whose state is not counted above."""
    K, k, a, f = capacity, depth, written, replaced
    pairs = K * (K - 1)
    gate = Work(4 * K + 4 * (WINDOW + 1), K + 4 * WINDOW)
    draws = Work(8 * K + 2 * pairs, pairs + K * (2 * GAMMA_OPERATIONS + 6))
    thompson = Work(8 * k + 8 * K / 5 + 8 * a, k + K / 5) + draws * f
    weighted = Work(12 * k + 8 * a, k) + Work(8 * K + 2 * pairs, pairs + 30 * K) * f
    rules: Mapping[str, Work] = {
        "fifo": Work(8, 2),
        "lru": Work(4 * k + 4 * a, 0) + Work(4 * K, K) * f,
        "lfu": Work(8 * k + 4 * a, k) + Work(4 * K, K) * f,
        "arc": Work(5 * k + 8 * K + 8 + 5 * a, 2 * K + 4) + Work(8 + 9 * K, 3 * K) * f,
        "solar_e": thompson,
        "solar_a": gate + weighted,
        "solar": gate + thompson,
    }
    return rules.get(policy)


def streamed_bytes(policy: str, capacity: int, replaced: float, depth: int = DEPTH) -> float:
    """Bytes per step that the engine moves by construction: the carry both ways, and what it gathers.

    Gathered: K cosines and k relevances, K cosines of the arriving item if the policy asks for them; on the share
    `replaced` of the steps all pairs of residents, or the lists of neighbours both ways and the rows of the two items
    that come and go.
    """
    rules = rules_of(policy, capacity)
    gathered = 4 * capacity + 4 * depth + 4 + SCHEDULE_BYTES
    if rules.candidate_similarity:
        gathered += 4 * capacity
    carried, pairs = carried_bytes(policy, capacity), 4 * capacity**2 * replaced if rules.pairwise else 0.0
    if rules.nearest:
        lists = empty(rules.nearest, capacity, 1).nbytes
        carried, pairs = carried - lists, (2 * lists + 8 * capacity) * replaced
    return 2 * carried + gathered + pairs


def row(
    policy: str, capacity: int, written: float, replaced: float, measured: Mapping[str, Any], speed: Speed
) -> dict[str, Any]:
    """Floor columns for a measured row.

    Returns:
      `floor_bytes, floor_operations` per step, `floor_steps_per_s`, `floor_bound` (`bytes` or `operations`) and
      `over_floor` (floor speed over the engine's), None where the rule is not counted; `streamed_bytes`,
      `streamed_steps_per_s`, `over_streamed` for what the engine moves by construction.
    """
    reached = measured["engine_steps_per_s"]
    streamed = streamed_bytes(policy, capacity, replaced)
    found: dict[str, Any] = {
        "streamed_bytes": streamed,
        "streamed_steps_per_s": speed.bytes_per_s / streamed,
        "over_streamed": speed.bytes_per_s / streamed / reached,
    }
    own = rule_work(policy, capacity, written, replaced)
    if own is None:
        names = ("floor_bytes", "floor_operations", "floor_steps_per_s", "floor_bound", "over_floor")
        return found | dict.fromkeys(names)
    need = shared_work(capacity, written) + own
    seconds = {"bytes": need.bytes / speed.bytes_per_s, "operations": need.operations / speed.operations_per_s}
    bound = max(seconds, key=lambda name: seconds[name])
    return found | {
        "floor_bytes": need.bytes,
        "floor_operations": need.operations,
        "floor_steps_per_s": 1 / seconds[bound],
        "floor_bound": bound,
        "over_floor": 1 / seconds[bound] / reached,
    }
