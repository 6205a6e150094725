"""Schema changes: small, named, applied in order, each in one transaction together with its bookkeeping row.

A migration that has shipped is never edited. What is done and recorded cannot come apart, so a start that was killed in
the middle of an upgrade continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Connection, MetaData, Table, Text, insert, select, text

from solarjax.plane import tables
from solarjax.plane.clock import Clock, system_clock
from solarjax.plane.database import Database
from solarjax.plane.errors import DatabaseError
from solarjax.plane.textindex import text_index


class Migration(NamedTuple):
    """A name, forever, and the change."""

    name: str
    apply: Callable[[Connection], None]


migration = Table(
    "migration", MetaData(), Column("name", Text, primary_key=True), Column("applied_at", BigInteger, nullable=False)
)
# Any fixed number: starting processes queue on it while they look at the bookkeeping.
_POSTGRES_LOCK = 0x504C414E45


def _create(*names: str) -> Callable[[Connection], None]:
    def apply(connection: Connection) -> None:
        for name in names:
            tables.METADATA.tables[name].create(connection)

    return apply


MIGRATIONS = (
    Migration("0001_versions", _create("tenant", "version", "ending", "edge", "entity")),
    Migration("0002_artifacts", _create("artifact", "artifact_source", "embedding")),
    Migration("0003_events", _create("event", "idempotency")),
    Migration("0004_tokens", _create("token")),
    Migration("0005_text_index", lambda connection: text_index(connection).create(connection)),
)


def migrate(
    database: Database, *, clock: Clock = system_clock, migrations: tuple[Migration, ...] = MIGRATIONS
) -> list[str]:
    """Brings the schema up to date; several processes may do so at once.

    Returns:
      The names of the migrations that were applied now.

    Raises:
      DatabaseError: if the database has migrations that this program does not know: it was used by a newer one.
    """
    applied = []
    for step in migrations:

        def work(connection: Connection, step: Migration = step) -> bool:
            done = _done(connection)
            unknown = done - {m.name for m in migrations}
            if unknown:
                raise DatabaseError(
                    f"the catalogue has been changed by a newer version of solarjax ({', '.join(sorted(unknown))})"
                )
            if step.name in done:
                return False
            step.apply(connection)
            connection.execute(insert(migration).values(name=step.name, applied_at=clock()))
            return True

        if database.write(work):
            applied.append(step.name)
    return applied


def _done(connection: Connection) -> set[str]:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
    migration.create(connection, checkfirst=True)
    return set(connection.execute(select(migration.c.name)).scalars())
