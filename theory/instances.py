"""Instances as files and as engine traces."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from solarjax.core.trace import StepMode, Trace
from theory.errors import TheoryError
from theory.model import Batch, Conventions, instance
from theory.results import write_json

FIELDS = ("name", "relevance", "similarity", "query", "arrival", "lam", "capacity", "k", "quality", "conventions")
OPTIONAL = ("item_similarity",)


def to_json(batch: Batch) -> dict[str, Any]:
    """One instance as a JSON object. Numbers survive exactly: they are float32 values in decimal.

    Raises:
      TheoryError: the batch does not hold exactly one instance.
    """
    if len(batch) != 1:
        raise TheoryError(f"a file holds one instance, this batch has {len(batch)}")
    out: dict[str, Any] = {
        "name": batch.names[0],
        "relevance": batch.relevance[0].tolist(),
        "similarity": batch.similarity[0].tolist(),
        "query": batch.query[0].tolist(),
        "arrival": batch.arrival[0].tolist(),
        "lam": float(batch.lam[0]),
        "capacity": batch.capacity,
        "k": batch.k,
        "quality": batch.quality,
        "conventions": dataclasses.asdict(batch.conventions) | {"initial": list(batch.conventions.initial)},
    }
    if batch.item_similarity is not None:
        out["item_similarity"] = batch.item_similarity[0].tolist()
    return out


def from_json(data: Any, where: str = "instance") -> Batch:
    """The instance that `to_json` wrote.

    Raises:
      TheoryError: missing or unknown fields, or values that no instance may have.
    """
    if not isinstance(data, Mapping):
        raise TheoryError(f"{where}: expected an object, got {type(data).__name__}")
    wrong = (set(FIELDS) - set(data)) | (set(data) - set(FIELDS) - set(OPTIONAL))
    if wrong:
        raise TheoryError(f"{where}: fields {sorted(wrong)} are missing or unknown")
    try:
        known = {f.name for f in dataclasses.fields(Conventions)}
        unknown = set(data["conventions"]) - known
        if unknown:
            raise TheoryError(f"unknown conventions {sorted(unknown)} (known: {', '.join(sorted(known))})")
        values = dict(data) | {"conventions": Conventions(**data["conventions"])}
        arrays: dict[str, Any] = {name: np.asarray(values.pop(name), np.int64) for name in ("query", "arrival")}
        return instance(**arrays, **values)
    except (TheoryError, TypeError, ValueError, OverflowError) as error:
        raise TheoryError(f"{where}: {error}") from error


def save(path: Path, batch: Batch) -> None:
    """Writes one instance, complete or not at all."""
    write_json(path, to_json(batch))


def read_json(path: Path) -> Any:
    """The JSON value in `path`.

    Raises:
      TheoryError: it cannot be read or is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise TheoryError(f"{path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TheoryError(f"{path}: not a JSON file ({error})") from error


def load(path: Path) -> Batch:
    """The instance in `path`; raises TheoryError with the reason if there is none."""
    return from_json(read_json(path), str(path))


def to_trace(batch: Batch) -> Trace:
    """One instance with orthogonal items as an engine trace, e.g. for `solarjax run --trace`.

    Items become the axes of a space with one more dimension, and a query is the vector of its cosines; what is missing
    to length 1 goes into the extra dimension.

    Raises:
      TheoryError: several instances, items that are not orthogonal, or cosines of a query with a norm above 1 (no unit
        vector has them; where cosines only rank, scale them down first).
    """
    if len(batch) != 1:
        raise TheoryError(f"a trace holds one instance, this batch has {len(batch)}")
    if batch.item_similarity is not None and not np.allclose(batch.item_similarity[0], np.eye(batch.num_items)):
        raise TheoryError(f"{batch.names[0]}: the items are not orthogonal")
    near = batch.similarity[0]
    norm = (near**2).sum(axis=1)
    if (norm > 1 + 1e-6).any():
        row = int(norm.argmax())
        raise TheoryError(f"{batch.names[0]}: query {row} has cosines of norm {norm[row] ** 0.5:.3g}, allowed is 1")
    rest = np.sqrt(np.maximum(1 - norm, 0))
    items = np.eye(batch.num_items, batch.num_items + 1, dtype=np.float32)
    relevant = batch.relevance[0] > 0
    start = batch.conventions.initial
    return Trace(
        name=batch.names[0],
        items=items,
        queries=np.concatenate([near, rest[:, None]], axis=1).astype(np.float32),
        query=np.concatenate([np.full(len(start), -1, np.int32), batch.query[0]]),
        arrival=np.concatenate([np.array(start, np.int32), batch.arrival[0]]),
        mode=np.array([StepMode.PREFILL] * len(start) + [StepMode.SCORED] * batch.num_steps, np.uint8),
        relevant_indptr=np.concatenate([[0], relevant.sum(axis=1).cumsum()]),
        relevant_indices=np.nonzero(relevant)[1].astype(np.int32),
        relevant_grade=batch.relevance[0][relevant].astype(np.float32),
    )
