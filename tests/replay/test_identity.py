"""What a stored replay says of where it comes from: code, server versions; and that it never holds the API key."""

import asyncio

import pytest

from solarjax import provenance
from solarjax.replay import run
from solarjax.replay.journal import FILE
from solarjax.report.stored import StoreError
from tests.replay.stand_in import MODEL, StandIn, in_thread
from tests.replay.worlds import Words, encode, plan


def execute(out, url):
    what = plan("fifo", names=("a",), seeds=(0,))
    return asyncio.run(run.execute(what, {"kind": "test"}, encode, out, run.Server(url, MODEL, Words())))


def test_other_code_of_the_replay_is_another_result(tmp_path, monkeypatch):
    """A copy of the package in which the scoring differs by one byte."""
    package = tmp_path / "package"
    (package / "replay").mkdir(parents=True)
    (package / "replay" / "scoring.py").write_text("LIKE_AT = 0.5\n")
    monkeypatch.setattr(provenance, "PACKAGE", package)
    of = provenance.code_fingerprint.__wrapped__
    sweep, replay = of(), of(provenance.REPLAY)
    (package / "replay" / "scoring.py").write_text("LIKE_AT = 0.6\n")
    assert of() == sweep and of(provenance.REPLAY) != replay


def test_a_result_made_by_other_replay_code_is_not_reused(tmp_path, monkeypatch):
    with in_thread(StandIn()) as server:
        made = execute(tmp_path / "out", server.url)
        assert made.stored.provenance["code"] == provenance.code_fingerprint(provenance.REPLAY)
        assert execute(tmp_path / "out", server.url).reused
        monkeypatch.setattr(provenance, "code_fingerprint", lambda folders: f"other {'replay' in folders}")
        with pytest.raises(StoreError, match=r"made by other code \(.*, now other True\)"):
            execute(tmp_path / "out", server.url)


def test_all_server_versions_of_a_continued_replay_are_named(tmp_path):
    with in_thread(StandIn()) as server:
        execute(tmp_path / "whole", server.url)
        lines = (tmp_path / "whole" / FILE).read_text().splitlines(keepends=True)
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / FILE).write_text("".join(lines[:4]).replace("stand-in 1", "stand-in 0"))
        outcome = execute(tmp_path / "out", server.url)
    assert outcome.data.attrs["server_version"] == "stand-in 0, stand-in 1"
    assert outcome.stored.provenance["server_version"] == "stand-in 0, stand-in 1"
