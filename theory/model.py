"""The model that every bound speaks about: a finite instance, and the conventions the papers leave open.

Step t: query q_t is answered from the top-k of the content S_t and costs l_t(S_t) = 1 - quality in [0, 1]; then item
e_t appears and S_{t+1} is chosen. COST = sum_t l_t(S_t) + lam * N, N the number of steps that change the content.

Axis legend: B instances, Q queries, T steps, N items, K capacity, k retrieval depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from solarjax.core.trace import NO_ITEM, NO_QUERY
from theory.errors import TheoryError

QUALITIES = ("hit", "recall", "precision", "f1", "max_similarity", "mean_similarity")
"""Qualities that depend on the retrieved set only; each is the engine's score of that name."""
CHOICES = {
    "actions": ("online", "store_step", "store_item"),
    "fires": ("at_least", "above"),
    "resident_arrival": ("resets", "ignored"),
    "fill": ("policy", "gated", "free", "bootstrap"),
    "overshoot": ("discarded", "carried"),
    "touch": ("retrieved", "liked"),
}


@dataclass(frozen=True)
class Conventions:
    """What the papers leave open (A1-A8 of the theory notes), as explicit configuration.

    fill_free: A1, writes into a cache that is not full do not count in N (by the formula they do, by "N = T - K"
      they do not).
    actions: A2, what OPT may do. `online`: insert e_t only, at most one change a step. `store_step`: any content of
      items seen so far, lam per changed step. `store_item`: the same, lam per inserted item, deletions free.
    initial: A3, items resident before t = 0. The policy is offered them one by one (a shut gate may refuse), OPT
      starts with them.
    additive: A4, the constant b of "COST <= c OPT + b", taken off COST before a ratio is formed.
    fires: A5, `at_least` for c >= tau, `above` for c > tau, in the gates of threshold `fixed`.
    resident_arrival: A6, an arrival that is resident already `resets` a gate that fires (the release) or is `ignored`.
    fill: A7, what a gate admits while the cache fills up; `policy` leaves it as the policy says.
    overshoot: A8, what c exceeds tau by when the gate fires is `discarded` (c = 0) or `carried` (c - tau).
    touch: what counts as an access: everything `retrieved` (the release), or only `liked` answers of quality >= 1/2,
      which is what "used" means in paging.

    Raises:
      TheoryError: a value that is none of these.
    """

    fill_free: bool = False
    actions: str = "online"
    initial: tuple[int, ...] = ()
    additive: float = 0.0
    fires: str = "at_least"
    resident_arrival: str = "resets"
    fill: str = "policy"
    overshoot: str = "discarded"
    touch: str = "retrieved"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise TheoryError(f"{name} = {getattr(self, name)!r} is not one of {', '.join(allowed)}")
        object.__setattr__(self, "initial", tuple(int(i) for i in self.initial))
        if not np.isfinite(self.additive) or self.additive < 0:
            raise TheoryError(f"additive = {self.additive} must be finite and >= 0")
        if self.fill_free and self.actions != "online":
            raise TheoryError("fill_free needs actions = online: the other classes have no step that only fills")


