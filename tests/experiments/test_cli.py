"""The command line end to end on a small real sweep: exit codes, one-line errors, a second run, the ledger."""

import json

import pytest

from experiments import policies
from experiments.cli import guarded


@pytest.fixture(scope="module")
def small():
    """The controls and variants are left out: compiling them is what takes the time."""
    patch = pytest.MonkeyPatch()
    patch.setattr(policies, "synthetic", lambda context: "fifo,keep_first")
    yield
    patch.undo()


@pytest.fixture(scope="module")
def out(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    assert guarded(["run", "cycling", "--quick", "--seeds", "4", "--workers", "1", "--out", str(folder)]) == 0
    return folder


def test_a_run_stores_rows_ledger_and_provenance(out):
    record = json.loads((out / "data/cycling/provenance.json").read_text())
    assert record["quick"] and record["seeds"] == 4 and len(record["entries"]) == 5
    assert all(e["command"].startswith("solarjax run --workload cycling") for e in record["entries"].values())
    claims = {c["id"]: c for c in json.loads((out / "claims.json").read_text())}
    assert claims["S01"]["label"] == "holds" and claims["S01"]["keys"] == 4 and claims["S01"]["quick"]
    assert claims["S02"]["label"] == "not run"


def test_a_second_run_computes_nothing(out, small, capsys):
    before = {p: p.stat().st_mtime_ns for p in (out / "runs").rglob("*") if p.is_file()}
    assert guarded(["run", "cycling", "--quick", "--seeds", "4", "--workers", "1", "--out", str(out)]) == 0
    assert "0 entries computed" in capsys.readouterr().out
    assert {p: p.stat().st_mtime_ns for p in (out / "runs").rglob("*") if p.is_file()} == before


def test_render_and_list_read_what_is_stored(out, capsys):
    assert guarded(["render", "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out / "index.html")
    text = (out / "index.html").read_text(encoding="utf-8")
    assert "Reduced:" in text and "solarjax run --workload cycling" in text
    assert guarded(["list", "--out", str(out)]) == 0
    listed = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "rows, quick" in listed["cycling"] and "not stored" in listed["locomo"]


def test_ledger_prints_a_line_per_claim(out, capsys):
    assert guarded(["ledger", "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 37 and lines[0].split()[:2] == ["S01", "holds"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "cycing"], "did you mean 'cycling'"),
        (["run", "cycling", "--data", "/nowhere/at/all"], "/nowhere/at/all is not a folder"),
        (["run", "cycling", "--seeds", "0"], "'--seeds'"),
        (["render", "--out", "/nowhere/at/all"], "holds no results"),
        (["ledger", "--rows", "/nowhere/rows.json"], "no such file"),
        (["run", "--nonsense"], "nonsense"),
        (["make"], "make"),
    ],
)
def test_user_errors_are_one_line_and_exit_2(words, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert guarded(words) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_names_the_commands(capsys):
    assert guarded(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("list", "run", "ledger", "render"))
