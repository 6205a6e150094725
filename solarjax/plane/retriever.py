"""Retrieval over time: what holds at an instant, ranked by words and by meaning, within one tenant and one snapshot.

The two rankings are fused by reciprocal ranks (Cormack, Clarke and Buettcher, SIGIR 2009): `sum_i w_i / (60 + rank_i)`.
Ranks, unlike BM25 scores and cosines, need no common scale. Validity is part of both queries, never a filter
afterwards, so ended versions cannot crowd out those that hold.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, Field
from sqlalchemy import Connection, text

from solarjax.plane import versions
from solarjax.plane.capsules import MAX_EPOCH, Capsule, Kind, Label, Strict, Text
from solarjax.plane.clock import Clock, to_datetime, to_micros
from solarjax.plane.database import Database
from solarjax.plane.encoding import Encoder
from solarjax.plane.textindex import MAX_QUERY_WORDS, text_index, words
from solarjax.plane.vectors import Embedded, VectorIndex, valid_among
from solarjax.plane.versions import TenantState

RANK_OFFSET = 60
"""k of reciprocal rank fusion, the paper's value: how little the very first ranks stand out."""
_DEPTH = 4
"""Each ranking contributes this many times the number of results asked for."""


class Query(Strict):
    """A search.

    Attributes:
      text: words and meaning to look for.
      as_of: instant of validity, default now. epoch: as the catalogue knew it then, default now.
      kind, entity: only versions of this kind, naming this entity.
      weight_words, weight_meaning: of the two rankings; 0 switches one off.
    """

    text: Annotated[Text, Field(min_length=1, max_length=10_000)]
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    as_of: AwareDatetime | None = None
    epoch: Annotated[int, Field(ge=0, le=MAX_EPOCH)] | None = None
    kind: Kind | None = None
    entity: Label | None = None
    weight_words: Annotated[float, Field(ge=0, le=1000)] = 1.0
    weight_meaning: Annotated[float, Field(ge=0, le=1000)] = 1.0


class Hit(BaseModel):
    """A version found. `score` is the fused one; ranks count from 1, None where that ranking did not find it."""

    capsule: Capsule
    score: float
    word_rank: int | None
    meaning_rank: int | None
    cosine: float | None


class Found(BaseModel):
    """Hits, best first, and the snapshot they are from: it can be fenced like any admission."""

    epoch: int
    at: datetime
    hits: tuple[Hit, ...]


class Retriever:
    """Searches a catalogue's database.

    Args:
      database: the catalogue's.
      clock: its clock.
      encoder: for the ranking by meaning; None for words only.
    """

    def __init__(self, database: Database, clock: Clock, encoder: Encoder | None = None):
        self._database = database
        self._clock = clock
        self._encoder = encoder
        self._index = VectorIndex()

    def search(self, tenant: str, query: Query) -> Found:
        """Raises NotFound for an unknown tenant."""
        # Encoding takes milliseconds; it must not hold a snapshot open.
        meaning = None
        if self._encoder is not None and query.weight_meaning:
            (meaning,) = self._encoder.embed([query.text])

        def work(connection: Connection) -> Found:
            state = versions.tenant_state(connection, tenant)
            at = to_micros(query.as_of, self._clock())
            condition, values = _condition(state, query, at)
            by_words = self._by_words(connection, state, query, condition, values) if query.weight_words else []
            by_meaning: list[tuple[int, float]] = []
            if meaning is not None:
                by_meaning = self._by_meaning(connection, state, query, meaning, condition, values)
            return Found(
                epoch=state.epoch, at=to_datetime(at), hits=_fuse(connection, query, at, by_words, by_meaning)
            )  # fmt: skip

        return self._database.read(work)

    def _by_words(
        self, connection: Connection, state: TenantState, query: Query, condition: str, values: dict[str, Any]
    ) -> list[int]:
        terms = list(dict.fromkeys(words(query.text)))[:MAX_QUERY_WORDS]
        if not terms:
            return []
        index = text_index(connection)
        source, match, score = index.ranked(state.tid)
        statement = text(
            f"SELECT v.vid FROM {source} JOIN version v ON v.vid = hit.vid WHERE {match} AND {condition} "
            f"ORDER BY {score} DESC, v.vid LIMIT :depth"
        )
        bound = values | {"words": index.query(terms), "depth": _DEPTH * query.limit}
        return list(connection.execute(statement, bound).scalars())

    def _by_meaning(
        self,
        connection: Connection,
        state: TenantState,
        query: Query,
        meaning: Embedded,
        condition: str,
        values: dict[str, Any],
    ) -> list[tuple[int, float]]:
        valid = valid_among(connection, condition, values)
        return self._index.search(connection, state, meaning, _DEPTH * query.limit, valid)


def _condition(state: TenantState, query: Query, at: int) -> tuple[str, dict[str, Any]]:
    parts = ["v.tid = :tid", versions.HOLDS if query.epoch is None else versions.HELD]
    values: dict[str, Any] = {"tid": state.tid, "at": at}
    if query.epoch is not None:
        values["epoch"] = query.epoch
    if query.kind is not None:
        parts.append("v.kind = :kind")
        values["kind"] = query.kind
    if query.entity is not None:
        parts.append("EXISTS (SELECT 1 FROM entity n WHERE n.tid = :tid AND n.name = :entity AND n.vid = v.vid)")
        values["entity"] = query.entity
    # Erased versions have no content to find, also as of the past.
    parts.append("v.erased_epoch IS NULL")
    return " AND ".join(parts), values


def _fuse(
    connection: Connection, query: Query, at: int, by_words: list[int], by_meaning: list[tuple[int, float]]
) -> tuple[Hit, ...]:
    word_rank = {vid: rank for rank, vid in enumerate(by_words, 1)}
    meaning_rank = {vid: rank for rank, (vid, _) in enumerate(by_meaning, 1)}
    cosine = dict(by_meaning)
    scores: dict[int, float] = {}
    for ranks, weight in ((word_rank, query.weight_words), (meaning_rank, query.weight_meaning)):
        for vid, rank in ranks.items():
            scores[vid] = scores.get(vid, 0.0) + weight / (RANK_OFFSET + rank)
    best = sorted(scores, key=lambda vid: (-scores[vid], vid))[: query.limit]
    capsules = versions.load(connection, best, at)
    return tuple(
        Hit(
            capsule=capsule, score=scores[vid], word_rank=word_rank.get(vid), meaning_rank=meaning_rank.get(vid),
            cosine=cosine.get(vid),
        )
        for vid, capsule in zip(best, capsules, strict=True)
    )  # fmt: skip
