"""The full replay as one command: whole sessions within a budget, continued without asking twice, and all it leaves."""

import asyncio
import csv
import json
import re
from datetime import UTC, datetime

import numpy as np
import pytest
import xarray as xr

from scripts.replay import full, publish
from scripts.replay.budget import Budget
from solarjax.cli.errors import run_guarded
from solarjax.replay import tokenizer
from solarjax.replay.journal import FILE
from tests.replay.stand_in import MODEL, Fault, StandIn, in_thread
from tests.replay.worlds import Words, encode

QUESTIONS, LANES = 6, 1 + 2 * 2  # unlimited once, two policies at two capacities


@pytest.fixture
def locomo(tmp_path, monkeypatch):
    """A LoCoMo file of two conversations with six questions each, in all five categories."""
    monkeypatch.setattr(tokenizer, "load", lambda source: Words())
    monkeypatch.setattr("solarjax.cli.replay_source.encoder_of", lambda model, folder: encode)
    monkeypatch.setattr("solarjax.replay.retry.wait_s", lambda *_: 0.0)
    samples = []
    for name in ("conv-1", "conv-2"):
        turns = [{"speaker": "A", "dia_id": f"D1:{i}", "text": f"{name} thing {i} is red"} for i in range(1, 4)]
        asked = [
            {"question": f"what is thing {i} of {name}", "category": 1 + i % 5, "evidence": [f"D1:{1 + i // 2}"]}
            | ({"adversarial_answer": "red"} if i % 5 == 4 else {"answer": f"thing {i}"})
            for i in range(QUESTIONS)
        ]
        dialogue = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
        samples.append({"sample_id": name, "conversation": dialogue, "qa": asked})
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps(samples))
    return path


def run(locomo, tmp_path, *words, out="out"):
    """The exit code of the command."""
    given = ["--locomo", locomo, "--model", MODEL, "--policies", "unlimited,fifo,solar", "--capacities", "4,2"]
    given += ["--work", tmp_path / "work", "--out", tmp_path / out, "--concurrency", 4, *words]
    return run_guarded(lambda: full.main([str(word) for word in given]))