@dataclass(frozen=True)
class Batch:
    """B instances of one shape, as arrays; an instance is a batch of one.

    relevance: `[B, Q, N]` grades in [0, 1].      similarity: `[B, Q, N]` cosines in [-1, 1]: they rank.
    query: `[B, T]` row, NO_QUERY if none.         arrival: `[B, T]` item, NO_ITEM if none.
    lam: `[B]` switching cost >= 0.                item_similarity: `[B, N, N]`, None for orthogonal items.
    capacity: K.      k: retrieval depth.          quality: one of QUALITIES.
    names: a label each.

    Numbers are rounded to float32 on construction (and kept as float64), because the engine sees float32: policy and
    OPT then pay the very same losses. Items of equal similarity to a query must be equally relevant to it, so that a
    loss depends on the content alone; the engine's tie rule then changes no cost.

    Raises:
      TheoryError: a field is malformed; the message names it, its value and what is allowed.
    """

    relevance: np.ndarray
    similarity: np.ndarray
    query: np.ndarray
    arrival: np.ndarray
    lam: np.ndarray
    capacity: int
    k: int = 1
    quality: str = "hit"
    item_similarity: np.ndarray | None = None
    conventions: Conventions = field(default_factory=Conventions)
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name, low in (("relevance", 0), ("similarity", -1)):
            put(self, name, _table(name, getattr(self, name), low))
        size, queries, items = self.relevance.shape
        if self.similarity.shape != self.relevance.shape:
            raise TheoryError(f"similarity {self.similarity.shape} and relevance {self.relevance.shape} must agree")
        put(self, "query", _index("query", self.query, size, queries, NO_QUERY))
        put(self, "arrival", _index("arrival", self.arrival, size, items, NO_ITEM))
        if self.query.shape != self.arrival.shape:
            raise TheoryError(f"query {self.query.shape} and arrival {self.arrival.shape} need one entry per step")
        lam = np.broadcast_to(np.asarray(self.lam, np.float64), (size,)).copy()
        if not np.isfinite(lam).all() or (lam < 0).any():
            raise TheoryError(f"lam = {lam[~np.isfinite(lam) | (lam < 0)][0]} must be finite and >= 0")
        put(self, "lam", lam)
        if not 1 <= self.capacity <= items:
            raise TheoryError(f"capacity K = {self.capacity} is out of range; allowed are 1..N = {items}")
        if self.k < 1:
            raise TheoryError(f"k = {self.k} must be >= 1")
        if self.quality not in QUALITIES:
            raise TheoryError(f"quality {self.quality!r} is not one of {', '.join(QUALITIES)}")
        if self.item_similarity is not None:
            near = _table("item_similarity", self.item_similarity, -1)
            if near.shape != (size, items, items):
                raise TheoryError(f"item_similarity {near.shape} must be {(size, items, items)}")
            if not np.allclose(near, near.swapaxes(1, 2), atol=1e-6):
                raise TheoryError("item_similarity must be symmetric: a cosine has no direction")
            # To the bit, as the engine's tables are.
            put(self, "item_similarity", np.tril(near) + np.tril(near, -1).swapaxes(1, 2))
        start = self.conventions.initial
        if len(set(start)) < len(start) or len(start) > self.capacity or any(not 0 <= i < items for i in start):
            raise TheoryError(
                f"initial = {start} must be at most K = {self.capacity} different items of 0..{items - 1}"
            )
        put(self, "names", tuple(self.names) or ("instance",) * size)
        if len(self.names) != size:
            raise TheoryError(f"names needs {size} entries, got {len(self.names)}")
        _check_ties(self)

    def __len__(self) -> int:
        return len(self.query)

    @property
    def num_items(self) -> int:
        """N."""
        return self.relevance.shape[2]

    @property
    def num_steps(self) -> int:
        """T."""
        return self.query.shape[1]

    def take(self, index: Any) -> Batch:
        """The instances `index` (a number, a slice or a list of numbers)."""
        pick = np.atleast_1d(np.arange(len(self))[index])
        near = None if self.item_similarity is None else self.item_similarity[pick]
        return replace(
            self,
            relevance=self.relevance[pick],
            similarity=self.similarity[pick],
            query=self.query[pick],
            arrival=self.arrival[pick],
            lam=self.lam[pick],
            item_similarity=near,
            names=tuple(self.names[i] for i in pick),
        )

    @staticmethod
    def concat(parts: Sequence[Batch]) -> Batch:
        """The instances of all parts, which must agree in shape, K, k, quality and conventions.

        Raises:
          TheoryError: they do not.
        """
        first = parts[0]
        for part in parts[1:]:
            for name in ("capacity", "k", "quality", "conventions"):
                if getattr(part, name) != getattr(first, name):
                    raise TheoryError(f"instances differ in {name}: {getattr(first, name)}, {getattr(part, name)}")
            if part.relevance.shape[1:] != first.relevance.shape[1:] or part.num_steps != first.num_steps:
                raise TheoryError("instances differ in shape")
        near = None
        if any(p.item_similarity is not None for p in parts):
            near = np.concatenate([item_similarities(p) for p in parts])
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(p, name) for p in parts])
            for name in ("relevance", "similarity", "query", "arrival", "lam")
        }
        names = tuple(n for p in parts for n in p.names)
        return replace(first, **arrays, item_similarity=near, names=names)


