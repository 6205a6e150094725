"""The loop: order, feedback, resuming after SIGKILL at random points, and errors on the way."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from solarjax.replay import dataset, run
from solarjax.replay.errors import ServerDown
from solarjax.replay.journal import FILE, Journal, JournalError
from tests.replay.child import CONFIG, LONG, replay
from tests.replay.stand_in import MODEL, StandIn, in_thread
from tests.replay.worlds import Model, Words, encode, plan, session


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(plan, records, what the model was asked) of one uninterrupted replay."""
    what, model = plan(), Model()
    return what, replay(tmp_path_factory.mktemp("whole") / FILE, what, model), model.asked


def same(records):
    """Records without what differs between runs, in the fixed order."""
    return [
        {k: v for k, v in r.items() if k not in ("decision_s", "from_cache", "sent")}
        for r in sorted(records, key=lambda r: r["order"])
    ]


def test_every_lane_asks_every_question_once(whole):
    what, records, _ = whole
    assert sorted(r["order"] for r in records) == list(range(what.total()))
    lanes = {}
    for r in records:
        lanes.setdefault((r["session"], r["policy"], r["capacity"], r["seed"]), []).append(r)
    assert len(lanes) == 2 * 2 * 2
    for rows in lanes.values():
        assert sorted(r["question"] for r in rows) == sorted(q.id for q in session("a").questions)
        assert [r["scored"] for r in rows] == [False] * 4 + [True] * 4
        # What is retrieved was asked before in this lane, and capacity 2 holds.
        assert all(p < r["position"] for r in rows for p in r["retrieved"])
        assert all(r["size"] <= 2 and len(r["retrieved"]) <= 2 for r in rows)


class Numbered(Model):
    """Says in its answer the how-manieth question it was; early ones take longest, so answers come in another order."""

    async def chat(self, messages, sampling):
        number = len(self.asked)
        done = await super().chat(messages, sampling)
        await asyncio.sleep(0.002 * (number % 3 == 0))
        return replace(done, text=f"number {number}")


def test_the_model_of_one_session_is_asked_in_the_recorded_order(tmp_path):
    records = replay(tmp_path / FILE, plan(names=("a",)), Numbered())
    by_order = sorted(records, key=lambda r: r["order"])
    assert [r["text"] for r in by_order] == [f"number {i}" for i in range(32)]
    assert [r["sent"] for r in by_order] == list(range(32))


def test_across_sessions_the_order_is_what_happened(tmp_path):
    what = plan()
    records = replay(tmp_path / FILE, what, Numbered())
    assert [r["text"] for r in sorted(records, key=lambda r: r["sent"])] == [f"number {i}" for i in range(64)]
    for name in ("a", "b"):
        own = [r for r in records if r["session"] == name]
        assert sorted(own, key=lambda r: r["sent"]) == sorted(own, key=lambda r: r["order"])
    # The sessions run side by side, so the plan's order is not what happened.
    assert [r["sent"] for r in sorted(records, key=lambda r: r["order"])] != list(range(64))
    data = dataset.assemble(what, records, {})
    held = data["step_sent"].sel(trace="b", policy="lru", capacity=2, seed=1).values
    assert list(held) == [r["sent"] for r in records if (r["session"], r["policy"], r["seed"]) == ("b", "lru", 1)]


def test_sessions_run_side_by_side_within_the_limit(tmp_path):
    """Four lanes in each of two sessions, every answer late: more than one session's lanes are in flight."""
    server = StandIn(token_s=0.03)
    what = plan("fifo", seeds=(0, 1, 2, 3), n=4)
    with in_thread(server):
        of = run.Server(server.url, MODEL, Words(), concurrency=6)
        asyncio.run(run.execute(what, {"kind": "test"}, encode, tmp_path, of))
    assert len(what.lanes()) == 4 < server.most_in_flight <= 6


def test_a_continued_replay_goes_on_counting(tmp_path, whole):
    what, records, _ = whole
    path = tmp_path / FILE
    old = [{k: v for k, v in r.items() if k != "sent"} for r in records[:5]]
    path.write_text("\n".join(map(json.dumps, [{"config": CONFIG}, *old, *records[5:30]])) + "\n")
    again = replay(path, what, Model())
    last = max(r["sent"] for r in records[:30])
    assert sorted(r["sent"] for r in again[30:]) == [last + i for i in range(1, 35)]
    # What an older journal lacks is missing in the dataset, and nothing else is.
    sent = dataset.assemble(what, again, {})["step_sent"].values
    assert np.isnan(sent).sum() == 5


def test_seeds_order_questions_differently_and_policies_of_a_seed_alike(whole):
    _, records, _ = whole

    def order(policy, seed):
        rows = [r for r in records if (r["session"], r["policy"], r["seed"]) == ("a", policy, seed)]
        return [r["question"] for r in sorted(rows, key=lambda r: r["position"])]

    assert order("fifo", 0) == order("lru", 0) != order("fifo", 1)


