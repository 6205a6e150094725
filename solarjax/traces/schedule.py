"""The random part of a trace: which query and item stand at which step, and the randomness behind it."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode


class Schedule(NamedTuple):
    """One order of events over the fixed items and queries of a trace; T is the same for every seed.

    query: `[T] i32`, NO_QUERY for none.    arrival: `[T] i32`, NO_ITEM for none.
    mode: `[T] u8`, a `StepMode` each.      arrival_on_miss: `[T] i32` or None, as in `Trace`.
    """

    query: np.ndarray
    arrival: np.ndarray
    mode: np.ndarray
    arrival_on_miss: np.ndarray | None = None


def generator(seed: int, name: str, protocol: str) -> np.random.Generator:
    """The random stream of one draw: a function of (seed, conversation name, protocol) and nothing else.

    So a conversation's draws do not depend on which others are run, and protocol parameters (the mean delay,
    the granularity) are compared under common random numbers.

    Args:
      seed: non-negative.
      name: of the conversation.
      protocol: id of the protocol.

    Raises:
      ValueError: if the seed is negative or not whole.
    """
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be a whole number >= 0, got {seed!r}")
    digest = hashlib.sha256(f"{name}\0{protocol}".encode()).digest()
    words = np.frombuffer(digest, dtype="<u4").tolist()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([int(seed), *words])))


def steps(query: np.ndarray, arrival: np.ndarray, mode: StepMode | np.ndarray) -> Schedule:
    """A schedule from per-step queries and arrivals; `mode` may be one for all steps."""
    modes = np.broadcast_to(np.asarray(mode, np.uint8), np.shape(query)).copy()
    return Schedule(np.asarray(query, np.int32), np.asarray(arrival, np.int32), modes)


def concatenate(*parts: Schedule) -> Schedule:
    """Schedules one after the other; where only some have `arrival_on_miss`, the others' arrivals fill it."""
    on_miss = None
    if any(part.arrival_on_miss is not None for part in parts):
        on_miss = np.concatenate([p.arrival if p.arrival_on_miss is None else p.arrival_on_miss for p in parts])
    return Schedule(
        np.concatenate([part.query for part in parts]),
        np.concatenate([part.arrival for part in parts]),
        np.concatenate([part.mode for part in parts]),
        on_miss,
    )


def interleave(last_turn: np.ndarray, query: np.ndarray, time: np.ndarray, mode: StepMode) -> Schedule:
    """Items in their order, each query put in at its time.

    A query at time x comes before the item whose last turn has index >= x and after all others.

    Args:
      last_turn: `[M]` strictly increasing; item m arrives with turn last_turn[m].
      query: `[q]` query indices.
      time: `[q]` when they are asked, in turns; ties keep the given order.
      mode: of every step.

    Returns:
      A schedule of M + q steps.
    """
    order = np.argsort(time, kind="stable")
    # Before the j-th query in time lie the items that arrived by then and the j queries before it.
    at = np.searchsorted(last_turn, time[order], side="left") + np.arange(len(order))
    total = len(last_turn) + len(order)
    asked = np.full(total, NO_QUERY, np.int32)
    asked[at] = query[order]
    arrival = np.full(total, NO_ITEM, np.int32)
    arrival[asked == NO_QUERY] = np.arange(len(last_turn))
    return steps(asked, arrival, mode)
