"""A transaction that the database gave up for another one's sake runs again, as a whole; any other failure does not."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from solarjax.plane import database as module
from solarjax.plane.database import Database
from solarjax.plane.errors import Unavailable

SERIALIZATION, DEADLOCK, UNDEFINED_TABLE = "40001", "40P01", "42P01"


class Given(Exception):
    """What a driver raises, with the code that PostgreSQL gives."""

    def __init__(self, code):
        super().__init__(code)
        self.sqlstate = code


@pytest.fixture
def database(new_url, monkeypatch):
    made = Database(new_url())
    made.write(lambda c: c.execute(text("CREATE TABLE note (word TEXT)")))
    slept = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    made.slept = slept
    yield made
    made.close()


def fail(connection, code):
    """PostgreSQL raises it itself; SQLite knows no such code, so there it is made."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'given' USING ERRCODE = '{code}'; END $$"))
    kind = ProgrammingError if code == UNDEFINED_TABLE else OperationalError
    raise kind("statement", {}, Given(code))


def attempt(database, code, failures):
    """Writes a word and then fails so many times; returns how often it was run, and what came of it."""
    runs = []

    def work(connection):
        runs.append(None)
        connection.execute(text("INSERT INTO note VALUES ('kept')"))
        if len(runs) <= failures:
            fail(connection, code)
        return "done"

    try:
        result = database.write(work)
    except (Unavailable, DBAPIError) as error:
        result = error
    words = database.read(lambda c: list(c.execute(text("SELECT word FROM note")).scalars()))
    return len(runs), result, words


@pytest.mark.parametrize("code", [SERIALIZATION, DEADLOCK])
@pytest.mark.parametrize("failures", [0, 1, 3])
def test_it_runs_again_and_leaves_one_trace(database, code, failures):
    assert attempt(database, code, failures) == (failures + 1, "done", ["kept"])
    assert database.slept == [0.005, 0.01, 0.02][:failures], "longer each time"


@pytest.mark.parametrize("code", [SERIALIZATION, DEADLOCK])
def test_the_fourth_failure_is_the_last(database, code):
    runs, error, words = attempt(database, code, 99)
    assert runs == 4 and isinstance(error, Unavailable) and words == []


def test_another_failure_is_not_tried_again(database):
    runs, error, words = attempt(database, UNDEFINED_TABLE, 99)
    assert runs == 1 and isinstance(error, ProgrammingError) and words == [] and database.slept == []