def test_prompts_carry_the_experiences_and_the_right_answer_after_a_dislike(whole):
    _, records, asked = whole
    disliked = [r for r in records if r["f1"] < 0.5]
    liked = [r for r in records if r["f1"] >= 0.5]
    assert disliked and liked, "the model is neither always right nor always wrong"
    assert any("(this was wrong; right: colour" in text for text in asked)
    assert any("(this was wrong; right: not mentioned" in text for text in asked)
    assert any("(this was right)" in text for text in asked)


def test_fifo_evicts_the_oldest_by_hand(whole):
    _, records, _ = whole
    rows = sorted(
        (r for r in records if (r["session"], r["policy"], r["seed"]) == ("a", "fifo", 0)), key=lambda r: r["position"]
    )
    # K = 2 and everything is admitted: from the third on, item t - 2 leaves.
    assert [r["evicted"] for r in rows] == [-1, -1, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_a_continued_replay_asks_only_what_is_missing(tmp_path, whole, cut):
    what, records, _ = whole
    path = tmp_path / FILE
    lines = [json.dumps({"config": CONFIG}), *map(json.dumps, records[:cut])]
    # The last line was being written when the process died.
    path.write_text("\n".join(lines) + "\n" + json.dumps(records[cut])[:40])
    model = Model()
    again = replay(path, what, model)
    assert same(again) == same(records)
    assert len(model.asked) == what.total() - cut


def test_answers_that_came_are_kept_when_the_server_dies(tmp_path, whole):
    what, records, _ = whole

    class Dying(Model):
        async def chat(self, messages, sampling):
            if len(self.asked) >= 11:
                raise ServerDown("nothing answers")
            return await super().chat(messages, sampling)

    path, dying = tmp_path / FILE, Dying()
    with pytest.raises(ServerDown):
        replay(path, what, dying)
    assert len(path.read_text().splitlines()) - 1 == 11
    model = Model()
    assert same(replay(path, what, model)) == same(records)
    assert len(model.asked) == what.total() - 11


def test_another_replay_and_a_second_process_are_refused(tmp_path):
    path = tmp_path / FILE
    with Journal(path, {"k": 3, "model": {"name": "a"}}) as journal:
        journal.append({"x": 1})
        with pytest.raises(JournalError, match="in use by another process"):
            Journal(path, {"k": 3, "model": {"name": "a"}})
    with pytest.raises(JournalError, match='model.name: "a" there, "b" asked'):
        Journal(path, {"k": 3, "model": {"name": "b"}})
    path.write_text("{\nnonsense\n")
    with pytest.raises(JournalError, match="is damaged"):
        Journal(path, {})


def test_a_full_disk_is_reported_and_costs_nothing(tmp_path):
    """A file size limit makes write() fail half-way, as a full disk does."""
    path = tmp_path / FILE
    code = f"""
import resource, signal, sys
from pathlib import Path
from solarjax.replay.journal import Journal, JournalError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path({str(path)!r}), {{}})
journal.append({{"n": 0}})
resource.setrlimit(resource.RLIMIT_FSIZE, (path_size := Path({str(path)!r}).stat().st_size + 10, path_size))
try:
    journal.append({{"n": "a long record that does not fit"}})
except JournalError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cannot write" in done.stdout and "the same command continues" in done.stdout
    with Journal(path, {}) as journal:
        assert journal.records == [{"n": 0}]
        journal.append({"n": 1})
    assert path.read_text().splitlines()[1:] == ['{"n": 0}', '{"n": 1}']


def test_killed_ten_times_the_dataset_is_the_same(tmp_path):
    what = plan(n=LONG)
    records = replay(tmp_path / "whole.jsonl", what, Model())
    path = tmp_path / FILE
    rng = random.Random(7)
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "xla")}
    command = [sys.executable, "-m", "tests.replay.child", str(path)]
    kills = 0
    while True:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        if kills < 10:
            # A line is a settled round; the kill comes at a random moment after the first to third of them.
            for _ in range(rng.randint(1, 3)):
                assert process.stdout.readline(), "the replay ended before it was killed ten times"
            time.sleep(rng.random() * 0.03)
            process.send_signal(signal.SIGKILL)
        process.stdout.read()
        process.stdout.close()
        code = process.wait()
        if code != -signal.SIGKILL:
            break
        kills += 1
    assert (kills, code) == (10, 0)
    with Journal(path, CONFIG) as journal:
        resumed = journal.records
    assert same(resumed) == same(records)
    ours, theirs = (dataset.assemble(what, r, {}) for r in (resumed, records))
    for name in set(ours.data_vars) - dataset.MEASURED:
        np.testing.assert_array_equal(ours[name].values, theirs[name].values, err_msg=str(name))
