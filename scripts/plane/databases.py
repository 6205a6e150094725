"""Empty databases to measure on: SQLite files, and schemas of the PostgreSQL that `scripts/with_postgres` starts."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

VARIABLE = "SOLARJAX_TEST_POSTGRES"


def available() -> tuple[str, ...]:
    """`sqlite`, and `postgresql` if the variable names one."""
    return ("sqlite", "postgresql") if os.environ.get(VARIABLE) else ("sqlite",)


@contextmanager
def empty(database: str, folder: Path) -> Iterator[str]:
    """The URL of an empty database.

    Args:
      database: one of `available`.  folder: for SQLite's file, which stays there.
    """
    name = f"t{uuid.uuid4().hex[:12]}"
    if database == "sqlite":
        yield str(folder / f"{name}.db")
        return
    url = os.environ[VARIABLE]
    _run(url, f"CREATE SCHEMA {name}")
    try:
        yield f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{name}"
    finally:
        _run(url, f"DROP SCHEMA {name} CASCADE")


def forces_commits() -> bool:
    """Whether the PostgreSQL of the variable forces commits to disk; that of `scripts/with_postgres` does not."""
    engine = create_engine(_driver(os.environ[VARIABLE]), poolclass=NullPool)
    with engine.connect() as connection:
        return connection.execute(text("SHOW fsync")).scalar_one() == "on"


def _run(url: str, statement: str) -> None:
    engine = create_engine(_driver(url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text(statement))


def _driver(url: str) -> str:
    return url.replace("postgresql:", "postgresql+psycopg:", 1)
