"""Full-text search with the same words and the same matches on both databases.

Words are cut here (runs of letters and digits, case folded), so SQLite's and PostgreSQL's own parsers never decide.
A query matches a version that has at least one of its words; only the ranking formula differs: BM25 on SQLite,
`ts_rank` on PostgreSQL.

On SQLite every tenant has an FTS5 table of its own. BM25 weighs words by how rare they are in the whole table, so in a
shared one a tenant could read other tenants' vocabulary off its own scores. PostgreSQL's rank uses no such statistics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from sqlalchemy import Connection, bindparam, text

from solarjax.plane.statements import Statement, statement

_WORD = re.compile(r"[^\W_]+")
_LONGEST_WORD = 100  # PostgreSQL refuses lexemes above 2 kB; no word of a language is near
MAX_QUERY_WORDS = 64
_ADD_DOCUMENT = Statement(
    "INSERT INTO search_document (vid, tid, words) VALUES (:vid, :tid, array_to_tsvector(CAST(:words AS TEXT[])))"
)


def words(value: str) -> list[str]:
    """The words of a text, in order, case folded; overlong ones are cut."""
    return [word[:_LONGEST_WORD] for word in _WORD.findall(value.casefold())]


class TextIndex(Protocol):
    """What the catalogue needs of a text index; every method runs inside the caller's transaction."""

    def create(self, connection: Connection) -> None:
        """Makes what is shared by all tenants."""
        ...

    def add_tenant(self, connection: Connection, tid: int) -> None:
        """Makes what a new tenant needs."""
        ...

    def add(self, connection: Connection, tid: int, vid: int, document: str) -> None:
        """Indexes a version."""
        ...

    def remove(self, connection: Connection, tid: int, vids: Sequence[int]) -> None:
        """Forgets versions, their words included."""
        ...

    def clear(self, connection: Connection, tids: Iterable[int]) -> None:
        """Forgets all versions of all tenants; `tids` are those there are."""
        ...

    def ranked(self, tid: int) -> tuple[str, str, str]:
        """(FROM item `hit`, WHERE condition over the bind `:words`, score expression: larger is better).
        `hit.vid` is the version."""
        ...

    def query(self, terms: Sequence[str]) -> str:
        """The value of the bind `:words` for a search after any of these words."""
        ...


class Fts5Index:
    """SQLite FTS5, one table a tenant."""

    def create(self, connection: Connection) -> None:
        """Nothing is shared."""

    def add_tenant(self, connection: Connection, tid: int) -> None:
        """Makes the tenant's table."""
        connection.execute(
            text(f"CREATE VIRTUAL TABLE {_fts(tid)} USING fts5(body, tokenize = 'unicode61 remove_diacritics 0')")
        )

    def add(self, connection: Connection, tid: int, vid: int, document: str) -> None:
        """Indexes a version."""
        add = statement(f"INSERT INTO {_fts(tid)} (rowid, body) VALUES (:vid, :body)")
        add.run(connection, {"vid": vid, "body": " ".join(words(document))})

    def remove(self, connection: Connection, tid: int, vids: Sequence[int]) -> None:
        """Forgets versions; `optimize` rewrites the index, so that their words leave the file too."""
        table = _fts(tid)
        for vid in vids:
            connection.execute(text(f"DELETE FROM {table} WHERE rowid = :vid"), {"vid": vid})
        if vids:
            connection.execute(text(f"INSERT INTO {table} ({table}) VALUES ('optimize')"))

    def clear(self, connection: Connection, tids: Iterable[int]) -> None:
        """Drops the tenants' tables."""
        for tid in tids:
            connection.execute(text(f"DROP TABLE IF EXISTS {_fts(tid)}"))

    def ranked(self, tid: int) -> tuple[str, str, str]:
        """See `TextIndex.ranked`. FTS5 gives smaller numbers to better matches."""
        table = _fts(tid)
        return (
            f"(SELECT rowid AS vid, -bm25({table}) AS score FROM {table} WHERE {table} MATCH :words) AS hit",
            "1 = 1",
            "hit.score",
        )

    def query(self, terms: Sequence[str]) -> str:
        """Quoted, so that no word is an operator."""
        return " OR ".join(f'"{term}"' for term in terms)


class PostgresIndex:
    """A `tsvector` per version under a GIN index."""

    def create(self, connection: Connection) -> None:
        """Makes the table; its rows go with their versions."""
        connection.execute(
            text(
                "CREATE TABLE search_document (vid BIGINT PRIMARY KEY REFERENCES version (vid) ON DELETE CASCADE, "
                "tid BIGINT NOT NULL, words TSVECTOR NOT NULL)"
            )
        )
        connection.execute(text("CREATE INDEX search_document_words ON search_document USING gin (words)"))

    def add_tenant(self, connection: Connection, tid: int) -> None:
        """Nothing is kept per tenant."""

    def add(self, connection: Connection, tid: int, vid: int, document: str) -> None:
        """Indexes a version. The array form takes the words as they are, without a parser."""
        _ADD_DOCUMENT.run(connection, {"vid": vid, "tid": tid, "words": sorted(set(words(document)))})

    def remove(self, connection: Connection, tid: int, vids: Sequence[int]) -> None:
        """Forgets versions."""
        if vids:
            connection.execute(
                text("DELETE FROM search_document WHERE vid IN :vids").bindparams(bindparam("vids", expanding=True)),
                {"vids": list(vids)},
            )

    def clear(self, connection: Connection, tids: Iterable[int]) -> None:
        """Empties the table."""
        connection.execute(text("DELETE FROM search_document"))

    def ranked(self, tid: int) -> tuple[str, str, str]:
        """See `TextIndex.ranked`."""
        return (
            "search_document AS hit",
            "hit.words @@ CAST(:words AS TSQUERY)",
            "ts_rank(hit.words, CAST(:words AS TSQUERY))",
        )

    def query(self, terms: Sequence[str]) -> str:
        """Quoted, so that no word is an operator."""
        return " | ".join(f"'{term}'" for term in terms)


def text_index(connection: Connection) -> TextIndex:
    """The index of this connection's database."""
    return Fts5Index() if connection.dialect.name == "sqlite" else PostgresIndex()


def _fts(tid: int) -> str:
    return f"words_of_{int(tid)}"
