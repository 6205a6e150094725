"""Makes a counterexample small while its ratio stays above a floor.

Edits are tried all at once, as a batch of the compiled size; those that keep the floor one by one are then applied
together as far as the floor allows. Steps go first, then queries and arrivals, then values (to 0, else to 1).

References:
  Zeller, Hildebrandt. Simplifying and isolating failure-inducing input. IEEE TSE 28(2), 2002 (delta debugging).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from solarjax.core.trace import NO_ITEM, NO_QUERY
from solarjax.policies.registry import PolicyCase
from theory.errors import TheoryError
from theory.model import Batch, item_similarities
from theory.search import score

CHUNK = 256
"""Instances scored at once."""


class Edit(NamedTuple):
    """kind: `step`, `query`, `arrival` (to remove), or `value`.   at: step, or row of the tables.   item, value: what a
    value becomes."""

    kind: str
    at: int
    item: int = 0
    value: float = 0.0


def minimise(
    case: PolicyCase, one: Batch, floor: float, *, keys: int = 1, root_key: int = 0, rounds: int = 40
) -> Batch:
    """A smaller instance whose ratio is still at least `floor`.

    Args:
      one: one instance.   keys, root_key: policy keys of every score.   rounds: passes over all edits, at most.

    Raises:
      TheoryError: several instances, or a ratio that is below the floor to begin with.
    """
    if len(one) != 1:
        raise TheoryError(f"one instance at a time, this batch has {len(one)}")
    first = float(_scores(case, [one], keys, root_key)[0])
    if first < floor:
        raise TheoryError(f"the ratio is {first:.6g}, below the floor {floor:.6g} already")
    for kinds in (("step",), ("query", "arrival"), ("step",), ("value",), ("step", "query", "arrival")):
        for _ in range(rounds):
            edits = [e for e in _edits(one) if e.kind in kinds]
            smaller = _best_prefix(case, one, edits, floor, keys, root_key)
            if smaller is None:
                break
            one = smaller
    return compress(one)


def compress(one: Batch) -> Batch:
    """The same instance without unused steps at the end, unused items and repeated rows; costs are unchanged.

    At least one step and K items stay.
    """
    used = (one.query[0] != NO_QUERY) | (one.arrival[0] != NO_ITEM)
    steps = max(1, int(used.nonzero()[0].max(initial=0)) + 1)
    query, arrival = one.query[0, :steps], one.arrival[0, :steps]
    there = sorted({int(a) for a in arrival if a != NO_ITEM} | set(one.conventions.initial))
    # An item that never arrives is never resident; it may matter to the relevance there is, so only all-zero ones go.
    there += [
        i
        for i in range(one.num_items)
        if i not in there and one.relevance[0, :, i].any() and one.quality in ("recall", "f1")
    ]
    there += [i for i in range(one.num_items) if i not in there][: max(0, one.capacity - len(there))]
    number = {item: n for n, item in enumerate(there)}
    rows = sorted({int(q) for q in query if q != NO_QUERY}) or [0]
    both = np.concatenate([one.relevance[0][rows][:, there], one.similarity[0][rows][:, there]], axis=1)
    unique, back = np.unique(both, axis=0, return_inverse=True)
    row_of = {q: int(n) for q, n in zip(rows, np.ravel(back), strict=True)}
    near = item_similarities(one)[:, there][:, :, there]
    return dataclasses.replace(
        one,
        relevance=unique[None, :, : len(there)],
        similarity=unique[None, :, len(there) :],
        query=np.array([[row_of[int(q)] if q != NO_QUERY else NO_QUERY for q in query]], np.int32),
        arrival=np.array([[number[int(a)] if a != NO_ITEM else NO_ITEM for a in arrival]], np.int32),
        item_similarity=None if one.item_similarity is None else near,
        conventions=dataclasses.replace(one.conventions, initial=tuple(number[i] for i in one.conventions.initial)),
    )


def _edits(one: Batch) -> list[Edit]:
    query, arrival = one.query[0], one.arrival[0]
    used = np.flatnonzero((query != NO_QUERY) | (arrival != NO_ITEM))
    steps = range(int(used.max(initial=-1)) + 1)
    edits = [Edit("step", t) for t in steps]
    edits += [Edit("query", t) for t in steps if query[t] != NO_QUERY]
    edits += [Edit("arrival", t) for t in steps if arrival[t] != NO_ITEM]
    if one.quality in ("max_similarity", "mean_similarity"):
        rows = sorted({int(q) for q in query if q != NO_QUERY})
        table = one.similarity[0]
        edits += [Edit("value", q, i, 0.0) for q in rows for i in range(one.num_items) if table[q, i] != 0]
        edits += [Edit("value", q, i, 1.0) for q in rows for i in range(one.num_items) if 0 < table[q, i] < 1]
    return edits


def _apply(one: Batch, edits: list[Edit]) -> Batch:
    query, arrival = one.query.copy(), one.arrival.copy()
    relevance, similarity = one.relevance.copy(), one.similarity.copy()
    gone = set()
    for edit in edits:
        if edit.kind == "step":
            gone.add(edit.at)
        elif edit.kind == "query":
            query[0, edit.at] = NO_QUERY
        elif edit.kind == "arrival":
            arrival[0, edit.at] = NO_ITEM
        else:
            similarity[0, edit.at, edit.item] = relevance[0, edit.at, edit.item] = edit.value
    # Shapes stay: what is left moves to the front, and empty steps fill the end.
    keep = [t for t in range(one.num_steps) if t not in gone]
    pad = (0, one.num_steps - len(keep))
    query = np.pad(query[0, keep], pad, constant_values=NO_QUERY)[None]
    arrival = np.pad(arrival[0, keep], pad, constant_values=NO_ITEM)[None]
    return dataclasses.replace(one, query=query, arrival=arrival, relevance=relevance, similarity=similarity)


def _scores(case: PolicyCase, ones: list[Batch], keys: int, root_key: int) -> np.ndarray:
    out = []
    for start in range(0, len(ones), CHUNK):
        part = ones[start : start + CHUNK]
        padded = Batch.concat(part + [part[-1]] * (CHUNK - len(part)))
        out.append(score(case, padded, keys, root_key)[: len(part)])
    return np.concatenate(out)


def _best_prefix(
    case: PolicyCase, one: Batch, edits: list[Edit], floor: float, keys: int, root_key: int
) -> Batch | None:
    """The instance after as many of the edits as keep the floor together; None if not even one does."""
    if not edits:
        return None
    alone = _scores(case, [_apply(one, [e]) for e in edits], keys, root_key)
    # Most harmless first. An infinite ratio means that OPT became 0: nothing is left of the instance then.
    good = [edits[i] for i in np.argsort(-alone, kind="stable") if floor <= alone[i] < np.inf]
    if not good:
        return None
    together = [_apply(one, good[: n + 1]) for n in range(len(good))]
    scores = _scores(case, together, keys, root_key)
    fits = np.flatnonzero((scores >= floor) & (scores < np.inf))
    return together[int(fits.max())]
