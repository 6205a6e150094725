"""Families over few pages: cycles, random runs, museum, rotation."""

from __future__ import annotations

import numpy as np

from theory.families.base import Family, check_positive, exact_match
from theory.model import Batch, Conventions, instance

LIKED = Conventions(touch="liked")
"""Only answers count as accesses: what "used" means in paging."""


def strict_cycle(K: int, lam: float, T: int) -> Batch:
    """K + 1 topics of one item each, asked in turn; the item asked for arrives after its query (T1, S12)."""
    check_positive(K=K, T=T)
    order = [t % (K + 1) for t in range(T)]
    return exact_match(order, order, K + 1, K, lam, f"strict_cycle(K={K},lam={lam:g},T={T})", conventions=LIKED)


def _cycle_opt(K: int, lam: float, T: int) -> float:
    # Hold the first n <= K items for good: n insertions, and everything else misses, first visits included. The last
    # visit of a page never pays for its insertion, so only pages with enough later visits are worth lam.
    visits = [len(range(i, T, K + 1)) - 1 for i in range(K + 1)]
    return T - sum(max(0.0, v - lam) for v in sorted(visits, reverse=True)[:K])


def soft_cycle(K: int, lam: float, T: int, eps: float, far: float) -> Batch:
    """The strict cycle with soft hits: similarity 1 - eps to its own item, `far` to every other (T1, soft)."""
    check_positive(K=K, T=T)
    order = np.arange(T) % (K + 1)
    near = np.full((K + 1, K + 1), far)
    np.fill_diagonal(near, 1 - eps)
    name = f"soft_cycle(K={K},lam={lam:g},T={T},eps={eps:g},far={far:g})"
    return instance(near, order, order, K, lam, name=name, quality="max_similarity")


def _soft_opt(K: int, lam: float, T: int, eps: float, far: float) -> float:
    # An empty cache loses 1; with one resident a miss loses 1 - far. A page that is held loses eps.
    visits = sorted((len(range(i, T, K + 1)) - 1 for i in range(K + 1)), reverse=True)
    return (
        1
        + lam
        + (T - 1) * (1 - far)
        - visits[0] * (1 - far - eps)
        - sum(max(0.0, v * (1 - far - eps) - lam) for v in visits[1:K])
    )


def _soft_fifo(K: int, lam: float, T: int, eps: float, far: float) -> float:
    return 1 + (T - 1) * (1 - far) + lam * T


def museum(K: int, lam: float, T: int, uses: int = 4) -> Batch:
    """LFU: K items are asked `uses` times, then two new ones in turn; the newest always has the least count (E3)."""
    check_positive(uses=uses - 1, K=K - 1)
    requests = [i for i in range(K) for _ in range(uses)]
    arrivals = [i if u == 0 else -1 for i in range(K) for u in range(uses)]
    turns = [K + t % 2 for t in range(T - len(requests))]
    name = f"museum(K={K},lam={lam:g},T={T},uses={uses})"
    return exact_match(requests + turns, arrivals + turns, K + 2, K, lam, name)


def _museum_lfu(K: int, lam: float, T: int, uses: int = 4) -> float:
    return K * (1 + lam) + (T - K * uses) * (1 + lam)


def _museum_opt(K: int, lam: float, T: int, uses: int = 4) -> float:
    # One item of the old exhibition saves uses - 1 misses, each of the two new ones what is left of its visits.
    later = T - K * uses
    new = [len(range(i, later, 2)) for i in (0, 1)]
    old = K * (1 + min(lam, uses - 1))
    return old + sum(1 + min(lam, n - 1) for n in new if n)


def rotation(K: int, lam: float, phases: int, rounds: int) -> Batch:
    """Drift: in each phase K new topics are asked in turn, `rounds` times. FIFO is optimal once rounds - 1 >= lam."""
    check_positive(K=K, phases=phases, rounds=rounds - 1)
    order = [p * K + i for p in range(phases) for _ in range(rounds) for i in range(K)]
    name = f"rotation(K={K},lam={lam:g},phases={phases},rounds={rounds})"
    return exact_match(order, order, phases * K, K, lam, name, conventions=LIKED)


def yao(K: int, lam: float, T: int, seed: int = 0) -> Batch:
    """Uniformly random requests over K + 1 pages, the cache full at the start: no online eviction rule, randomised or
    not, misses less than 1 / (K + 1) of them (Yao's principle; Fiat et al., Competitive paging algorithms, 1991)."""
    check_positive(K=K, T=T)
    order = np.random.default_rng(seed).integers(0, K + 1, T).tolist()
    start = Conventions(initial=tuple(range(K)), touch="liked")
    return exact_match(order, order, K + 1, K, lam, f"yao(K={K},lam={lam:g},T={T},seed={seed})", conventions=start)


def sqrt_topics(T: int, lam: float) -> Batch:
    """K = 1 on a cycle of sqrt(T) topics, the setting of T1's remark (S13)."""
    topics = int(round(T**0.5))
    order = [t % topics for t in range(T)]
    return exact_match(order, order, topics, 1, lam, f"sqrt_topics(T={T},lam={lam:g})", conventions=LIKED)


def _sqrt_opt(T: int, lam: float) -> float:
    topics = int(round(T**0.5))
    return T - max(0.0, len(range(0, T, topics)) - 1 - lam)


FAMILIES = (
    Family(
        "strict_cycle",
        "K + 1 pages asked in turn",
        strict_cycle,
        {"fifo": lambda K, lam, T: T * (1 + lam), "lru": lambda K, lam, T: T * (1 + lam)},
        _cycle_opt,
        {"K": 3, "lam": 1.0, "T": 24},
        "(K + 1)(1 + lam)",
    ),
    Family(
        "soft_cycle",
        "the cycle with soft hits",
        soft_cycle,
        {"fifo": _soft_fifo},
        _soft_opt,
        {"K": 3, "lam": 1.0, "T": 24, "eps": 0.125, "far": 0.25},
        "(miss + lam)(K + 1) / (K eps + miss), at most (miss + lam) / eps",
    ),
    Family(
        "museum",
        "old favourites that LFU never lets go",
        museum,
        {"lfu": _museum_lfu},
        _museum_opt,
        {"K": 2, "lam": 1.0, "T": 24, "uses": 3},
        "linear in T",
    ),
    Family(
        "rotation",
        "all topics change with each phase",
        rotation,
        {"fifo": lambda K, lam, phases, rounds: phases * K * (1 + lam)},
        lambda K, lam, phases, rounds: phases * K * (1 + min(lam, rounds - 1)),
        {"K": 2, "lam": 1.0, "phases": 4, "rounds": 3},
        "1 for FIFO",
    ),
    Family(
        "sqrt_topics",
        "K = 1 and sqrt(T) topics in turn",
        sqrt_topics,
        {"fifo": lambda T, lam: T * (1 + lam)},
        _sqrt_opt,
        {"T": 25, "lam": 1.0},
        "1 + lam, not sqrt(T)",
    ),
)
