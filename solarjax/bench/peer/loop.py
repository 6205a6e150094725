"""The peer's step, shared by every policy, and its loop over lanes.

Per step, as the engine does: the three nearest residents (ties to the earliest inserted), relevance of what was
found, the same sums, duplicate arrivals, and then the policy's kernels.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from solarjax.bench.errors import BenchError
from solarjax.bench.peer.arc import arc
from solarjax.bench.peer.gate import regret_gate
from solarjax.bench.peer.kernels import Admission, Eviction, always, fifo, lfu, lru
from solarjax.bench.peer.values import thompson, weighted_value
from solarjax.bench.workload import Arrays

SUMS = (
    "requests", "hits", "hits_second", "recall", "precision", "f1", "max_similarity", "mean_similarity", "miss",
    "slope", "offers", "duplicates", "offers_full", "admissions", "evictions",
)  # fmt: skip
"""What a lane counts, by the engine's names (`core.metrics`), in this order."""
PEERS: Mapping[str, tuple[Callable[..., Admission], Callable[..., Eviction]]] = {
    "fifo": (always, fifo),
    "lru": (always, lru),
    "lfu": (always, lfu),
    "arc": (always, arc),
    "solar_a": (regret_gate, weighted_value),
    "solar": (regret_gate, thompson),
}
"""policy -> its kernels."""
Loop = Callable[..., np.ndarray]


def available() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def peer(policy: str) -> Callable[[Arrays, int], np.ndarray]:
    """The compiled peer of a policy: (workloads, K) -> sums `[W, len(SUMS)] f64`. The first call compiles.

    Raises:
      BenchError: no peer for this policy, or numba is missing.
    """
    if policy not in PEERS:
        raise BenchError(f"there is no compiled peer for {policy!r}; there is one for {', '.join(PEERS)}")
    if not available():
        raise BenchError("the compiled peer needs numba; install solarjax[bench]")
    import numba

    inlined = numba.njit(fastmath=True, inline="always")
    admission, eviction = PEERS[policy]
    loop = build(numba.njit(fastmath=True), inlined, admission(inlined), eviction(inlined))
    return lambda arrays, capacity: loop(*arrays, capacity, np.zeros((0, 0), np.uint8))


def build(compiled: Callable, inlined: Callable, admission: Admission, eviction: Eviction) -> Loop:
    """A loop over all workloads: (*Arrays, K, hits) -> sums `[W, len(SUMS)] f64`.

    `hits [W, T] u8` is filled with the hit of every step; with shape (0, 0) nothing is recorded.

    Args:
      compiled, inlined: decorators that compile a function, the latter into its caller; or the identity twice, to run
        the source as it is.
      admission, eviction: kernels made with `inlined`.
    """
    nearest, account, resident = inlined(_nearest), inlined(_account), inlined(_resident)
    start_gate, decide = admission
    start, touch, victim, insert, seeded = eviction
    width = len(SUMS)

    def lane(similarity, near, relevance, total, query, arrival, second_half, slope_weight, K, hits, sums):
        ids, born = np.full(K, -1, np.int32), np.zeros(K, np.int32)
        gate, state = start_gate(), start(K)
        n = 0
        for t in range(len(query)):
            q, item = query[t], arrival[t]
            b0, b1, b2, i0, i1, i2 = nearest(similarity[q], ids, born, n)
            hit = account(
                sums, second_half[t], slope_weight[t], relevance[q], total[q], ids, b0, b1, b2, i0, i1, i2
            )  # fmt: skip
            if len(hits) > 0:
                hits[t] = hit
            here = resident(ids, n, item)
            touch(state, t, n, K, item, here, i0, i1, i2)
            admit = decide(gate, t, n, K, ids, near[item])
            sums[10] += 1
            if here >= 0:
                sums[11] += 1
                continue
            if n == K:
                sums[12] += 1
            if not admit:
                continue
            gone = -1
            if n < K:
                j = n
                n += 1
            else:
                j = victim(state, t, K, ids, born, near)
                gone = ids[j]
                sums[14] += 1
            insert(state, j, t, K, gone)
            ids[j] = item
            born[j] = t
            sums[13] += 1

    one = compiled(lane)

    def all_lanes(similarity, near, relevance, total, query, arrival, second_half, slope_weight, K, hits):
        out = np.zeros((len(query), width))
        nothing = np.zeros(0, np.uint8)
        for b in range(len(query)):
            if seeded:
                np.random.seed(b)
            one(
                similarity[b], near[b], relevance[b], total[b], query[b], arrival[b], second_half, slope_weight, K,
                hits[b] if len(hits) > 0 else nothing, out[b],
            )  # fmt: skip
        return out

    return compiled(all_lanes)


def counters(sums: np.ndarray) -> dict[str, Any]:
    """Sums by name, `[W]` each."""
    return {name: sums[:, number] for number, name in enumerate(SUMS)}


def _nearest(row, ids, born, n):
    """Cosines and slots of the three nearest residents; ties to the earliest inserted."""
    b0 = b1 = b2 = np.float32(-2)
    i0 = i1 = i2 = -1
    for i in range(n):
        s = row[ids[i]]
        if s > b0 or (s == b0 and born[i] < born[i0]):
            b2, i2, b1, i1, b0, i0 = b1, i1, b0, i0, s, i
        elif s > b1 or (s == b1 and i1 >= 0 and born[i] < born[i1]):
            b2, i2, b1, i1 = b1, i1, s, i
        elif s > b2 or (s == b2 and i2 >= 0 and born[i] < born[i2]):
            b2, i2 = s, i
    return b0, b1, b2, i0, i1, i2


def _resident(ids, n, item):
    """Slot of the item, -1 if it is not resident. The first pass has no exit, so that it is vectorised."""
    there = False
    for i in range(n):
        there |= ids[i] == item
    if there:
        for i in range(n):
            if ids[i] == item:
                return i
    return -1


def _account(sums, second, weight, relevant, total, ids, b0, b1, b2, i0, i1, i2):
    """Adds one scored query to the sums; returns whether it hit."""
    found = 0.0
    count = 0
    cosine = 0.0
    for slot, value in ((i0, b0), (i1, b1), (i2, b2)):
        if slot >= 0:
            count += 1
            found += relevant[ids[slot]]
            cosine += value
    hit = 1.0 if found > 0 else 0.0
    recall = found / total if total > 0 else 0.0
    precision = found / max(count, 1)
    sums[0] += 1
    sums[1] += hit
    sums[2] += hit if second else 0.0
    sums[3] += recall
    sums[4] += precision
    sums[5] += 2 * precision * recall / (precision + recall) if found > 0 else 0.0
    sums[6] += min(max(b0, 0.0), 1.0) if i0 >= 0 else 0.0
    sums[7] += min(max(cosine / max(count, 1), 0.0), 1.0)
    sums[8] += 1 - hit
    sums[9] += hit * weight
    return hit > 0
