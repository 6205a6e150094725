"""Faults through the whole command: one clear line and exit code 2; the same command against a healthy server ends with
the dataset of a run without faults, and no question that was answered is asked again."""

import json

import numpy as np
import pytest
import xarray as xr

from solarjax.replay import dataset, journal
from solarjax.replay.journal import FILE
from tests.replay.commands import call, options
from tests.replay.stand_in import Fault, StandIn, in_thread

FROM = 3  # the first completion request that goes wrong: in the middle of a round, beside one that is answered


def after(fault):
    """The fault for every request from `FROM` on."""
    return lambda number: fault if number >= FROM else None


TOO_LONG = json.dumps({"error": {"message": "This model's maximum context length is 9 tokens.", "code": 400}}).encode()
FAULTS = {
    "dies": (after(Fault("close")), "closed the connection before it answered"),
    "cut stream": (after(Fault("cut")), "cut the stream"),
    "hang": (after(Fault("hang")), "sent nothing within 1 s"),
    "context too long": (after(Fault("status", status=400, body=TOO_LONG)), "context"),
    "500": (after(Fault("status", status=500)), "500"),
}


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr("solarjax.replay.retry.wait_s", lambda *_: 0.0)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """Filled by the first test that needs it: the dataset without faults."""
    return tmp_path_factory.mktemp("clean") / "out"


def result(folder):
    return xr.load_dataset(folder / "result.nc", engine="h5netcdf")


def prompts_recorded(path):
    """Prompt hashes of the answered questions."""
    return {json.loads(line)["prompt"] for line in path.read_text().splitlines()[1:]}


def stop_and_continue(world, tmp_path, capsys, clean, faults, says):
    """Runs into the fault, then to the end, and compares."""
    out = tmp_path / "out"
    given = {"seeds": 2, "concurrency": 2, "timeout": 1 if "sent nothing" in says else 30, "out": out}
    with in_thread(StandIn(faults=faults)) as server:
        assert call(*options(world, server=server.url, **given)) == 2
        before = {asked.prompt for asked in server.asked}
    shown = [line for line in capsys.readouterr().err.splitlines() if line.startswith("solarjax: ")]
    assert len(shown) == 1 and says in shown[0]
    assert not list(out.glob("result*"))
    kept = len((out / FILE).read_text().splitlines()) - 1
    answered = len(prompts_recorded(out / FILE))
    given |= {"timeout": 30}
    with in_thread(StandIn()) as server:
        assert call(*options(world, server=server.url, **given)) == 0
        again = [asked.prompt for asked in server.asked]
    assert f"asked {24 - kept} questions" in capsys.readouterr().err
    # Prompts are asked once; of those of the first run, only the ones that got no answer.
    assert len(again) == len(set(again)) and len(before & set(again)) <= len(before) - answered
    if not clean.exists():
        with in_thread(StandIn()) as server:
            assert call(*options(world, server=server.url, **given | {"out": clean})) == 0
    ours, theirs = result(out), result(clean)
    for name in set(ours.data_vars) - dataset.MEASURED:
        np.testing.assert_array_equal(ours[name].values, theirs[name].values, err_msg=str(name))
    return kept, answered


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_server_loses_nothing(world, tmp_path, capsys, clean, name):
    faults, says = FAULTS[name]
    _, answered = stop_and_continue(world, tmp_path, capsys, clean, faults, says)
    assert answered == FROM, "what was answered before the fault is kept, also of the round that failed"


def test_a_full_disk_loses_nothing(world, tmp_path, capsys, clean, monkeypatch):
    """The fifth write of the journal finds no room."""
    fsync, calls = journal.os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) == 5:
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(journal.os, "fsync", full)
    kept, _ = stop_and_continue(world, tmp_path, capsys, clean, {}, "No space left on device; all answers up to here")
    assert kept == 3
