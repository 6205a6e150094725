"""What a policy's kernels are, and the three victim rules that need no more than a few lines each.

State is a tuple of small numpy arrays; kernels change it in place. `i0, i1, i2` are the retrieved slots by rank (-1:
none), `n` residents before the step, `here` whether the arriving item is resident already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Admission(NamedTuple):
    """init() -> state; decide(state, t, n, K, ids, near) -> bool, with `near` the arriving item's cosines to all."""

    init: Callable[..., Any]
    decide: Callable[..., Any]


class Eviction(NamedTuple):
    """init(K) -> state; touch(state, t, n, K, item, here, i0, i1, i2), every step before the decision;
    victim(state, t, K, ids, born, near) -> slot of a full cache, with `near` the cosines of all items;
    insert(state, slot, t, K, gone), `gone` being the item replaced or -1. random: draws from `np.random`."""

    init: Callable[..., Any]
    touch: Callable[..., Any]
    victim: Callable[..., Any]
    insert: Callable[..., Any]
    random: bool = False


def always(compiled: Callable) -> Admission:
    """Admits whatever arrives."""

    def init():
        return (np.zeros(1, np.int32),)

    def decide(state, t, n, K, ids, near):
        return True

    return Admission(compiled(init), compiled(decide))


def fifo(compiled: Callable) -> Eviction:
    """The earliest inserted leaves: a pointer that goes round."""

    def init(K):
        return (np.zeros(1, np.int32),)

    def touch(state, t, n, K, item, here, i0, i1, i2):
        pass

    def victim(state, t, K, ids, born, near):
        return state[0][0]

    def insert(state, slot, t, K, gone):
        if gone >= 0:
            state[0][0] = slot + 1 if slot + 1 < K else 0

    return Eviction(*map(compiled, (init, touch, victim, insert)))


def _least(state, t, K, ids, born, near):
    """The resident whose number is least leaves; ties to the earliest inserted."""
    number = state[0]
    least = 0
    for i in range(1, K):
        if number[i] < number[least] or (number[i] == number[least] and born[i] < born[least]):
            least = i
    return least


def lru(compiled: Callable) -> Eviction:
    """The resident retrieved or inserted longest ago leaves; ties to the earliest inserted."""

    def init(K):
        return (np.zeros(K, np.int32),)

    def touch(state, t, n, K, item, here, i0, i1, i2):
        last = state[0]
        if i0 >= 0:
            last[i0] = t
        if i1 >= 0:
            last[i1] = t
        if i2 >= 0:
            last[i2] = t

    def insert(state, slot, t, K, gone):
        state[0][slot] = t

    return Eviction(*map(compiled, (init, touch, _least, insert)))


def lfu(compiled: Callable) -> Eviction:
    """The resident retrieved least often since its insertion leaves; ties to the earliest inserted."""

    def init(K):
        return (np.zeros(K, np.int32),)

    def touch(state, t, n, K, item, here, i0, i1, i2):
        count = state[0]
        if i0 >= 0:
            count[i0] += 1
        if i1 >= 0:
            count[i1] += 1
        if i2 >= 0:
            count[i2] += 1

    def insert(state, slot, t, K, gone):
        state[0][slot] = 0

    return Eviction(*map(compiled, (init, touch, _least, insert)))
