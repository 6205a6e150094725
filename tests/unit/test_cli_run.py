"""`solarjax run`, with the engine replaced by recorded-shape results where its numbers do not matter."""

import json
import os
import shlex
from pathlib import Path

import numpy as np
import pytest

import solarjax.core.sweep
from solarjax.cli.job import Job
from solarjax.cli.main import main
from solarjax.cli.rows import rows
from solarjax.cli.sources import SourceSpec
from solarjax.report import stored
from tests.unit.fake_results import fake_results

BASE = [
    "run",
    "--workload",
    "cycling",
    "--policies",
    "fifo,lru,solar",
    "--capacities",
    "10,20",
    "--seeds",
    "8",
]


@pytest.fixture(autouse=True)
def no_compile_cache(monkeypatch):
    monkeypatch.setenv("SOLARJAX_COMPILE_CACHE", "0")


@pytest.fixture
def engine(monkeypatch):
    """Calls of `sweep`, which returns results of the asked shape and leaves a chunk as the real one does."""
    calls = []

    def sweep(source, policies, capacities, seeds, **options):
        calls.append({"policies": [case.label for case in policies], "seeds": seeds, **options})
        if options["out_dir"] is not None:
            Path(options["out_dir"]).mkdir(parents=True)
            (Path(options["out_dir"]) / "chunk.npz").write_bytes(b"part")
        if options["progress"] is not None:
            options["progress"](1, 1, "done")
        return fake_results(
            tuple(case.label for case in policies), tuple(capacities), seeds=len(seeds),
            steps=8 if options["per_step"] else 0, grid=options["grid"], lambdas=tuple(options["lambdas"]),
        )  # fmt: skip

    monkeypatch.setattr(solarjax.core.sweep, "sweep", sweep)
    return calls


def call(*arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return stop.value.code


def fails(capsys, *arguments):
    """Runs, expects exit code 2 and one line on stderr and nothing on stdout; returns the line."""
    assert call(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1, shown
    return shown.err


def test_table_shows_interval_difference_and_marks_offline_policies(engine, capsys):
    assert call(*BASE[:4], "fifo,solar,oracle", *BASE[5:]) == 0
    out = capsys.readouterr().out
    assert "difference to fifo" in out and "oracle (heuristic, offline)" in out and "±" in out
    lines = [line.split() for line in out.splitlines()]
    data = fake_results(("fifo", "solar", "oracle"), (10, 20))
    mean = float(data["hit_rate"].sel(policy="solar", capacity=20).mean())
    assert ["20", "solar", f"{mean:.3f}"] in [line[:3] for line in lines]


def test_options_reach_the_engine(engine):
    assert 0 == call(
        "run", "--workload", "cycling", "--policies", "fifo,solar(threshold=eoq)", "--param", "lam=1,5",
        "--capacities", "7", "--seeds", "3,9", "--lambda", "0.5,2", "--k", "4", "--quality", "f1",
        "--feedback", "liked", "--like-at", "0.25", "--root-seed", "6", "--memory", "1MB", "--per-step", "-q",
    )  # fmt: skip
    (seen,) = engine
    assert seen["policies"] == ["fifo", "solar(threshold=eoq)"] and seen["seeds"] == [3, 9]
    assert seen["grid"] == {"lam": [1.0, 5.0]} and seen["lambdas"] == (0.5, 2.0)
    assert (seen["k"], seen["quality"], seen["feedback"], seen["like_at"]) == (4, "f1", "liked", 0.25)
    assert (seen["root_seed"], seen["memory_bytes"], seen["per_step"]) == (6, 10**6, True)


def test_json_rows_hold_what_is_promised(engine, tmp_path):
    file = tmp_path / "rows.json"
    assert call(*BASE, "--json", file, "--per-step", "-q") == 0
    found = json.loads(file.read_text())
    assert len(found) == 6
    keys = ["policy", "capacity", "trace", "seeds", "hit_rate", "hit_rate_sd", "precision_at_k", "store_rate"]
    assert list(found[0]) == [*keys, "admissions", "evictions", "final_size", "hits"]
    data = fake_results(steps=8)
    cell = data["hit_rate"].sel(policy="solar", capacity=20).values[0].astype(np.float64)
    row = next(r for r in found if (r["policy"], r["capacity"]) == ("solar", 20))
    assert row["seeds"] == 8 and row["hit_rate"] == pytest.approx(cell.mean(), abs=1e-12)
    assert row["hit_rate_sd"] == pytest.approx(cell.std(ddof=1), abs=1e-12)
    first = data["hits"].sel(policy="solar", capacity=20).values[0, 0]
    assert row["hits"] == "".join(str(bit) for bit in first[2:])  # two of the eight steps are warm-up


def test_rows_of_a_grid_carry_its_values():
    found = rows(fake_results(grid={"lam": [1.0, 5.0]}, seeds=1))
    assert {(r["policy"], r["lam"]) for r in found} >= {("solar", 1.0), ("solar", 5.0)}
    assert found[0]["hit_rate_sd"] is None


def test_json_to_stdout_is_pure(engine, capsys):
    assert call(*BASE, "--json", "-") == 0
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)) == 6 and "hit rate" in shown.err


