"""Rules that choose among candidates: the utility, and the baselines that any KV-aware rule has to beat.

Consistent hashing by capsule is a strong one: with prefix caching on and room for the working set it reuses as much.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from solarjax.plane.placement.config import Rule
from solarjax.plane.placement.decision import Terms


class Key(NamedTuple):
    """What a rule may look at besides the terms: the capsules used, and the session if the client named one."""

    capsules: str
    session: str


def rendezvous(key: str, node: str) -> int:
    """Highest-random-weight hashing: when a node leaves, only its own keys move (Thaler and Ravishankar, 1998)."""
    return int.from_bytes(hashlib.blake2b(f"{key}\x00{node}".encode(), digest_size=8).digest(), "big")


class Router:
    """Chooses by one rule.

    Args:
      rule: its name.
    """

    def __init__(self, rule: Rule):
        self.rule = rule
        self._turn = itertools.count()
        rules: dict[str, Callable[[Sequence[Terms], Key], Terms]] = {
            "utility": _utility, "shortest_ttft": _shortest, "consistent_hash": _hashed, "session": _session,
            "round_robin": self._round_robin, "least_loaded": _least_loaded,
        }  # fmt: skip
        self._choose = rules[rule]

    def choose(self, candidates: Sequence[Terms], key: Key) -> Terms:
        """One of the candidates (at least one), which are in the order of the configuration."""
        return self._choose(candidates, key)

    def _round_robin(self, candidates: Sequence[Terms], _key: Key) -> Terms:
        nodes = sorted({c.node for c in candidates})
        return _best_on(candidates, nodes[next(self._turn) % len(nodes)])


def _best_on(candidates: Sequence[Terms], node: str) -> Terms:
    return max((c for c in candidates if c.node == node), key=lambda c: c.utility)


def _utility(candidates: Sequence[Terms], key: Key) -> Terms:
    # Equal to the nanosecond means that nothing distinguishes them (cold, idle, alike): then capsules stay together.
    return max(candidates, key=lambda c: (round(c.utility, 6), c.mode == "kv", rendezvous(key.capsules, c.node)))


def _shortest(candidates: Sequence[Terms], key: Key) -> Terms:
    return min(candidates, key=lambda c: (round(c.ttft_ms + c.load_ms, 6), -rendezvous(key.capsules, c.node)))


def _hashed(candidates: Sequence[Terms], key: Key) -> Terms:
    return _best_on(candidates, max({c.node for c in candidates}, key=lambda node: rendezvous(key.capsules, node)))


def _session(candidates: Sequence[Terms], key: Key) -> Terms:
    chosen = key.session or key.capsules
    return _best_on(candidates, max({c.node for c in candidates}, key=lambda node: rendezvous(chosen, node)))


def _least_loaded(candidates: Sequence[Terms], key: Key) -> Terms:
    return min(candidates, key=lambda c: (round(c.load_ms, 6), -rendezvous(key.capsules, c.node)))
