"""Frozen mode: one recording, studied under any policies and capacities without a server; nothing of it is lost."""

import asyncio
import json

import numpy as np
import pytest

from solarjax.replay import dataset, run
from solarjax.replay.errors import BadOption
from solarjax.replay.journal import FILE, JournalError
from solarjax.report.stored import StoreError
from tests.replay.commands import call, options
from tests.replay.stand_in import MODEL, StandIn, in_thread
from tests.replay.worlds import Words, encode, plan

SOURCE = {"kind": "test"}


def execute(what, out, url="", **options):
    """The outcome of a replay against a server, or without one."""
    return asyncio.run(run.execute(what, SOURCE, encode, out, run.Server(url, MODEL, Words()), **options))


def frozen(policies="fifo", capacities=(2,), **settings):
    return plan(policies, capacities, names=("a",), mode="frozen", **settings)


def same(ours, theirs):
    for name in set(ours.data_vars) - dataset.MEASURED:
        np.testing.assert_array_equal(ours[name].values, theirs[name].values, err_msg=str(name))


@pytest.fixture
def recording(tmp_path):
    """A folder with the study of one policy; its server is gone."""
    with in_thread(StandIn()) as server:
        assert execute(frozen(), tmp_path / "first", server.url).asked == 16
    return tmp_path / "first"


def test_other_policies_are_studied_without_a_server_as_if_it_were_there(tmp_path, recording):
    held = (recording / FILE).read_bytes()
    other = frozen("lru,unlimited", (3, 4), lambdas=(0.0, 2.0))
    outcome = execute(other, tmp_path / "second", recorded=recording)
    assert outcome.asked == 0 and outcome.data.sizes["policy"] == outcome.data.sizes["capacity"] == 2
    assert (recording / FILE).read_bytes() == held
    assert outcome.stored.provenance["recording"] and outcome.stored.provenance["server_version"] == "stand-in 1"
    with in_thread(StandIn()) as server:
        asked = execute(other, tmp_path / "third", server.url)
    assert asked.asked == 16
    same(outcome.data, asked.data)


def test_a_recording_that_was_stopped_is_continued_under_other_policies(tmp_path, recording):
    lines = (recording / FILE).read_text().splitlines(keepends=True)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / FILE).write_text("".join(lines[:8]))
    with pytest.raises(BadOption, match="holds 7 of 16 answers; give the address of a server"):
        execute(frozen("lru"), tmp_path / "second", recorded=tmp_path / "cut")
    with in_thread(StandIn()) as server:
        outcome = execute(frozen("lru"), tmp_path / "second", server.url, recorded=tmp_path / "cut")
        assert outcome.asked == len(server.asked) == 9
    same(outcome.data, execute(frozen("lru"), tmp_path / "third", recorded=recording).data)


def test_a_result_that_was_not_written_yet_may_change_its_policies(tmp_path, recording):
    (tmp_path / "stopped").mkdir()
    (tmp_path / "stopped" / FILE).write_bytes((recording / FILE).read_bytes())
    assert execute(frozen("lru"), tmp_path / "stopped").asked == 0
    with pytest.raises(StoreError, match="another configuration"):
        execute(frozen("fifo"), tmp_path / "stopped")


def test_a_recording_of_something_else_is_refused_and_unharmed(tmp_path, recording):
    held = (recording / FILE).read_bytes()
    with pytest.raises(JournalError, match="k: 3 there, 2 asked"):
        execute(frozen(k=2), tmp_path / "second", recorded=recording)
    with pytest.raises(BadOption, match="holds no recording"):
        execute(frozen(), tmp_path / "second", recorded=tmp_path / "nowhere")
    with pytest.raises(BadOption, match="a recording is for mode frozen"):
        execute(plan(), tmp_path / "second", recorded=recording)
    assert (recording / FILE).read_bytes() == held and not (tmp_path / "nowhere").exists()
    assert not list(tmp_path.glob("second/result*"))


def test_on_the_command_line(world, tmp_path, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    with in_thread(StandIn()) as server:
        assert call(*options(world, mode="frozen", policies="fifo", server=server.url, out=first)) == 0
    words = options(world, mode="frozen", policies="lru,solar", capacities="2,3", out=second)
    assert call(*words) == 2
    assert "holds 0 of 6 answers; give the address of a server with --server" in capsys.readouterr().err
    assert call(*words, "--recorded", first) == 0
    assert "asked 0 questions" in capsys.readouterr().err
    assert call(*options(world, out=second), "--recorded", first) == 2
    assert "--recorded only applies to --mode frozen" in capsys.readouterr().err
    config = json.loads((second / "provenance.json").read_text())["config"]
    assert [p["name"] for p in config["policies"]] == ["lru", "solar"]
