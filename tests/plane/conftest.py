"""One catalogue a test, on SQLite and, where SOLARJAX_TEST_POSTGRES names one, on PostgreSQL: the same tests on both.

`scripts/with_postgres` sets the variable. Without it the PostgreSQL half is not generated; test_environment.py sees
to it that continuous integration never runs without.
"""

from __future__ import annotations

import os
import uuid

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from solarjax.plane.catalogue import Catalogue
from tests.plane.helpers import Ticker

POSTGRES = os.environ.get("SOLARJAX_TEST_POSTGRES")
BACKENDS = ["sqlite", *(["postgresql"] if POSTGRES else [])]


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", BACKENDS, scope="module")


@pytest.fixture(scope="module")
def new_url(backend, tmp_path_factory):
    """Makes URLs of empty databases; a schema of its own on PostgreSQL."""
    made = []

    def make():
        name = f"t{uuid.uuid4().hex[:12]}"
        if backend == "sqlite":
            return str(tmp_path_factory.mktemp("plane") / f"{name}.db")
        _on_postgres(f"CREATE SCHEMA {name}")
        made.append(name)
        return f"{POSTGRES}&options=-csearch_path%3D{name}"

    yield make
    for name in made:
        _on_postgres(f"DROP SCHEMA {name} CASCADE")


def _on_postgres(statement):
    engine = create_engine(POSTGRES.replace("postgresql:", "postgresql+psycopg:", 1), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text(statement))


@pytest.fixture(scope="module")
def shared_catalogue(new_url):
    """A catalogue for the tests of one file; each takes a tenant of its own."""
    catalogue = Catalogue(new_url(), clock=Ticker())
    yield catalogue
    catalogue.close()


@pytest.fixture
def world(shared_catalogue):
    """A fresh tenant in the shared catalogue, with short ways to write."""
    from tests.plane.helpers import World

    return World(shared_catalogue)
