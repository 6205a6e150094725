"""Backups are whole or absent; a restore changes everything or nothing. Migrations too."""

import os
import sqlite3

import pytest
from sqlalchemy import select, text

from solarjax.plane import migrations
from solarjax.plane.access import Access
from solarjax.plane.backup import backup, restore
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.database import Database
from solarjax.plane.errors import DatabaseError, Invalid, Unauthorized
from solarjax.plane.retriever import Query, Retriever
from solarjax.plane.tables import METADATA
from tests.plane.helpers import Ticker, World, kv, vector


@pytest.fixture
def filled(new_url):
    catalogue = Catalogue(new_url(), clock=Ticker())
    world = World(catalogue)
    world.create("a", text="alpha whale", entities=("x",), vector=vector(1, 0))
    world.create("b", "a@1", text="beta é \U0001f40b")
    world.catalogue.attach(world.intent, kv("b@1"))
    world.correct("a@1", text="gamma whale")
    world.create("gone", text="erased")
    world.delete("gone", erase=True)
    yield world
    catalogue.close()


def content_of(catalogue, leave_out=("tenant", "event")):
    def work(connection):
        return {
            table.name: sorted(map(str, connection.execute(select(table))))
            for table in METADATA.sorted_tables if table.name not in leave_out
        }  # fmt: skip

    return catalogue.database.read(work)


def test_a_backup_restores_everything_into_another_catalogue(filled, new_url, tmp_path):
    rows = backup(filled.catalogue, tmp_path / "b.db")
    assert rows["version"] == 4 and rows["ending"] >= 3
    before = content_of(filled.catalogue)
    target = Catalogue(new_url(), clock=Ticker())
    try:
        assert restore(target, tmp_path / "b.db") == rows
        assert content_of(target) == before
        found = Retriever(target.database, target.clock).search(filled.tenant, Query(text="whale"))
        assert [str(h.capsule.ref) for h in found.hits] == ["a@2"], "the text index is rebuilt"
        # Row numbers go on after the restored ones.
        other = World.__new__(World)
        other.__dict__.update(filled.__dict__, catalogue=target)
        assert str(other.create("new").ref) == "new@1"
    finally:
        target.close()


def test_a_restore_brings_back_neither_epochs_nor_revoked_tokens(filled, tmp_path):
    catalogue, tenant = filled.catalogue, filled.tenant
    access = Access(catalogue.database, catalogue.clock)
    kept, revoked = access.issue(tenant, "kept"), access.issue(tenant, "revoked")
    backup(catalogue, tmp_path / "b.db")
    access.revoke(revoked.split("_")[1])
    admission = filled.gate.admit(tenant, ["a"])
    for i in range(2, 6):
        filled.correct(f"a@{i}")
    high = catalogue.state(tenant)
    restore(catalogue, tmp_path / "b.db")
    state = catalogue.state(tenant)
    assert state.epoch == high.epoch + 1 == state.floor_epoch and state.purge_epoch > high.purge_epoch
    assert filled.in_force() == {"a@2"}
    # The same words hold again, but the admission is from a past that was undone.
    assert not filled.gate.fence(tenant, admission).passed
    assert filled.audit.events(tenant)[-1].operation == "import"
    assert access.authenticate(kept).actor == "kept"
    with pytest.raises(Unauthorized):
        access.authenticate(revoked)


@pytest.mark.parametrize("damage", ["cut", "row", "not a database", "missing", "other schema"])
def test_a_damaged_backup_changes_nothing(filled, tmp_path, damage):
    path = tmp_path / "b.db"
    backup(filled.catalogue, path)
    if damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif damage == "not a database":
        path.write_bytes(b"x" * 4096)
    elif damage == "missing":
        path.unlink()
    else:
        with sqlite3.connect(path) as database:
            if damage == "row":
                database.execute("UPDATE version SET text = 'forged' WHERE number = 2")
            else:
                database.execute("UPDATE manifest SET value = '[\"0000\"]' WHERE name = 'migrations'")
        database.close()
    before = content_of(filled.catalogue, leave_out=())
    with pytest.raises(DatabaseError):
        restore(filled.catalogue, path)
    assert content_of(filled.catalogue, leave_out=()) == before


def test_a_restore_that_fails_in_the_middle_changes_nothing(filled, tmp_path, monkeypatch):
    backup(filled.catalogue, tmp_path / "b.db")
    before = content_of(filled.catalogue, leave_out=())
    monkeypatch.setattr("solarjax.plane.backup.rebuild_text", lambda connection: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        restore(filled.catalogue, tmp_path / "b.db")
    assert content_of(filled.catalogue, leave_out=()) == before
    assert Retriever(filled.catalogue.database, filled.clock).search(filled.tenant, Query(text="whale")).hits


def test_a_backup_never_overwrites_and_leaves_no_part(filled, tmp_path, monkeypatch):
    (tmp_path / "b.db").write_text("precious")
    with pytest.raises(Invalid, match="exists"):
        backup(filled.catalogue, tmp_path / "b.db")
    assert (tmp_path / "b.db").read_text() == "precious"
    with pytest.raises(Invalid, match="not a folder"):
        backup(filled.catalogue, tmp_path / "no" / "b.db")
    monkeypatch.setattr("solarjax.plane.backup._check", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        backup(filled.catalogue, tmp_path / "c.db")
    assert [p.name for p in tmp_path.iterdir()] == ["b.db"], "a backup that was not proven must not appear"


def test_migrations_apply_once_in_order(new_url):
    database = Database(new_url())
    names = [m.name for m in migrations.MIGRATIONS]
    assert migrations.migrate(database) == names == sorted(names)
    assert migrations.migrate(database) == []
    database.close()


def test_a_failed_migration_leaves_no_trace_and_runs_again(new_url):
    database = Database(new_url())
    broken = []

    def apply(connection):
        connection.execute(text("CREATE TABLE later (x INTEGER)"))
        if not broken:
            broken.append(True)
            raise RuntimeError("killed here")

    steps = (*migrations.MIGRATIONS, migrations.Migration("9999_later", apply))
    with pytest.raises(RuntimeError):
        migrations.migrate(database, migrations=steps)
    assert migrations.migrate(database, migrations=steps) == ["9999_later"]
    with pytest.raises(DatabaseError, match="9999_later"):
        migrations.migrate(database)
    database.close()


def test_the_migrated_schema_is_the_one_the_code_uses(new_url):
    from sqlalchemy import inspect

    database = Database(new_url())
    migrations.migrate(database)

    def columns(connection):
        seen = inspect(connection)
        return {name: {c["name"] for c in seen.get_columns(name)} for name in METADATA.tables}

    assert database.read(columns) == {n: set(t.columns.keys()) for n, t in METADATA.tables.items()}
    database.close()


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "sqlite:///:memory:", "nonsense://", "http://a"])
def test_other_databases_are_refused_by_name(url):
    with pytest.raises(Invalid):
        Database(url)
