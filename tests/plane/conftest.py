"""One catalogue a test, on SQLite and, where SOLARJAX_TEST_POSTGRES names one, on PostgreSQL: the same tests on both.

`scripts/with_postgres` sets the variable. Without it the PostgreSQL half is not generated; test_environment.py sees
to it that continuous integration never runs without.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from scripts.plane import databases
from solarjax.plane.catalogue import Catalogue
from tests.plane.helpers import Ticker


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", databases.available(), scope="module")


@pytest.fixture(scope="module")
def new_url(backend, tmp_path_factory):
    """Makes URLs of empty databases; a schema of its own on PostgreSQL."""
    with ExitStack() as made:
        yield lambda: made.enter_context(databases.empty(backend, tmp_path_factory.mktemp("plane")))


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