def test_out_holds_everything_and_a_second_run_computes_nothing(engine, tmp_path, capsys):
    out = tmp_path / "runs" / "one"
    assert call(*BASE, "--out", out) == 0
    assert sorted(p.name for p in out.iterdir()) == ["figures", "provenance.json", "result.nc"]
    assert sorted(p.name for p in (out / "figures").iterdir()) == [
        "cycling-difference.png", "cycling-difference.svg", "cycling.png", "cycling.svg",
    ]  # fmt: skip
    record = json.loads((out / "provenance.json").read_text())
    assert record["command"] == " ".join(["solarjax", *BASE, "--out", str(out)])
    assert record["config"]["source"]["params"]["n_topics"] == 20
    assert record["versions"]["jax"] and record["device"]["count"] >= 1 and len(record["code"]) == 16
    assert engine[0]["out_dir"].name == f"chunks-{record['code']}"
    first = capsys.readouterr().out
    assert call(*BASE, "--out", out) == 0
    assert len(engine) == 1
    assert capsys.readouterr().out == first


def test_the_recorded_command_repeats_the_run():
    source = SourceSpec("workload", "cycling", settings=("n_topics=30",))
    job = Job(source, "fifo,solar(lam=2)", ("alpha=1,2",), (10,), (4, 5), lambdas=(1.0, 3.0), feedback="liked")
    command = job.command(Path("runs/a b"))
    assert command == (
        "solarjax run --workload cycling --set n_topics=30 --policies 'fifo,solar(lam=2)' --param alpha=1,2 "
        "--capacities 10 --seeds 4,5 --lambda 1,3 --feedback liked --out 'runs/a b'"
    )


def test_the_recorded_command_means_the_same_job(engine, tmp_path):
    source = SourceSpec("workload", "topic_drift", settings=("n_topics=20", "overlap=2"))
    job = Job(
        source, "fifo,solar(threshold=eoq)", ("lam=1,5",), (7, 9), (3, 8), lambdas=(0.5, 2.0), k=4, quality="f1",
        feedback="liked", like_at=0.25, root_seed=6, per_step=True, memory_bytes=10**9,
    )  # fmt: skip
    assert call(*shlex.split(job.command(tmp_path))[1:], "-q") == 0
    assert stored.load(tmp_path).config == job.config()
    assert engine[0]["memory_bytes"] == 10**9


def test_out_with_another_configuration(engine, tmp_path, capsys):
    assert call(*BASE, "--out", tmp_path, "-q") == 0
    before = (tmp_path / "result.nc").read_bytes()
    message = fails(capsys, *BASE[:-1], "9", "--out", tmp_path)
    assert "another configuration (seeds:" in message and str(tmp_path) in message
    assert (tmp_path / "result.nc").read_bytes() == before and len(engine) == 1


def test_out_made_by_other_code(engine, tmp_path, capsys, monkeypatch):
    assert call(*BASE, "--out", tmp_path, "-q") == 0
    monkeypatch.setattr("solarjax.provenance.code_fingerprint", lambda: "f" * 16)
    assert "made by other code" in fails(capsys, *BASE, "--out", tmp_path)