def test_one_command_leaves_everything_and_the_next_asks_nothing(locomo, tmp_path, capsys, monkeypatch):
    with in_thread(StandIn()) as server:
        assert run(locomo, tmp_path, "--server", server.url) == 0
        asked = len(server.asked)
        monkeypatch.setattr(publish.render, "report", lambda *_: [])  # once is enough, and it draws
        assert run(locomo, tmp_path, "--server", server.url, out="again") == 0
        assert len(server.asked) == asked
    assert run(locomo, tmp_path, out="unasked") == 0, "without a server it only writes"
    shown = capsys.readouterr()
    out = tmp_path / "out"
    assert str(out / "report" / "index.html") in shown.out and "2 of 2 sessions are complete" in shown.err
    live, shadow = (
        xr.load_dataset(out / "report" / n / "result.nc", engine="h5netcdf") for n in ("on-policy", "shadow")
    )
    for data, quality in ((live, "answer_f1"), (shadow, "hit")):
        assert data.attrs["quality"] == quality
        assert list(data["trace"].values) == ["conv-1", "conv-2"] and list(data["capacity"].values) == [2, 4]
        assert list(data["category"].values) == ["multi-hop", "temporal", "open-domain", "single-hop", "adversarial"]
        assert float(data["requests"].sum()) == 2 * 3 * 2 * QUESTIONS / 2
    with open(out / "sessions.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    at = {"trace": "conv-2", "policy": "fifo", "capacity": 4, "seed": 0}
    row = next(r for r in rows if (r["session"], r["policy"], r["capacity"]) == ("conv-2", "fifo", "4"))
    assert float(row["answer_f1"]) == pytest.approx(float(live["answer_f1"].sel(at)), abs=1e-6)
    assert {"total_cost_lambda_0.1", "total_cost_lambda_5", "f1_adversarial", "final_size"} <= row.keys()
    correlations = json.loads((out / "report" / "shadow" / "correlation.json").read_text())
    assert [r["over"] for r in correlations if r["capacity"] == 2][-1] == "policies"
    means = (
        live["answer_f1"].sel(capacity=2).mean(["trace", "seed"]),
        shadow["hit_rate"].sel(capacity=2).mean(["trace", "seed"]),
    )
    held = next(r for r in correlations if (r["over"], r["capacity"]) == ("policies", 2))
    assert held["pearson"] is None or held["pearson"] == pytest.approx(np.corrcoef(*means)[0, 1])
    text = (out / "report" / "report.md").read_text()
    assert "quality=answer_f1" in text and "quality=hit" in text and "ranks as the model does" in text
    assert {row["source"] for row in json.loads((out / "ledger.json").read_text())} == {"S22", "S24", "S25"}
    for path in out.rglob("*.json"):
        assert str(tmp_path) not in path.read_text(), path
    for name in ("results.csv", "sessions.csv", "ledger.json", "report/shadow/correlation.json"):
        same = {(tmp_path / folder / name).read_text().split('"command"')[0] for folder in ("out", "again", "unasked")}
        assert len(same) == 1, name


def test_a_budget_gives_whole_sessions_and_the_next_run_the_rest(locomo, tmp_path, capsys, monkeypatch):
    """In the second session the server answers two requests more and then hangs, so the budget ends in its middle."""
    monkeypatch.setattr(publish.render, "report", lambda *_: [])
    server, real = StandIn(), Budget.left_s
    with in_thread(server):
        assert run(locomo, tmp_path, "--server", server.url, "--sessions", "conv-1", out="first") == 0
        first = len(server.asked)
        server.faults = lambda number: Fault("hang") if number >= first + 2 else None
        monkeypatch.setattr(Budget, "left_s", lambda self: min(real(self), 5.0))
        assert run(locomo, tmp_path, "--server", server.url, "--budget-minutes", 5) == 0
        err = capsys.readouterr().err
        assert "the budget has ended within conv-2; its answers are kept" in err
        assert "1 of 2 sessions are complete" in err
        work = tmp_path / "work" / "on-policy" / "conv-2"
        kept = len((work / FILE).read_text().splitlines()) - 1
        assert 0 < kept < QUESTIONS * LANES and not (work / "result.nc").exists()
        data = xr.load_dataset(tmp_path / "out" / "report" / "on-policy" / "result.nc", engine="h5netcdf")
        assert list(data["trace"].values) == ["conv-1"]
        monkeypatch.setattr(Budget, "left_s", lambda self: 0.0)
        between = len(server.asked)
        assert run(locomo, tmp_path, "--server", server.url, "--budget-minutes", 5) == 0
        assert "the budget has ended before conv-1" in capsys.readouterr().err and len(server.asked) == between
        server.faults = {}
        monkeypatch.setattr(Budget, "left_s", real)
        assert run(locomo, tmp_path, "--server", server.url, "--until", "00:00") == 0
        asked = [one.prompt for one in server.asked]
    assert "2 of 2 sessions are complete" in capsys.readouterr().err
    # What was in the air when the budget ended (at most as many as run at a time) may be asked again; nothing else is.
    assert len(asked) - len(set(asked)) <= 4 and first > 0
    with in_thread(StandIn()) as server:
        assert run(locomo, tmp_path, "--server", server.url, "--work", tmp_path / "other", out="whole") == 0
    for name in ("results.csv", "sessions.csv"):
        ours, theirs = (_without_times(tmp_path / folder / name) for folder in ("out", "whole"))
        assert ours == theirs, name


def test_sessions_together_give_the_tables_of_sessions_alone(locomo, tmp_path, monkeypatch):
    monkeypatch.setattr(publish.render, "report", lambda *_: [])
    with in_thread(StandIn(token_s=0.01)) as server:
        assert run(locomo, tmp_path, "--server", server.url, out="alone") == 0
        alone = {asked.prompt for asked in server.asked}
    with in_thread(StandIn(token_s=0.01)) as server:
        together = ["--together", 2, "--concurrency", 8, "--work", tmp_path / "pair"]
        assert run(locomo, tmp_path, "--server", server.url, *together, out="together") == 0
        assert {asked.prompt for asked in server.asked} == alone
    assert [path.name for path in (tmp_path / "pair" / "on-policy").iterdir()] == ["conv-1+conv-2"]
    for name in ("results.csv", "sessions.csv"):
        ours, theirs = (_without_times(tmp_path / folder / name) for folder in ("together", "alone"))
        assert ours == theirs and ours, name


def _without_times(path):
    """Rows of a table without what is measured in seconds, or depends on the server's cache."""
    timed = re.compile("ttft|itl|decision|cached")
    with open(path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [{k: v for k, v in r.items() if not timed.search(k)} for r in rows if not timed.search(r.get("measure", ""))]


def test_a_server_that_dies_is_said_and_what_is_complete_is_written(locomo, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(publish.render, "report", lambda *_: [])
    with in_thread(StandIn()) as server:
        assert run(locomo, tmp_path, "--server", server.url, "--sessions", "conv-1", out="first") == 0
    with in_thread(StandIn(faults=lambda number: Fault("close") if number > 3 else None)) as server:
        assert run(locomo, tmp_path, "--server", server.url) == 2
    err = capsys.readouterr().err
    assert "scripts/replay_full: " in err and "closed the connection" in err
    assert (tmp_path / "out" / "results.csv").exists()
    assert run(locomo, tmp_path / "nothing") == 0
    assert "no session is complete yet, so nothing is written" in capsys.readouterr().err


def test_a_budget_ends_at_the_earlier_limit():
    now = datetime(2026, 12, 1, 6, 50, tzinfo=UTC)
    for minutes, until, seconds in (
        (60, None, 3600), (60, "07:00", 600), (5, "07:00", 300), (None, "6:50", 86400), (None, "00:10", 62400),
    ):  # fmt: skip
        assert Budget.of(minutes, until, now).left_s() == pytest.approx(seconds, abs=5), (minutes, until)
    assert Budget.of(None, None, now).left_s() == float("inf")
    for minutes, until in ((0, None), (-3, None), (None, "24:00"), (None, "soon"), (float("nan"), None)):
        with pytest.raises(ValueError, match="--budget-minutes|--until"):
            Budget.of(minutes, until, now)


def test_work_that_ends_in_time_is_returned_and_a_timeout_of_its_own_is_its_own():
    async def work():
        return 7

    async def late():
        raise TimeoutError("mine")

    assert asyncio.run(Budget.of(1, None, datetime.now(UTC)).within(work())) == 7
    with pytest.raises(TimeoutError, match="mine"):
        asyncio.run(Budget().within(late()))


def test_the_stored_command_names_no_folder_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert full.portable(str(tmp_path / "a" / "b.json")) == "a/b.json"
    assert full.portable("/elsewhere/model") == "model" and full.portable("--tokenizer=/elsewhere/m") == "--tokenizer=m"
    assert full.portable("--limit") == "--limit" and full.portable("http://127.0.0.1:1/v1") == "http://127.0.0.1:1/v1"
