"""The one trace type: what arrives, what is asked, and which items would have answered.

Host side, numpy only: a `Trace` is what importers produce, files store and the engine
consumes. Axes: T steps, Q queries, M items, D embedding dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

NO_ITEM = -1
"""Sentinel in `Trace.arrival`: nothing arrives at this step."""
NO_QUERY = -1
"""Sentinel in `Trace.query`: nothing is asked at this step."""


class TraceError(ValueError):
    """A trace that cannot be run; the message names the field, the value and what is allowed."""


class StepMode(IntEnum):
    """What a step counts for.

    PREFILL  an arrival pushed through the policy before the run starts; never scored.
    FILL     like PREFILL, but offered only while the cache has room (a frozen pool of the first K).
    TRAIN    runs with feedback, is not scored (warm-up).
    SCORED   runs with feedback and is scored.
    FROZEN   scored, but the policy sees neither the query nor its feedback, and nothing may arrive.
    """

    PREFILL = 0
    FILL = 1
    TRAIN = 2
    SCORED = 3
    FROZEN = 4


@dataclass(frozen=True)
class Trace:
    """One recorded or generated stream.

    Attributes:
      name: label of the trace; part of the random stream, so results do not depend on its neighbours.
      items: `[M, D] f32` item embeddings; normalised on construction.
      queries: `[Q, D] f32` query embeddings; normalised on construction.
      query: `[T] i32` index into `queries`, `NO_QUERY` where nothing is asked.
      arrival: `[T] i32` index into `items`, `NO_ITEM` where nothing arrives.
      mode: `[T] u8` a `StepMode` each.
      relevant_indptr, relevant_indices: CSR over queries, `[Q+1] i32` and `[nnz] i32`: the relevant items.
      relevant_grade: `[nnz] f32` in (0, 1], or None for binary relevance.
      arrival_on_miss: `[T] i32` or None: the item that arrives instead when this step's query missed (an experience
        stored without its answer). Same sentinel as `arrival`; None means `arrival` whatever the outcome.
      answer_recall: `[Q, M] f32` in [0, 1]: token recall of the gold answer in an item's text, or None.
      category: `[Q] i32` in [0, len(category_names)), or None.
      category_names: labels of the categories.
      item_text, query_text: the texts, or None.
      item_time, query_time: `[M]`, `[Q]` f64 seconds since the epoch, or None.
      meta: JSON-able facts about where the trace comes from (source, protocol, counts of dropped records).

    Raises:
      TraceError: on construction, if any field is malformed.
    """

    name: str
    items: np.ndarray
    queries: np.ndarray
    query: np.ndarray
    arrival: np.ndarray
    mode: np.ndarray
    relevant_indptr: np.ndarray
    relevant_indices: np.ndarray
    relevant_grade: np.ndarray | None = None
    arrival_on_miss: np.ndarray | None = None
    answer_recall: np.ndarray | None = None
    category: np.ndarray | None = None
    category_names: tuple[str, ...] = ()
    item_text: tuple[str, ...] | None = None
    query_text: tuple[str, ...] | None = None
    item_time: np.ndarray | None = None
    query_time: np.ndarray | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "items", _unit_rows(self.name, "items", self.items))
        put(self, "queries", _unit_rows(self.name, "queries", self.queries, allow_empty=True))
        if len(self.queries) and self.queries.shape[1] != self.items.shape[1]:
            raise TraceError(
                f"{self.name}: queries have {self.queries.shape[1]} dimensions, items have {self.items.shape[1]}"
            )
        put(self, "query", _index(self.name, "query", self.query, len(self.queries), NO_QUERY))
        put(self, "arrival", _index(self.name, "arrival", self.arrival, len(self.items), NO_ITEM))
        mode = np.asarray(self.mode)
        if mode.ndim != 1 or (mode.size and (mode.min() < 0 or mode.max() > max(StepMode))):
            raise TraceError(f"{self.name}: mode must hold StepMode values 0..{int(max(StepMode))}, one per step")
        put(self, "mode", mode.astype(np.uint8))
        if not len(self.query) == len(self.arrival) == len(self.mode):
            raise TraceError(
                f"{self.name}: query, arrival and mode need one entry per step, got "
                f"{len(self.query)}, {len(self.arrival)}, {len(self.mode)}"
            )
        if len(self.query) == 0:
            raise TraceError(f"{self.name}: the trace is empty (0 steps)")
        early = self.mode <= StepMode.FILL
        if np.any(self.query[early] != NO_QUERY):
            raise TraceError(f"{self.name}: PREFILL and FILL steps carry an arrival only, no query")
        frozen = self.mode == StepMode.FROZEN
        if np.any(self.arrival[frozen] != NO_ITEM):
            raise TraceError(f"{self.name}: FROZEN steps carry a query only, no arrival")
        self._check_relevance()
        self._check_optional()

    def _check_relevance(self) -> None:
        indptr = np.asarray(self.relevant_indptr, dtype=np.int64)
        indices = np.asarray(self.relevant_indices)
        if indptr.shape != (len(self.queries) + 1,) or indptr[0] != 0 or np.any(np.diff(indptr) < 0):
            raise TraceError(
                f"{self.name}: relevant_indptr must be {len(self.queries) + 1} non-decreasing numbers from 0"
            )
        if indptr[-1] != len(indices):
            raise TraceError(
                f"{self.name}: relevant_indptr ends at {indptr[-1]}, relevant_indices has {len(indices)} entries"
            )
        indices = _index(self.name, "relevant_indices", indices, len(self.items), None)
        object.__setattr__(self, "relevant_indptr", indptr.astype(np.int32))
        object.__setattr__(self, "relevant_indices", indices)
        if self.relevant_grade is not None:
            grade = np.asarray(self.relevant_grade, dtype=np.float32)
            if grade.shape != indices.shape or not np.all((grade > 0) & (grade <= 1)):
                raise TraceError(f"{self.name}: relevant_grade must hold one number in (0, 1] per relevant item")
            object.__setattr__(self, "relevant_grade", grade)

    def _check_optional(self) -> None:
        if self.arrival_on_miss is not None:
            other = _index(self.name, "arrival_on_miss", self.arrival_on_miss, len(self.items), NO_ITEM)
            if other.shape != self.arrival.shape:
                raise TraceError(f"{self.name}: arrival_on_miss needs one entry per step, as arrival has")
            if np.any((other != NO_ITEM) != (self.arrival != NO_ITEM)):
                raise TraceError(f"{self.name}: arrival_on_miss must hold an item exactly where arrival does")
            object.__setattr__(self, "arrival_on_miss", other)
        if self.answer_recall is not None:
            recall = np.asarray(self.answer_recall, dtype=np.float32)
            if recall.shape != (len(self.queries), len(self.items)) or not np.all((recall >= 0) & (recall <= 1)):
                raise TraceError(f"{self.name}: answer_recall must be [queries, items] in [0, 1]")
            object.__setattr__(self, "answer_recall", recall)
        if self.category is not None:
            if np.shape(self.category) != (len(self.queries),):
                raise TraceError(f"{self.name}: category must have one entry per query")
            category = _index(self.name, "category", self.category, len(self.category_names), None)
            object.__setattr__(self, "category", category)
        for label, texts, n in (
            ("item_text", self.item_text, len(self.items)),
            ("query_text", self.query_text, len(self.queries)),
            ("item_time", self.item_time, len(self.items)),
            ("query_time", self.query_time, len(self.queries)),
        ):
            if texts is not None and len(texts) != n:
                raise TraceError(f"{self.name}: {label} has {len(texts)} entries, expected {n}")

    @property
    def num_steps(self) -> int:
        """T, prefill steps included."""
        return len(self.query)

    def relevance_matrix(self) -> np.ndarray:
        """Dense relevance, `[Q, M]`: bool if binary, f32 grades in [0, 1] otherwise."""
        graded = self.relevant_grade is not None
        dense = np.zeros((len(self.queries), len(self.items)), np.float32 if graded else bool)
        rows = np.repeat(np.arange(len(self.queries)), np.diff(self.relevant_indptr))
        dense[rows, self.relevant_indices] = self.relevant_grade if graded else True
        return dense


def _unit_rows(name: str, label: str, rows: np.ndarray, allow_empty: bool = False) -> np.ndarray:
    rows = np.asarray(rows)
    if rows.ndim != 2:
        raise TraceError(f"{name}: {label} must be a matrix [rows, dimensions], got shape {rows.shape}")
    if len(rows) == 0 and not allow_empty:
        raise TraceError(f"{name}: {label} is empty; at least one row is needed")
    if not np.issubdtype(rows.dtype, np.number) or np.iscomplexobj(rows):
        raise TraceError(f"{name}: {label} must be real numbers, got dtype {rows.dtype}")
    rows = rows.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise TraceError(f"{name}: {label} row {bad[0]} holds NaN or infinity ({len(bad)} such rows)")
    # In float64, so that tiny or huge but finite rows neither vanish nor overflow.
    norm = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    zero = np.flatnonzero(norm[:, 0] == 0)
    if len(zero):
        raise TraceError(f"{name}: {label} row {zero[0]} has zero norm, so it has no cosine ({len(zero)} such rows)")
    # Rows that are unit already up to rounding are kept bit for bit: a stored trace reloads unchanged.
    unit = np.abs(norm - 1) < 1e-6
    return np.where(unit, rows, (rows / norm)).astype(np.float32)


def _index(name: str, label: str, values: np.ndarray, size: int, sentinel: int | None) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or values.size == 0):
        raise TraceError(f"{name}: {label} must be a list of integers, got {values.dtype} {values.shape}")
    low = 0 if sentinel is None else sentinel
    bad = np.flatnonzero((values < low) | (values >= size))
    if len(bad):
        none = "" if sentinel is None else f", or {sentinel} for none"
        raise TraceError(
            f"{name}: {label}[{bad[0]}] = {values[bad[0]]} is out of range; allowed are 0..{size - 1}{none}"
        )
    return values.astype(np.int32)
