"""Constant SQL for hot paths, run on the driver's own cursor.

SQLAlchemy's machinery costs some 100 microseconds a statement, several times what SQLite needs for it, and a correction
is seven statements. These run inside the same transaction of the same SQLAlchemy connection, so that nothing else is
different: errors are those of SQLAlchemy too. Both drivers keep a statement prepared by its text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError

_NAME = re.compile(r"(?<![:\w]):(\w+)")
_KEPT = 1000
"""Texts of one statement kept, for as many lengths of its lists."""
Row = tuple[Any, ...]


class Statement:
    """One statement with `:name` parameters.

    Args:
      sql: constant text; nothing of a caller's is ever put into it. `:name*` stands for a list: it becomes as many
        parameters as the list has values (at least one).
    """

    def __init__(self, sql: str):
        self._sql = sql
        self._lists = tuple(dict.fromkeys(re.findall(r":(\w+)\*", sql)))
        self._texts: dict[tuple[Any, ...], str] = {}

    def run(self, connection: Connection, values: dict[str, Any]) -> Any:
        """Executes; returns the driver's cursor (`fetchone`, `fetchall`, `rowcount`)."""
        sizes: tuple[int, ...] = ()
        if self._lists:
            values = dict(values)
            for name in self._lists:
                items = values.pop(name)
                values.update({f"{name}{i}": item for i, item in enumerate(items)})
                sizes += (len(items),)
        key = (connection.dialect.name, sizes)
        text = self._texts.get(key)
        if text is None:
            text = _text(self._sql, key[0], dict(zip(self._lists, sizes, strict=True)))
            if len(self._texts) < _KEPT:
                self._texts[key] = text
        cursor = connection.connection.driver_connection.cursor()  # type: ignore[union-attr]
        try:
            cursor.execute(text, values)
        except connection.dialect.loaded_dbapi.Error as error:
            raise _wrapped(connection, text, values, error) from error
        return cursor

    def many(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Executes once for each of some rows of values; not with lists."""
        text = _text(self._sql, connection.dialect.name, {})
        cursor = connection.connection.driver_connection.cursor()  # type: ignore[union-attr]
        try:
            cursor.executemany(text, rows)
        except connection.dialect.loaded_dbapi.Error as error:
            raise _wrapped(connection, text, rows, error) from error

    def row(self, connection: Connection, values: dict[str, Any]) -> Row | None:
        """The first row, or None."""
        return self.run(connection, values).fetchone()

    def rows(self, connection: Connection, values: dict[str, Any]) -> list[Row]:
        """All rows."""
        return self.run(connection, values).fetchall()


def inserting(table: Table, *, without: Sequence[str] = (), returning: str | None = None) -> Statement:
    """An insert of one row into a table of the schema.

    Args:
      without: columns that the database fills. returning: column to return.
    """
    names = [column.name for column in table.columns if column.name not in without]
    end = f" RETURNING {returning}" if returning else ""
    return Statement(
        f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)}){end}"
    )  # fmt: skip


def _wrapped(connection: Connection, text: str, values: Any, error: Any) -> Exception:
    """What SQLAlchemy would have raised; a connection that is lost leaves the pool."""
    dialect = connection.dialect
    lost = dialect.is_disconnect(error, connection.connection.dbapi_connection, None)
    found = DBAPIError.instance(
        text, values, error, dialect.loaded_dbapi.Error, connection_invalidated=lost, dialect=dialect
    )
    if lost:
        connection.invalidate(error)
    return found


def _text(sql: str, dialect: str, sizes: dict[str, int]) -> str:
    for name, size in sizes.items():
        sql = sql.replace(f":{name}*", ", ".join(f":{name}{i}" for i in range(size)))
    return sql if dialect == "sqlite" else _NAME.sub(r"%(\1)s", sql.replace("%", "%%"))


@lru_cache(maxsize=1024)
def statement(sql: str) -> Statement:
    """The statement of a text that is made from a number, such as the name of a tenant's table."""
    return Statement(sql)
