"""Backup and restore.

A backup is one SQLite file with the tables, whatever database the catalogue runs on, so a backup of one kind can be
restored into the other.

Nothing is destroyed before its replacement is proven. A backup is written beside its name, read back, compared with the
snapshot it was made from, and only then given its name. A restore checks the file, then replaces all rows in one
transaction, reads them back, compares, and only then commits; until that instant everybody sees the old catalogue.

What a restore must not bring back: epochs (they go on from the higher one, so that no fence and no subscriber is
deceived) and tokens that were revoked meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table, Text, create_engine, delete, insert, select, text, update
from sqlalchemy.pool import NullPool

from solarjax.plane import tables as t
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.errors import DatabaseError, Invalid
from solarjax.plane.migrations import migration
from solarjax.plane.reindex import rebuild_text
from solarjax.plane.results import WriteResult
from solarjax.plane.textindex import text_index

_ROWS = 1000
_MANIFEST = Table("manifest", MetaData(), Column("name", Text, primary_key=True), Column("value", Text, nullable=False))
_FORMAT = "solarjax plane backup 1"


def backup(catalogue: Catalogue, target: Path) -> dict[str, int]:
    """Writes a backup of one snapshot while the catalogue is in use.

    Args:
      target: a file that does not exist yet.

    Returns:
      Rows of each table.

    Raises:
      Invalid: if `target` exists. OSError: if it cannot be written. DatabaseError: if the copy differs from the
        original.
    """
    if target.exists():
        raise Invalid(f"{target} exists; a backup never overwrites a file")
    if not target.parent.is_dir():
        raise Invalid(f"{target.parent} is not a folder")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    try:
        engine = create_engine(f"sqlite:///{part}", poolclass=NullPool)

        def work(source: Connection) -> dict[str, tuple[int, str]]:
            with engine.begin() as copy:
                t.METADATA.create_all(copy)
                _MANIFEST.create(copy)
                written = {table.name: _copy(source, copy, table) for table in t.METADATA.sorted_tables}
                names = sorted(source.execute(select(migration.c.name)).scalars())
                facts: dict[str, Any] = {"format": _FORMAT, "migrations": names, "tables": written}
                copy.execute(insert(_MANIFEST), [{"name": k, "value": json.dumps(v)} for k, v in facts.items()])
            return written

        written = catalogue.database.read(work)
        engine.dispose()
        _check(part)
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        # link, unlike replace, fails if somebody made the file meanwhile.
        os.link(part, target)
    except sqlite3.Error as error:
        raise DatabaseError(f"{target} cannot be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return {name: rows for name, (rows, _) in written.items()}


def restore(catalogue: Catalogue, source: Path) -> dict[str, int]:
    """Replaces everything in the catalogue by a backup, in one transaction.

    Returns:
      Rows of each table.

    Raises:
      DatabaseError: if the file is damaged, not a backup, or of another schema; the catalogue is then untouched.
    """
    manifest = _check(source)
    engine = create_engine(f"sqlite:///file:{source}?mode=ro&uri=true", poolclass=NullPool)

    def work(target: Connection) -> None:
        known = sorted(target.execute(select(migration.c.name)).scalars())
        if manifest["migrations"] != known:
            raise DatabaseError(f"{source} has schema {manifest['migrations'][-1]}, this catalogue {known[-1]}")
        before = {row.name: row for row in target.execute(select(t.tenant))}
        revoked = list(target.execute(select(t.token).where(t.token.c.revoked_at.is_not(None))))
        text_index(target).clear(target, [row.tid for row in before.values()])
        for table in reversed(t.METADATA.sorted_tables):
            target.execute(delete(table))
        with engine.connect() as copy:
            for table in t.METADATA.sorted_tables:
                _copy(copy, target, table)
        for table in t.METADATA.sorted_tables:
            if list(_digest(target, table)) != manifest["tables"][table.name]:
                raise DatabaseError(f"table {table.name} differs from the backup after restoring; nothing was changed")
        _renumber(target)
        rebuild_text(target)
        for row in revoked:
            target.execute(update(t.token).where(t.token.c.id == row.id).values(revoked_at=row.revoked_at))
        _advance(target, before, catalogue.clock())

    catalogue.database.write(work)
    return {name: rows for name, (rows, _) in manifest["tables"].items()}


def _copy(source: Connection, target: Connection, table: Table) -> tuple[int, str]:
    count, digest = 0, hashlib.sha256()
    rows = source.execute(_ordered(source, table))
    for part in rows.mappings().partitions(_ROWS):
        values = [dict(row) for row in part]
        target.execute(insert(table), values)
        for row in values:
            digest.update(_line(list(row.values())))
        count += len(values)
    return count, digest.hexdigest()


def _digest(connection: Connection, table: Table) -> tuple[int, str]:
    count, digest = 0, hashlib.sha256()
    for part in connection.execute(_ordered(connection, table)).partitions(_ROWS):
        for row in part:
            digest.update(_line(list(row)))
        count += len(part)
    return count, digest.hexdigest()


def _ordered(connection: Connection, table: Table) -> Any:
    # Text keys in the order of their bytes; the default order of PostgreSQL depends on its locale.
    postgres = connection.dialect.name == "postgresql"
    keys = [c.collate("C") if postgres and isinstance(c.type, Text) else c for c in table.primary_key]
    return select(table).order_by(*keys).execution_options(yield_per=_ROWS)


def _line(values: list[Any]) -> bytes:
    plain = [bytes(v).hex() if isinstance(v, bytes | memoryview) else v for v in values]
    return json.dumps(plain).encode() + b"\n"


def _check(path: Path) -> dict[str, Any]:
    """The manifest of a backup that is whole."""
    if not path.is_file():
        raise DatabaseError(f"{path} is not a file")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            problem = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                raise DatabaseError(f"{path} is damaged: {problem}")
            manifest = {k: json.loads(v) for k, v in database.execute("SELECT name, value FROM manifest")}
    except (sqlite3.Error, ValueError) as error:
        if isinstance(error, DatabaseError):
            raise
        raise DatabaseError(f"{path} is not a backup of a catalogue: {error}") from error
    if manifest.get("format") != _FORMAT or set(manifest["tables"]) != set(t.METADATA.tables):
        raise DatabaseError(f"{path} is not a backup that this version can read")
    engine = create_engine(f"sqlite:///file:{path}?mode=ro&uri=true", poolclass=NullPool)
    with engine.connect() as connection:
        for table in t.METADATA.sorted_tables:
            if list(_digest(connection, table)) != manifest["tables"][table.name]:
                raise DatabaseError(f"{path} is damaged: table {table.name} is not what was written")
    return manifest


def _renumber(connection: Connection) -> None:
    """PostgreSQL's sequences do not see rows that come with their number."""
    if connection.dialect.name != "postgresql":
        return
    for table, column in (("tenant", "tid"), ("version", "vid"), ("artifact", "aid"), ("embedding", "eid")):
        connection.execute(
            text(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), "
                f"(SELECT COALESCE(MAX({column}), 0) + 1 FROM {table}), false)"
            )
        )


def _advance(connection: Connection, before: dict[str, Any], now: int) -> None:
    """Lets every tenant go on after the higher of its two epochs, with an event that says so."""
    for row in list(connection.execute(select(t.tenant))):
        old = before.get(row.name)
        epoch = max(row.epoch, old.epoch if old else 0) + 1
        purge = max(row.purge_epoch, old.purge_epoch if old else 0) + 1
        values = {"epoch": epoch, "floor_epoch": epoch, "purge_epoch": purge}
        connection.execute(update(t.tenant).where(t.tenant.c.tid == row.tid).values(**values))
        event = {
            "tid": row.tid, "epoch": epoch, "operation": "import", "capsule": None, "actor": "operator",
            "reason": "a backup was restored", "at": now,
            "result": WriteResult(epoch=epoch, operation="import").model_dump_json(),
        }  # fmt: skip
        connection.execute(insert(t.event), event)