def item_similarities(batch: Batch) -> np.ndarray:
    """`[B, N, N]` cosines between items; the identity where the batch says nothing."""
    if batch.item_similarity is not None:
        return batch.item_similarity
    return np.broadcast_to(np.eye(batch.num_items), (len(batch), batch.num_items, batch.num_items))


def instance(
    relevance: Any, query: Any, arrival: Any, capacity: int, lam: float, *, name: str = "instance", **more: Any
) -> Batch:
    """A batch of one from arrays without the batch axis.

    Args:
      relevance: `[Q, N]`.   query, arrival: `[T]`.
      **more: other fields of `Batch`; `similarity [Q, N]` is `relevance` if not given.
    """
    known = {f.name for f in fields(Batch)}
    unknown = set(more) - known
    if unknown:
        raise TheoryError(f"unknown field {sorted(unknown)[0]!r} of an instance (known: {', '.join(sorted(known))})")
    more.setdefault("similarity", relevance)
    for axis in ("similarity", "item_similarity"):
        if more.get(axis) is not None:
            more[axis] = np.asarray(more[axis])[None]
    return Batch(
        relevance=np.asarray(relevance)[None],
        query=np.asarray(query)[None],
        arrival=np.asarray(arrival)[None],
        lam=np.asarray([lam], np.float64),
        capacity=capacity,
        names=(name,),
        **more,
    )


def _table(name: str, values: Any, low: float) -> np.ndarray:
    values = np.asarray(values, np.float64)
    if values.ndim != 3:
        raise TheoryError(f"{name} must have three axes [instances, rows, items], got shape {values.shape}")
    if not np.isfinite(values).all():
        raise TheoryError(f"{name} holds {values[~np.isfinite(values)][0]}; it must be finite")
    bad = (values < low - 1e-6) | (values > 1 + 1e-6)
    if bad.any():
        raise TheoryError(f"{name} holds {values[bad][0]}; allowed are {low}..1")
    return np.clip(values, low, 1).astype(np.float32).astype(np.float64)


def _index(name: str, values: Any, size: int, count: int, none: int) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 2 or len(values) != size or values.shape[1] == 0:
        raise TheoryError(f"{name} must be [{size}, steps >= 1], got shape {values.shape}")
    if not np.issubdtype(values.dtype, np.integer):
        raise TheoryError(f"{name} must hold whole numbers, got {values.dtype}")
    bad = (values < none) | (values >= count)
    if bad.any():
        raise TheoryError(f"{name} holds {values[bad][0]}; allowed are 0..{count - 1}, or {none} for none")
    return values.astype(np.int32)


def _check_ties(batch: Batch) -> None:
    if batch.quality in ("max_similarity", "mean_similarity") or batch.similarity is batch.relevance:
        return
    order = np.argsort(-batch.similarity, axis=2, kind="stable")
    near = np.take_along_axis(batch.similarity, order, axis=2)
    grade = np.take_along_axis(batch.relevance, order, axis=2)
    bad = (np.diff(near, axis=2) == 0) & (np.diff(grade, axis=2) != 0)
    if bad.any():
        b, q, _ = np.argwhere(bad)[0]
        raise TheoryError(
            f"{batch.names[b]}: query {q} has items of equal similarity and unequal relevance; "
            "its loss would depend on the order of insertion"
        )
