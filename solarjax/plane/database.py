"""Connections and transactions: SQLite in WAL mode (one file), or PostgreSQL by URL.

Every access is a function run inside one transaction. Reads get a snapshot: all their statements see the same commit.
On SQLite one writer runs at a time, under BEGIN IMMEDIATE. In WAL mode an acknowledged write survives the end of this
process by any signal. With `synchronous` full, the default, it is also forced to disk before it is acknowledged, and
survives power loss as far as the disk keeps its promises: a correction that was lost would bring back what it
corrected, and the disk's milliseconds are in nobody's way. `normal` saves them: after power loss the latest writes may
be missing, and nothing is damaged. On PostgreSQL writes of one tenant queue on that tenant's row (the first statement
of every write locks it), so they are serial, and with one lock a tenant there is no deadlock.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, NoSuchModuleError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from solarjax.plane.errors import Invalid, Unavailable

T = TypeVar("T")
Synchronous = Literal["full", "normal"]
_READERS = 64
_POSTGRES_CONNECTIONS = 16
# SQLSTATE of a serialization failure and of a deadlock victim: nothing was written, so the whole function may run
# again.
_TRANSIENT = {"40001", "40P01"}
_ATTEMPTS = 4


class Database:
    """One catalogue's storage.

    Args:
      url: `sqlite:///file`, a bare file path (the same), or `postgresql://user:password@host/name`.
      busy_seconds: how long a write waits for another one before it fails with `Unavailable`.
      synchronous: see the module; of SQLite. PostgreSQL's `synchronous_commit` is set by its server, or in the URL's
        `options`.

    Raises:
      Invalid: for a URL of any other kind.
    """

    def __init__(self, url: str | Path, *, busy_seconds: float = 30.0, synchronous: Synchronous = "full"):
        self.url = _parse(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._write_lock: Any = threading.Lock() if self.is_sqlite else nullcontext()
        self._busy_seconds = busy_seconds
        self._synchronous = synchronous
        self._look_lock = threading.Lock()
        self._looker: tuple[PoolProxiedConnection, sqlite3.Connection] | None = None
        self._reader, self._writer = (self._sqlite if self.is_sqlite else self._postgres)()

    def read(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` on one snapshot; it cannot write.

        Raises:
          Unavailable: if the database cannot be reached.
        """
        return self._run(self._reader, work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` in one transaction, committed when it returns and rolled back when it raises.

        `work` may run again after a serialization failure, so it must have no effect outside the database.

        Raises:
          Unavailable: if the database is busy beyond `busy_seconds` or cannot be reached.
        """
        with self._write_lock:
            return self._run(self._writer, work)

    def look(self, statement: str, values: dict[str, Any]) -> tuple[Any, ...] | None:
        """One row by one read-only statement, which is a snapshot by itself: the way for hot paths.

        On SQLite it costs some ten microseconds, waits for no writer and may be called in an event loop.

        Args:
          statement: SQL with `:name` parameters, a constant.

        Raises:
          Unavailable: as `read`.
        """
        if not self.is_sqlite:
            row = self.read(lambda connection: connection.execute(text(statement), values).one_or_none())
            return None if row is None else tuple(row)
        with self._look_lock:
            try:
                if self._looker is None:
                    made = self._reader.raw_connection()
                    self._looker = made, made.driver_connection  # type: ignore[assignment]
                return self._looker[1].execute(statement, values).fetchone()  # type: ignore[index]
            except sqlite3.OperationalError as error:
                raise Unavailable(f"the catalogue's database cannot be used: {error}") from error

    def close(self) -> None:
        """Closes all connections; may be called more than once."""
        with self._look_lock:
            if self._looker is not None:
                self._looker[0].close()
                self._looker = None
        self._reader.dispose()
        self._writer.dispose()

    def ping(self) -> None:
        """Raises `Unavailable` unless a query can be answered."""
        self.read(lambda connection: connection.execute(text("SELECT 1")).scalar_one())

    def _run(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        for attempt in range(_ATTEMPTS):
            try:
                with engine.connect() as connection, connection.begin():
                    return work(connection)
            except DBAPIError as error:
                last = attempt == _ATTEMPTS - 1
                if getattr(error.orig, "sqlstate", None) in _TRANSIENT and not last:
                    time.sleep(0.005 * 2**attempt)
                    continue
                if isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated:
                    raise Unavailable(f"the catalogue's database cannot be used: {_brief(error)}") from error
                raise
            except PoolTimeout as error:
                raise Unavailable("all connections to the catalogue's database are in use") from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _sqlite(self) -> tuple[Engine, Engine]:
        if not self.url.database or self.url.database == ":memory:":
            raise Invalid("a catalogue needs a file: an SQLite database in memory cannot be shared by connections")

        def engine(begin: str, *, read_only: bool, size: int) -> Engine:
            made = create_engine(
                self.url, poolclass=QueuePool, pool_size=size, max_overflow=0, pool_timeout=self._busy_seconds,
                connect_args={"check_same_thread": False, "timeout": self._busy_seconds},
            )  # fmt: skip

            @event.listens_for(made, "connect")
            def configure(connection: Any, _record: Any) -> None:
                # The driver's own transaction handling is switched off: BEGIN is ours, see below.
                connection.isolation_level = None
                for pragma in (
                    "journal_mode = WAL", f"synchronous = {self._synchronous}", "foreign_keys = ON",
                    "temp_store = MEMORY",
                ):  # fmt: skip
                    connection.execute(f"PRAGMA {pragma}")
                # Erased content must not stay in the file's free pages.
                connection.execute("PRAGMA query_only = ON" if read_only else "PRAGMA secure_delete = ON")

            @event.listens_for(made, "begin")
            def start(connection: Connection) -> None:
                connection.exec_driver_sql(begin)

            return made

        return engine("BEGIN", read_only=True, size=_READERS), engine("BEGIN IMMEDIATE", read_only=False, size=1)

    def _postgres(self) -> tuple[Engine, Engine]:
        # What the URL asks for (a search_path, say) is kept.
        options = f"{self.url.query.get('options', '')} -c lock_timeout={int(self._busy_seconds * 1000)}".strip()
        try:
            base = create_engine(
                self.url, pool_size=_POSTGRES_CONNECTIONS, max_overflow=0, pool_pre_ping=True,
                pool_timeout=self._busy_seconds,
                connect_args={"connect_timeout": max(2, int(self._busy_seconds)), "options": options},
            )  # fmt: skip
        except ModuleNotFoundError as error:
            raise Invalid(f"PostgreSQL needs {error.name}: pip install solarjax[plane]") from None
        reader = base.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        return reader, base.execution_options(isolation_level="READ COMMITTED")


def _parse(url: str | Path) -> URL:
    text_url = str(url)
    if "://" not in text_url:
        return URL.create("sqlite", database=text_url)
    try:
        parsed = make_url(text_url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError):
        backend = ""
    if backend == "sqlite":
        return parsed
    if text_url.split(":", 1)[0] in ("postgres", "postgresql", "postgresql+psycopg"):
        return make_url("postgresql+psycopg:" + text_url.split(":", 1)[1])
    scheme = text_url.split("://", 1)[0]
    raise Invalid(f"database URL of kind {scheme!r}; allowed are sqlite:///FILE and postgresql://HOST/NAME")


def _brief(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())[:200]
