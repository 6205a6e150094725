"""What a stored replay says of where it comes from: code, server versions; and that it never holds the API key."""

import asyncio
import logging

import pytest

from solarjax import provenance
from solarjax.replay import run
from solarjax.replay.journal import FILE
from solarjax.report.stored import StoreError
from tests.replay.commands import call, options
from tests.replay.stand_in import MODEL, Fault, StandIn, in_thread
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


def test_the_key_is_sent_and_stays_nowhere(world, tmp_path, capfd, caplog, monkeypatch):
    """With a server that repeats it in its errors: at first it refuses, then it answers, then it wants another key."""
    key = "sk-3141592653589793"
    monkeypatch.setenv("SOLARJAX_API_KEY", key)
    monkeypatch.setattr("solarjax.replay.retry.wait_s", lambda *_: 0.0)
    caplog.set_level(logging.DEBUG)
    echo = f"no room for {key}".encode()
    failing = StandIn(key=key, faults={n: Fault("status", status=500, body=echo) for n in range(2, 40)})
    said = ""
    for server, folder, code in ((failing, "out", 2), (StandIn(key=key), "out", 0), (StandIn(key="other"), "new", 2)):
        with in_thread(server):
            assert call(*options(world, server=server.url, out=tmp_path / folder)) == code
        assert all(asked.headers["authorization"] == f"Bearer {key}" for asked in server.asked)
        shown = capfd.readouterr()
        said += shown.out + shown.err
    assert "no room for [key]" in said and "Incorrect API key provided: [key]" in said
    assert key not in said and key not in caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {FILE, run.RESPONSES, "provenance.json", "result.nc"} <= {path.name for path in files}
    assert [path for path in files if key.encode() in path.read_bytes()] == []