def test_unwritable_out_is_known_before_anything_runs(engine, tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert "cannot write to" in fails(capsys, *BASE, "--out", tmp_path / "file" / "deeper")
    assert "is a folder" in fails(capsys, *BASE, "--json", tmp_path)
    assert "cannot write to" in fails(capsys, *BASE, "--json", tmp_path / "file" / "rows.json")
    assert engine == [] and sorted(os.listdir(tmp_path)) == ["file"]


def test_a_failing_write_leaves_no_half_run(engine, tmp_path, capsys, monkeypatch):
    def full(self, *args, **kwargs):
        Path(args[0]).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("xarray.Dataset.to_netcdf", full)
    assert "No space left" in fails(capsys, *BASE, "--out", tmp_path, "-q")
    left = [p.name for p in tmp_path.iterdir()]
    assert len(left) == 1 and left[0].startswith(stored.CHUNKS)  # the finished parts, for another try


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--policies", "fifoo"], r"unknown policy 'fifoo'; did you mean 'fifo'"),
        (["--policies", "solar(lamm=2)"], r"'lamm'"),
        (["--policies", "fifo", "--param", "lam=2"], r"'lam'"),
        (["--workload", "cyclin"], r"unknown workload 'cyclin'; did you mean 'cycling'"),
        (["--set", "n_topic=3"], r"'n_topic'.*n_topics"),
        (["--set", "n_topics=zero"], r"n_topics = 'zero' must be a whole number"),
        (["--set", "n_topics"], r"--set 'n_topics' is not NAME=VALUE"),
        (["--capacities", "0"], r"--capacities 0 is out of range"),
        (["--capacities", "-3"], r"--capacities -3 is out of range"),
        (["--seeds", "none"], r"--seeds 'none' is not a whole number"),
        (["--protocol", "P2"], r"--protocol P2 only applies to dialogues"),
        (["--locomo", "x.json"], r"name one source: .*--workload and --locomo were given"),
        (["--root-seed", "-1"], r"--root-seed -1 is out of range"),
        (["--devices", "0"], r"--devices 0 is out of range"),
        (["--k", "many"], r"--k"),
        (["--nonsense", "1"], r"--nonsense"),
    ],
)
def test_bad_input_is_one_clear_line(engine, capsys, change, message):
    import re

    # A later option of the same name wins, so the change can simply follow.
    assert re.search(message, fails(capsys, *BASE, *change))
    assert engine == []


def test_no_source(engine, capsys):
    assert "name one source: --workload, --trace" in fails(capsys, "run", "--policies", "fifo")


@pytest.mark.parametrize("kind", ["trace", "locomo", "friendsqa", "jsonl", "dialsim"])
def test_missing_files_are_named(engine, capsys, tmp_path, kind):
    path = tmp_path / "nowhere.bin"
    assert str(path) in fails(capsys, "run", f"--{kind}", path, "--policies", "fifo")
    assert "is a folder" in fails(capsys, "run", f"--{kind}", tmp_path, "--policies", "fifo")


def test_a_truncated_trace_and_a_bad_json_line(capsys, tmp_path):
    from solarjax.traces.format import save
    from tests.unit.small_trace import small_trace

    save(small_trace(), tmp_path / "whole.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:-40])
    assert "cut.npz" in fails(capsys, "run", "--trace", tmp_path / "cut.npz", "--policies", "fifo")
    (tmp_path / "bad.jsonl").write_text('{"kind": "item", "id": "a", "embedding": [1, 0]}\n{oops\n')
    assert "bad.jsonl:2" in fails(capsys, "run", "--jsonl", tmp_path / "bad.jsonl", "--policies", "fifo")


def test_the_real_engine_from_a_file_to_the_report(capsys, tmp_path):
    """Two unit vectors, asked for alternately while they arrive: worked out by hand."""
    from solarjax.traces.format import save
    from tests.unit.small_trace import small_trace

    save(small_trace(), tmp_path / "small.npz")
    out = tmp_path / "run"
    assert 0 == call(
        "run", "--trace", tmp_path / "small.npz", "--policies", "fifo", "--capacities", "1,2", "--seeds", "2",
        "--k", "1", "--per-step", "--json", tmp_path / "rows.json", "--out", out,
    )  # fmt: skip
    one, two = json.loads((tmp_path / "rows.json").read_text())
    # The items a, b arrive in turn, each with a question for the other one, which arrived a step before:
    # one slot holds exactly that item; only the very first question finds an empty cache.
    assert (one["hits"], two["hits"]) == ("0111", "0111")
    assert one["evictions"] == 3 and two["evictions"] == 0 and two["final_size"] == 2
    assert call("report", out) == 0
    assert (out / "index.html").read_text().startswith("<!doctype html>")
