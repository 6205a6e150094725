"""The whole command against a server over HTTP, killed with SIGKILL ten times at random points."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import xarray as xr

from solarjax.replay import dataset
from solarjax.replay.journal import FILE
from tests.replay.commands import call, options
from tests.replay.stand_in import StandIn, in_thread

KILLS, QUESTIONS = 10, 30


def finished(out):
    """Prompt hashes of the questions that are recorded; a line that is being written is none."""
    path = out / FILE
    lines = path.read_bytes().split(b"\n")[1:-1] if path.exists() else []
    return {json.loads(line)["prompt"] for line in lines}


def test_killed_ten_times_the_dataset_is_the_same_and_nothing_finished_is_asked_again(world, tmp_path):
    rows = [{"kind": "item", "id": f"t{i}", "text": f"turn {i} says {i % 3}"} for i in range(6)]
    rows += [
        {
            "kind": "query",
            "id": f"q{i}",
            "text": f"what is box {i}",
            "answer": f"turn {i % 3}",
            "relevant": [f"t{i % 6}"],
        }
        for i in range(QUESTIONS)
    ]
    world.write_text("\n".join(map(json.dumps, rows)))
    given = {"policies": "fifo,lru", "seeds": 2, "concurrency": 3}
    draw = random.Random(11)
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "xla")}
    out, kills, done_before = tmp_path / "out", 0, []
    # Some 60 ms an answer, so that a kill finds some on their way.
    with in_thread(StandIn(token_s=0.02)) as server:
        words = [str(word) for word in options(world, server=server.url, out=out, **given)]
        while True:
            before, seen = finished(out), len(server.asked)
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.replay.child_command", *words, "--quiet"], env=environment
            )
            if kills < KILLS:
                # Before its first request now and then, else after the first to fifth, at any moment of an answer.
                wanted = seen + draw.randint(0, 5)
                while len(server.asked) < wanted and process.poll() is None:
                    time.sleep(0.005)
                time.sleep(draw.random() * 0.08)
                process.send_signal(signal.SIGKILL)
            code = process.wait()
            done_before.append(before)
            again = {_hash(asked) for asked in server.asked[seen:]} & before
            assert not again, f"start {kills}: asked again though recorded: {again}"
            if code != -signal.SIGKILL:
                break
            kills += 1
    assert (kills, code) == (KILLS, 0)
    sizes = [len(before) for before in done_before]
    assert sizes == sorted(sizes) and len(set(sizes)) >= 5, "the kills came at different points of the work"
    with in_thread(StandIn()) as server:
        assert call(*options(world, server=server.url, out=tmp_path / "whole", **given)) == 0
        assert {_hash(asked) for asked in server.asked} == finished(out), (
            "hashes of the server's side are the journal's"
        )
    ours, theirs = (xr.load_dataset(folder / "result.nc", engine="h5netcdf") for folder in (out, tmp_path / "whole"))
    assert ours.attrs == theirs.attrs and set(ours.data_vars) == set(theirs.data_vars)
    for name in set(ours.data_vars) - dataset.MEASURED:
        np.testing.assert_array_equal(ours[name].values, theirs[name].values, err_msg=str(name))


def _hash(asked):
    """The hash of a prompt as the journal has it, from what arrived at the server: the template of `worlds.Words`."""
    return hashlib.sha256(f"{asked.prompt}\nassistant:".encode()).hexdigest()
