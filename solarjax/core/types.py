"""Types shared by the engine and the policies. No algorithms here.

Axis legend: B lanes, W tables, P pairs (trace, seed), T steps, Q queries, M items of a trace,
N cache slots (>= K), K capacity, k retrieval depth. A policy is written for ONE lane; the engine
adds the lane axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jax import Array

NO_SLOT = -1
"""Sentinel slot: no slot applies (nothing retrieved at this rank, or no free slot)."""
NEVER = 2**31 - 1
"""Sentinel for `View.next_use`: no later query needs this item."""


class Scores(NamedTuple):
    """Quality of one retrieval, each `[] f32` in [0, 1]; 0 where nothing was asked.

    hit: 1 if any retrieved item is relevant.         recall: relevance found / relevance there is.
    precision: relevance found / items retrieved.                f1: harmonic mean of recall and precision, as sets.
    max_similarity: best cosine, clipped to [0, 1].   mean_similarity: mean cosine of the retrieved, clipped.
    answer_recall: best token recall of the gold answer in one retrieved text; 0 without that table.
    """

    hit: Array
    recall: Array
    precision: Array
    f1: Array
    max_similarity: Array
    mean_similarity: Array
    answer_recall: Array


class View(NamedTuple):
    """What a policy may see at one step. Built by the engine, read-only.

    Clocks
      t: `[] i32` step index, prefill steps included.
      query_count: `[] i32` queries shown to the policy so far, this one included.
      offer_count: `[] i32` arrivals offered so far, this one and duplicates included.
    Cache
      capacity: `[] i32` K.                     size: `[] i32` residents.
      occupied: `[N] bool`.                     resident_id: `[N] i32`, NO_ITEM where empty.
      inserted: `[N] i32` insertion number * N + slot: unique, ties go to the smallest, and modulo N it is the slot.
      free_slot: `[] i32` lowest free slot below K, NO_SLOT when full.
    Query (all empty/zero when `has_query` is False: nothing was asked, or the step is frozen)
      has_query: `[] bool`.
      similarity: `[N] f32` cosine to the query, -inf where empty.
      retrieved: `[N] bool` the top-k.          retrieved_slots: `[k] i32` by rank, NO_SLOT-padded.
      touched: `[N] bool` retrieved slots that count as accessed (all of them, or the liked ones).
      disliked: `[N] bool` retrieved slots with negative feedback (only under `liked_disliked`).
      miss: `[] f32` miss cost delta_t = 1 - quality, 0 without a query.
      scores: all qualities, for gates that use another signal.
    Candidate
      has_candidate: `[] bool` an item arrives (it may be resident already).
      candidate_id: `[] i32`, NO_ITEM if none.  candidate_resident: `[] bool` it is in the cache already.
      candidate_similarity: `[N] f32` its cosine to each resident, -inf where empty; None unless asked for.
    Only inside `victim` and only if the spec asks for it
      resident_similarity: `[N, N] f32` cosine between residents, -inf on the diagonal and where empty, else None.
      nearest: `[m, N] f32` cosines of each resident to its m nearest OTHERS, falling, -inf where there are fewer; the
        engine may give a rule that reads no more than these (`Needs.nearest`) either this or `resident_similarity`.
    Offline policies only (None otherwise); they see the scored queries after this step
      future_uses: `[N] i32` how many will find the resident relevant.
      next_use: `[N] i32` step of the first such query, NEVER if none.
      candidate_future_uses, candidate_next_use: `[] i32` the same for the candidate.
      future_queries: `[ceil(Q / 32), N] u32` the later queries that find the resident relevant: query q is bit q % 32
        of word q // 32. May be 0 everywhere in a step in which no lane has to decide between residents and candidate.
      candidate_future_queries: `[ceil(Q / 32)] u32` the same for the candidate.
    """

    t: Array
    query_count: Array
    offer_count: Array
    capacity: Array
    size: Array
    occupied: Array
    resident_id: Array
    inserted: Array
    free_slot: Array
    has_query: Array
    similarity: Array
    retrieved: Array
    retrieved_slots: Array
    touched: Array
    disliked: Array
    miss: Array
    scores: Scores
    has_candidate: Array
    candidate_id: Array
    candidate_resident: Array
    candidate_similarity: Array | None = None
    resident_similarity: Array | None = None
    nearest: Array | None = None
    future_uses: Array | None = None
    next_use: Array | None = None
    candidate_future_uses: Array | None = None
    candidate_next_use: Array | None = None
    future_queries: Array | None = None
    candidate_future_queries: Array | None = None


def given(array: Array | None, field: str) -> Array:
    """`array`, which a caller asked the engine for.

    Raises:
      TypeError: it was not built; the policy's `PolicySpec.needs` must ask for it.
    """
    if array is None:
        raise TypeError(f"{field} was read but not asked for; set it in the policy's PolicySpec.needs")
    return array


class Decision(NamedTuple):
    """admit: `[] bool` write the candidate; slot: `[] i32` where. The engine ignores `slot` while a slot is free,
    and treats an unoccupied `slot` in a full cache as the earliest inserted resident."""

    admit: Array
    slot: Array


State = Any
Key = Array
"""`[2] u32` threefry key words (see `core.random`); a function that takes one consumes it."""


class Policy(NamedTuple):
    """One memory policy for one lane, as pure functions.

    init(num_slots) -> state
    observe(key, state, view) -> (state, admit): touch with the lookup's outcome, then say whether the
        candidate should be written. Called every step. With neither query nor candidate it must return
        `state` unchanged.
    victim(key, state, view) -> slot: which resident to replace. Only used when admit, the cache is full and the
        candidate is new; it must not change state, so the engine may evaluate it for those lanes alone.
    insert(state, slot, view) -> state: bookkeeping for the candidate that is written to `slot`
        (`view.occupied[slot]` tells whether a resident is replaced). Only its effect where a write happens is kept.
    """

    init: Callable[[int], State]
    observe: Callable[[Key, State, View], tuple[State, Array]]
    victim: Callable[[Key, State, View], Array]
    insert: Callable[[State, Array, View], State]
