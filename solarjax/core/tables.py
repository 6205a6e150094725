"""Device arrays of a block of traces: what the step gathers from.

Similarities are computed once per workload and shared by every policy, capacity, hyper-parameter and
policy seed; a step only gathers the N numbers of its residents. Every table is computed one workload at
a time (`lax.map`), never in one batched product, so its bits do not depend on the block it is in.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

HIGHEST = lax.Precision.HIGHEST


class Tables(NamedTuple):
    """Look-up tables of W workloads, query-major: lanes that ask their q-th query together read one contiguous slab.

    similarity: `[Q, W, M] f32` cosine of query and item.
    relevance: `[Q, W, M]` bool or f32 grades in [0, 1]; `[Q, W, ceil(M / 32)] u32` once packed (`core.relevance`).
    relevant_total: `[Q, W] f32` sum of a query's relevance.
    item_similarity: `[W, M, M] f32` cosine between items, symmetric to the bit, or None when no policy needs it.
        Workload-major: a victim rule reads what one lane's residents are to each other.
    answer_recall: `[Q, W, M] f32`, or None.
    category: `[Q, W] i32`, or None.
    queries_of: `[M, W, ceil(Q / 32)] u32` the queries that an item is relevant to, query q being bit q % 32 of word
        q // 32; only while a rollout runs whose policy asks for them (`core.relevance.queries_of_items`).
    """

    similarity: Array
    relevance: Array
    relevant_total: Array
    item_similarity: Array | None = None
    answer_recall: Array | None = None
    category: Array | None = None
    queries_of: Array | None = None


class Schedule(NamedTuple):
    """Per-step inputs of P pairs (trace, seed), time leading so that a scan slices rows.

    query, arrival: `[T, P] i32` with NO_QUERY / NO_ITEM.
    arrival_on_miss: `[T, P] i32`, or None when no arrival depends on the outcome.
    mode: `[T, P] u8` StepMode.
    second_half: `[T, P] bool` the scored query lies in the second half of the scored ones.
    slope_weight: `[T, P] f32` weights w_t with slope = sum_t w_t * hit_t (see `core.metrics.slope_weights`).
    future_uses: `[T, P, M] i32` scored queries after step t that find item m relevant; None for online policies.
    next_use: `[T, P, M] i32` step of the first of them, NEVER if none; None for online policies.
    last_asked: `[Q, P] i32` step of a query's last scored occurrence, -1 if none; None for online policies.
    """

    query: Array
    arrival: Array
    arrival_on_miss: Array | None
    mode: Array
    second_half: Array
    slope_weight: Array
    future_uses: Array | None = None
    next_use: Array | None = None
    last_asked: Array | None = None


def cosine_table(left: Array, right: Array) -> Array:
    """Cosines of unit rows, `[A, D], [C, D] -> [A, C] f32`, in full float32 (never TF32 on a GPU)."""
    return jnp.matmul(left, right.T, precision=HIGHEST)


def item_cosines(items: Array) -> Array:
    """`[M, D] -> [M, M] f32` cosines of unit rows, symmetric to the bit: `core.neighbours` reads (a, b) for (b, a).

    A CPU adds both in one order (tests/unit/test_core_neighbours.py); elsewhere one triangle is mirrored.
    """
    near = cosine_table(items, items)
    if jax.default_backend() == "cpu":
        return near
    return jnp.tril(near) + jnp.tril(near, -1).T


def workload_tables(
    items: Array, queries: Array, relevance: Array, pairwise: bool
) -> tuple[Array, Array, Array, Array | None]:
    """(similarity, relevance, relevant_total, item_similarity) of ONE workload."""
    return (
        cosine_table(queries, items),
        relevance,
        relevance.astype(jnp.float32).sum(axis=1),
        item_cosines(items) if pairwise else None,
    )
