"""Embeddings of versions and exact nearest-neighbour search over them.

The vectors of a tenant are one matrix in memory, extended by what was written since; a search is one matrix-vector
product, exact, and fast enough for what one tenant remembers (100,000 vectors of 384 numbers: 150 MB, some 10 ms). An
approximate index would return fewer than k valid results whenever many neighbours have ended.

What the matrix holds never decides what is returned: every candidate is checked against the snapshot of the search,
so a matrix that is behind or ahead of it cannot leak an ended, erased or foreign version.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, bindparam, insert, select, text

from solarjax.plane import tables as t
from solarjax.plane import versions
from solarjax.plane.errors import Invalid
from solarjax.plane.versions import TenantState

_RESIDENT_TENANTS = 16


@dataclass(frozen=True)
class Embedded:
    """A vector and the fingerprint of the model that made it: vectors of two models are never compared.

    values: `[D] f32`, unit length.
    """

    model: str
    values: np.ndarray

    @classmethod
    def unit(cls, model: str, values: Sequence[float] | np.ndarray) -> Embedded:
        """Scales to unit length.

        Raises:
          Invalid: unless the values are finite and not all zero.
        """
        row = np.asarray(values, np.float32)
        length = float(np.linalg.norm(row)) if row.ndim == 1 and row.size else float("nan")
        if not np.isfinite(length) or length == 0.0:
            raise Invalid("an embedding needs finite numbers that are not all zero", "embedding")
        return cls(model, row / np.float32(length))


def put(connection: Connection, tid: int, vid: int, vector: Embedded | None) -> None:
    """Stores the vector of a version, if there is one."""
    if vector is not None:
        row = {"tid": tid, "model": vector.model, "vid": vid, "vector": np.asarray(vector.values, "<f4").tobytes()}
        connection.execute(insert(t.embedding), row)


def copy(connection: Connection, tid: int, source: int, target: int) -> None:
    """Gives a version the vectors of another one with the same content."""
    chosen = select(t.embedding.c.model, t.embedding.c.vector).where(t.embedding.c.vid == source)
    rows = [{"tid": tid, "model": r.model, "vid": target, "vector": r.vector} for r in connection.execute(chosen)]
    if rows:
        connection.execute(insert(t.embedding), rows)


class _Matrix:
    """Vectors of one tenant and model, in the order they were written."""

    def __init__(self, purge_epoch: int):
        self.purge_epoch = purge_epoch
        self.last_eid = 0
        self.vids = np.empty(0, np.int64)
        self.rows: np.ndarray | None = None  # [n, D] f32

    def extend(self, connection: Connection, tid: int, model: str) -> None:
        """Reads what was written since, in the caller's snapshot."""
        query = (
            select(t.embedding.c.eid, t.embedding.c.vid, t.embedding.c.vector)
            .where(t.embedding.c.tid == tid, t.embedding.c.model == model, t.embedding.c.eid > self.last_eid)
            .order_by(t.embedding.c.eid)
        )
        new = connection.execute(query).all()
        if not new:
            return
        rows = np.stack([np.frombuffer(r.vector, "<f4") for r in new]).astype(np.float32)
        self.vids = np.concatenate([self.vids, np.array([r.vid for r in new], np.int64)])
        self.rows = rows if self.rows is None else np.concatenate([self.rows, rows])
        self.last_eid = new[-1].eid


class VectorIndex:
    """Exact search; keeps the matrices of the tenants searched last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._matrices: OrderedDict[tuple[int, str], _Matrix] = OrderedDict()

    def search(
        self,
        connection: Connection,
        state: TenantState,
        query: Embedded,
        limit: int,
        valid: Callable[[Sequence[int]], set[int]],
    ) -> list[tuple[int, float]]:
        """The nearest valid versions, by falling cosine, ties by row id.

        Args:
          connection: the snapshot of this search.
          valid: which of some row ids may be returned, as that snapshot has it.

        Returns:
          At most `limit` pairs of row id and cosine.

        Raises:
          Invalid: if the query has another number of dimensions than the stored vectors.
        """
        with self._lock:
            matrix = self._matrix(connection, state, query.model)
            vids, rows = matrix.vids, matrix.rows
        if rows is None:
            return []
        if rows.shape[1] != query.values.shape[0]:
            raise Invalid(
                f"the query has {query.values.shape[0]} dimensions, the stored vectors {rows.shape[1]}", "query"
            )
        cosine = rows @ query.values
        order = np.lexsort((vids, -cosine))
        found: list[tuple[int, float]] = []
        # Most candidates hold, so the first portion is usually the last; when many ended, all are looked through.
        size, begin = max(4 * limit, 64), 0
        while begin < len(order) and len(found) < limit:
            part = order[begin : begin + size]
            alive = valid([int(v) for v in vids[part]])
            found.extend((int(vids[i]), float(cosine[i])) for i in part if int(vids[i]) in alive)
            begin, size = begin + size, size * 4
        return found[:limit]

    def _matrix(self, connection: Connection, state: TenantState, model: str) -> _Matrix:
        key = state.tid, model
        matrix = self._matrices.pop(key, None)
        # Erasure takes rows out of the middle; a matrix from before it would keep erased vectors in memory.
        if matrix is None or matrix.purge_epoch != state.purge_epoch:
            matrix = _Matrix(state.purge_epoch)
        matrix.extend(connection, state.tid, model)
        self._matrices[key] = matrix
        while len(self._matrices) > _RESIDENT_TENANTS:
            self._matrices.popitem(last=False)
        return matrix


def valid_among(
    connection: Connection, condition: str, values: dict[str, object]
) -> Callable[[Sequence[int]], set[int]]:
    """The test `VectorIndex.search` needs, for an SQL condition over version `v`."""
    query = text(f"SELECT v.vid FROM version v WHERE v.vid IN :vids AND {condition}").bindparams(
        bindparam("vids", expanding=True)
    )

    def valid(vids: Sequence[int]) -> set[int]:
        found: set[int] = set()
        for part in versions.chunks(vids):
            found.update(connection.execute(query, {"vids": part, **values}).scalars())
        return found

    return valid
