"""Killed writers lose nothing they acknowledged and leave nothing half done."""

import json
import subprocess
import sys

from sqlalchemy import text

from scripts.plane import crash
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.commit import Intent
from tests.plane.helpers import content, draft, ref


def test_killed_writers_leave_a_whole_catalogue(new_url):
    """20 kills in a process of its own, because it forks; the full command is in scripts/plane/crash.py."""
    command = [sys.executable, "-m", "scripts.plane.crash", "--kills", "20", "--url", new_url()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["problems"] == [] and result["kills"] == 20
    assert result["acknowledged"] > 60, result


def test_the_check_sees_a_half_cascade_and_a_lost_write(new_url):
    url = new_url()
    catalogue = Catalogue(url)
    catalogue.add_tenant(crash.TENANT)
    intent = Intent(crash.TENANT, "x")
    catalogue.create(intent, draft("a", "old"))
    for i in range(3):
        catalogue.create(intent, draft(f"d{i}", "derived", "a@1"))
    catalogue.correct(intent, ref("a@1"), content("new"))
    said = [[1, "create", "a@1"], [5, "correct", "a@2"]]
    assert crash.verify(url, said) == []
    assert "not there" in crash.verify(url, [*said, [6, "correct", "a@3"]])[0]
    catalogue.database.write(
        lambda c: c.execute(text("DELETE FROM ending WHERE cause = 'derived' AND vid = (SELECT MAX(vid) FROM ending)"))
    )
    assert any("ended 3 versions of 4" in problem for problem in crash.verify(url, said))
    catalogue.close()
