"""The memory plane's benchmark from end to end: scripted engines on real sockets, interrupted runs, killed runs."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.placemem import crashes, engines, frontend, loop, report, routing, table
from experiments.placemem.cli import guarded
from experiments.placemem.errors import BenchError
from experiments.placemem.loop import Plan
from scripts.plane import databases
from solarjax.replay import processes, server_state
from solarjax.replay.journal import Journal

ROOT = Path(__file__).resolve().parents[2]
SMALL = Plan(turns=15, conditions=("text_cache", "no_invalidation", "full"), first=2, derived=0.4, background=8)


@pytest.fixture(scope="module")
def nodes():
    with engines.standin([400, 400]) as made:
        yield made


@pytest.fixture
def front(nodes, tmp_path):
    with frontend.Frontend(nodes, tmp_path) as made:
        yield made


def lines(folder, front, plan, until=None):
    with Journal(folder / "journal.jsonl", {"plan": repr(plan)}) as journal:
        done = loop.execute(plan, front, journal, until=until, say=lambda text: None)
        return done, journal.records


def without_times(records):
    kept = {loop.key(r): {k: v for k, v in r.items() if not k.endswith("_ms")} for r in records}
    assert len(kept) == len(records), "no line is there twice"
    return kept


@pytest.fixture(scope="module")
def whole(nodes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    with frontend.Frontend(nodes, folder) as made:
        done, records = lines(folder, made, SMALL)
    assert done
    return records


def test_only_the_plane_is_right_after_corrections_and_every_prediction_is_exact(whole):
    turns = {c: [r for r in whole if r["type"] == "turn" and r["condition"] == c] for c in SMALL.conditions}
    assert all(len(mine) == SMALL.turns for mine in turns.values())
    assert all(r["predicted"] == r["cached"] for mine in turns.values() for r in mine)
    assert sum(r["cached"] for r in turns["full"]) > 0.4 * sum(r["prompt_tokens"] for r in turns["full"])
    after = {c: [r for r in mine if r["after"]] for c, mine in turns.items()}
    assert len(after["full"]) >= 6 and {r["wants"] for r in after["full"]} == {"fact", "derived"}
    for r in turns["full"]:
        assert r["right"] and not r["old"] and not r["stale"]
    for r in turns["no_invalidation"]:
        assert r["stale"] == r["old"] == r["after"] == (not r["right"])
        assert all(name.endswith("@1") for name in r["capsules"])
    for r in turns["text_cache"]:  # a store of texts does not know what was derived
        assert r["stale"] == r["old"] == (r["after"] and r["wants"] == "derived") == (not r["right"])
    corrections = [r for r in whole if r["type"] == "correction"]
    assert {r["condition"] for r in corrections} == {"no_invalidation", "full"} and len(corrections) == 6
    assert all(r["ended"] == 2 for r in corrections), "the fact and what was derived from it"


def test_the_choice_is_a_second_look_that_changes_nothing(whole, front, tmp_path):
    """The same workload with it: every turn is placed, predicted and reused as without."""
    done, records = lines(tmp_path, front, replace(SMALL, choose=True))
    assert done
    follows = {loop.key(r): r["follows"] for r in records if r["type"] == "turn"}
    for r in records:
        if r["type"] == "turn":
            assert r["follows"] == (r["right"] if r["after"] else None)
    assert sum(value is not None for value in follows.values()) >= 18 and set(follows.values()) == {True, False, None}
    changed = {key: {**r, "follows": None} for key, r in without_times(records).items()}
    assert {key: {**r, "follows": None} for key, r in without_times(whole).items()} == changed


def test_an_interrupted_run_continues_to_the_same_figures(whole, front, tmp_path):
    (tmp_path / "journal.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in [{"config": {"plan": repr(SMALL)}}, *whole[:23]]) + '{"torn'
    )
    done, records = lines(tmp_path, front, SMALL)
    assert done and records[:23] == whole[:23], "what was answered is not asked again"
    assert without_times(records) == without_times(whole)


def test_a_time_limit_stops_between_turns(front, tmp_path):
    done, records = lines(tmp_path, front, SMALL, until=time.monotonic())
    assert not done and records == []


def test_a_request_that_is_refused_stops_the_run_with_one_clear_error(front):
    front.tenant("t")
    with pytest.raises(BenchError, match="refused with 404"):
        front.ask("t", "hello", rule="round_robin", capsules=["missing"])
    assert front.ask("t", "hello", rule="round_robin", max_tokens=4).text == "I do not know."


def test_routing_rules_do_what_they_are_named_for(front, tmp_path):
    load = routing.Load("tiny", capsules=5, requests=14, sentences=6)
    with Journal(tmp_path / "routing.jsonl", {}) as journal:
        routing.execute(front, "equal", [load], 1, journal, say=lambda text: None)
        records = list(journal.records)
        routing.execute(front, "equal", [load], 1, journal, say=lambda text: None)
        assert journal.records == records, "complete cells are kept"
    by = {rule: [r for r in records if r["rule"] == rule] for rule in routing.RULES}
    assert all(len(mine) == 14 for mine in by.values()) and all(r["predicted"] == r["cached"] for r in records)
    placed = {rule: [r["node"] for r in mine] for rule, mine in by.items()}
    assert placed["round_robin"] in (["a", "b"] * 7, ["b", "a"] * 7)
    for rule, field in (("session_sticky", "session"), ("consistent_hash", "capsule")):
        assert len({(r[field], r["node"]) for r in by[rule]}) == len({r[field] for r in by[rule]})
    # With room for all, a capsule is computed once where it stays on one node, and on both in turn.
    seen, repeats = set(), 0
    for r in by["kv_aware"]:
        repeats += r["capsule"] in seen
        assert bool(r["cached"]) == (r["capsule"] in seen)
        seen.add(r["capsule"])
    found = {(r.condition, r.measure): r.value for r in table_rows(records)}
    assert found["kv_aware", "reuse"] >= found["round_robin", "reuse"] and repeats > 3


def table_rows(records):
    return [row for row in routing.rows("routing", records) if isinstance(row, table.Row)]


def test_the_command_line_from_run_to_report(tmp_path, capsys):
    where = ["--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")]
    words = ["run", "pilot", "--quick", "--turns", "6", "--conditions", "no_invalidation,full", *where]
    assert guarded(words) == 0
    assert guarded(["list", *where[:2]]) == 0
    said = capsys.readouterr().out
    assert "pilot            scripted engines" in said and "[not stored]" in said
    stored = report.load(tmp_path / "out")["pilot"]
    assert stored["complete"] and stored["config"]["turns"] == 6
    assert stored["command"].startswith("python -m experiments.placemem run pilot --quick --turns 6 --conditions")
    page = (tmp_path / "out" / "report.md").read_text()
    assert "| P02 | stale selections without invalidation, none with it (pilot) | holds under" in page
    for file in (tmp_path / "out").iterdir():
        text = file.read_text()
        assert str(ROOT) not in text and str(tmp_path) not in text and "127.0.0.1" not in text, file.name
    # Once more: nothing is asked again, and the page is the same but for the time it took.
    journal = next((tmp_path / "work").iterdir())
    before = journal.read_bytes()
    assert guarded(words) == 0 and journal.read_bytes() == before


def test_killed_writers_are_a_part_of_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr(crashes, "FEW", 3)
    monkeypatch.setattr(databases, "available", lambda: ("sqlite",))
    where = ["--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")]
    assert guarded(["run", "crash", "--quick", *where]) == 0
    stored = report.load(tmp_path / "out")["crash"]
    found = {row["measure"]: row["value"] for row in stored["rows"]}
    assert stored["complete"] and found["problems"] == 0 and found["kills"] == 3 and found["acknowledged writes"] > 3
    page = (tmp_path / "out" / "report.md").read_text()
    assert (
        "## crash: writers killed" in page
        and "After every kill it was checked" in page
        and "| sqlite | 0 | 3 |" in page
    )


def test_what_a_killed_writer_left_wrong_is_counted_and_named():
    record = {"type": "crash", "database": "sqlite", "kills": 2, "acknowledged": 9, "committed_unacknowledged": 1,
              "operations": {"create": 9}, "problems": ["kill 0: first", "b", "c", "d"]}  # fmt: skip
    (bad,) = [row for row in crashes.crash_rows("crash", [record]) if row.measure == "problems"]
    assert bad.value == 4 and bad.n == 2
    assert [note["text"] for note in crashes.problems([record])] == ["On sqlite: kill 0: first; b; c."]
    assert crashes.problems([record | {"problems": []}]) == []


def test_kills_that_give_no_result_are_an_error_and_are_not_kept(tmp_path, monkeypatch):
    broken = subprocess.CompletedProcess([], 1, "", "Traceback\nValueError: no\n")
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: broken)
    with Journal(tmp_path / "j.jsonl", {}) as journal:
        with pytest.raises(BenchError, match="sqlite gave no result .exit code 1.: ValueError: no"):
            crashes.crashes(tmp_path, ["sqlite"], 1, journal, lambda text: None)
        assert journal.records == []


def test_killing_a_run_stops_its_servers(tmp_path):
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    found = processes.find(victim.pid)
    record = server_state.Record(
        name="victim", pid=victim.pid, started=found.started, port=1, model="m", path="p", log=str(tmp_path / "log"),
        options="", started_at=time.time(),
    )  # fmt: skip
    server_state.write(tmp_path, record)
    program = (
        "import sys, time, pathlib\nfrom experiments.placemem import engines\n"
        "with engines.guarded(['victim'], pathlib.Path(sys.argv[1])):\n print('ready', flush=True)\n time.sleep(600)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert run.stdout.readline() == b"ready\n" and victim.poll() is None
        run.send_signal(signal.SIGKILL)
        run.wait(timeout=30)
        assert victim.wait(timeout=60) == -signal.SIGTERM
        deadline = time.monotonic() + 30
        while server_state.read(tmp_path, "victim") is not None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        run.stdout.close()
        for process in (victim, run):
            process.kill()
            process.wait()
