"""Killed writers lose nothing they acknowledged and leave nothing half done."""

import json
import subprocess
import sys

import pytest
from sqlalchemy import text

from scripts.plane import crash
from solarjax.plane.artifacts import ArtifactDraft, EmbeddingLocator
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.commit import Intent
from tests.plane.helpers import START, content, draft, ref


def test_killed_writers_leave_a_whole_catalogue(new_url):
    """20 kills in a process of its own, because it forks; the full command is in scripts/plane/crash.py."""
    command = [sys.executable, "-m", "scripts.plane.crash", "--kills", "20", "--url", new_url()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["problems"] == [] and result["kills"] == 20
    assert result["acknowledged"] > 60 and len(result["operations"]) >= 4, result


@pytest.fixture
def written(new_url):
    """A catalogue with one of each write, what was said of them, and a way to damage it."""
    url = new_url()
    catalogue = Catalogue(url)
    catalogue.add_tenant(crash.TENANT)
    intent = Intent(crash.TENANT, "x")
    said = []

    def do(result):
        said.append([result.epoch, result.operation, str(result.ref)])

    for name in "abc":
        do(catalogue.create(intent, draft(name, "old")))
        for i in range(3):
            do(catalogue.create(intent, draft(f"{name}{i}", "derived", f"{name}@1", *([f"{name}0@1"] if i else []))))
        uri = f"{name}0@1 {name}1@1"
        locator = EmbeddingLocator(model="m", dimensions=1, uri=uri)
        do(catalogue.attach(intent, ArtifactDraft(locator=locator, made_from=tuple(map(ref, uri.split())))))
    do(catalogue.supersede(intent, ref("a@1"), content("next")))
    do(catalogue.correct(intent, ref("a@1"), content("new", begin=START, end=START + 1)))
    do(catalogue.correct(intent, ref("a@2"), content("new")))
    do(catalogue.delete(intent, "b"))
    do(catalogue.delete(intent, "c", erase=True))
    yield url, said, lambda sql: catalogue.database.write(lambda connection: connection.execute(text(sql)))
    catalogue.close()


OF = "(SELECT MAX(vid) FROM version WHERE capsule = '{}')"
DAMAGES = [
    (f"DELETE FROM ending WHERE vid = {OF.format('a2')} AND epoch = 16", "supersede of a at epoch 16 ended 3 versions"),
    (f"DELETE FROM ending WHERE vid = {OF.format('a1')} AND epoch = 17", "correct of a at epoch 17 ended 3 versions"),
    (f"DELETE FROM ending WHERE vid = {OF.format('b')}", "delete of b at epoch 19 ended 0 versions of the capsule"),
    (f"DELETE FROM ending WHERE vid = {OF.format('b2')}", "delete of b at epoch 19 ended 3 versions of 4"),
    ("UPDATE ending SET ends_from = ends_from + 1 WHERE epoch = 16", "epoch 16 ended something at another instant"),
    (f"UPDATE version SET erased_epoch = NULL WHERE vid = {OF.format('c1')}", "version c1@1 is half erased"),
    (f"UPDATE version SET erased_epoch = NULL, text = 'x' WHERE vid = {OF.format('c1')}", "wiped 3 versions of 4"),
    ("UPDATE tenant SET purge_epoch = 0", "1 erasures, but the salt changed 0 times"),
    (f"DELETE FROM artifact_source WHERE vid = {OF.format('a1')}", "artifact 1 has 1 sources of 2"),
    ("DELETE FROM artifact_source WHERE aid = 2; DELETE FROM artifact WHERE aid = 2", "artifact 2 of epoch 10 is not"),
    ("UPDATE version SET epoch = 99 WHERE capsule = 'b0'", "version b0@1 has no event"),
    ("DELETE FROM event WHERE epoch = 15", "epoch is 20, events are 19"),
]  # fmt: skip


def test_the_check_finds_nothing_in_a_whole_catalogue(written):
    url, said, _ = written
    assert [entry[1] for entry in said[-5:]] == ["supersede", "correct", "correct", "delete", "delete"]
    assert crash.verify(url, said) == []
    assert crash.verify(url, [*said, [21, "correct", "a@5"]]) == [
        "acknowledged correct of a@5 at epoch 21 is not there"
    ]  # fmt: skip


@pytest.mark.parametrize(("damage", "said_of_it"), DAMAGES)
def test_the_check_sees_half_a_write(written, damage, said_of_it):
    url, said, execute = written
    for statement in damage.split("; "):
        execute(statement)
    assert any(said_of_it in problem for problem in crash.verify(url, said)), crash.verify(url, said)
