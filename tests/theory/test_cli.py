"""The command line: the list, one line for a user's mistake, stored results, key sets, interruption."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from theory import checks, instances, report
from theory.__main__ import app
from theory.define import Finding, define
from theory.families.gate import lock_out
from theory.results import Budget, Check, Verdict

RUN = CliRunner()


def test_list_names_every_check() -> None:
    found = RUN.invoke(app, ["list"])
    assert found.exit_code == 0
    assert [line.split()[0] for line in found.stdout.splitlines()] == list(checks.CHECKS)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["check", "eoq_threshhold"], "nearest is 'eoq_threshold'"),
        (["check", "unlearning_lag", "--keys", "1"], "keys = 1"),
        (["check", "unlearning_lag", "--seed", "-1"], "seed = -1"),
        (["check", "unlearning_lag", "--key-sets", "0"], "--key-sets = 0"),
        (["check", "unlearning_lag", "--resume"], "--resume needs --json"),
        (["replay", "missing.json"], "missing.json"),
        (["figures", "missing.json"], "missing.json: no such file"),
        (["table", "missing.json"], "missing.json: no such file"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(args: list[str], says: str) -> None:
    found = RUN.invoke(app, args)
    assert found.exit_code == 2
    assert len(found.stderr.splitlines()) == 1
    assert says in found.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"lam": -1.0}, "lam = -1.0 must be finite and >= 0"),
        ({"capacity": 4}, "capacity K = 4 is out of range; allowed are 1..N = 3"),
        ({"relevance": [[1e39, 0.0, 0.0]]}, "relevance holds"),  # infinite in float32
        ({"relevance": [[float("inf"), 0.0, 0.0]]}, "relevance holds inf; it must be finite"),
    ],
)
def test_an_impossible_counterexample_is_one_line(tmp_path: Path, change: dict, says: str) -> None:
    value = {
        "format": "solarjax counterexample", "version": 1, "check": "c", "claim": "c", "bound": None, "keys": 1,
        "policy": {"name": "fifo", "parameters": {}}, "root_key": 0, "figures": {"cost": 1, "opt": 1, "ratio": 1},
        "instance": {**instances.to_json(lock_out(1.0, 4)), **change},
    }  # fmt: skip
    path = tmp_path / "c.json"
    path.write_text(json.dumps(value))  # Python writes and reads Infinity, which JSON does not know
    found = RUN.invoke(app, ["replay", str(path)])
    assert (found.exit_code, len(found.stderr.splitlines())) == (2, 1), found.output
    assert says in found.stderr


def plant(monkeypatch: pytest.MonkeyPatch, name: str, verdict: Callable[[Budget], Verdict]) -> list[int]:
    """A check that says what `verdict` returns; the list fills with the seeds it ran on."""
    ran: list[int] = []

    def measure(budget: Budget) -> Finding:
        said = verdict(budget)
        ran.append(budget.root_key)
        return Finding(said, float(budget.root_key), "the seed", "1", {"n": 1}, 1, "")

    found: Check = define(name, f"claim of {name}", "planted")(measure)
    monkeypatch.setitem(checks.CHECKS, name, found)
    return ran


def test_key_sets_that_disagree_are_labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "sure", lambda budget: Verdict.HOLDS)
    plant(monkeypatch, "unsure", lambda budget: Verdict.HOLDS if budget.root_key != 6 else Verdict.UNDECIDED)
    path = tmp_path / "report.json"
    args = ["check", "sure", "unsure", "--seed", "5", "--key-sets", "3", "--json", str(path), "--out", str(tmp_path)]
    found = RUN.invoke(app, args)
    assert found.exit_code == 0, found.stderr
    assert "1 of 2 checks have one verdict on all key sets" in found.stdout
    line = next(x for x in found.stdout.splitlines() if x.startswith("KEY SETS DISAGREE"))
    assert "unsure" in line and "seed 5: holds, seed 6: undecided, seed 7: holds" in line
    stored = report.load(path)
    assert [(r.id, report.seed_of(r)) for r in stored["results"]] == [
        (name, seed) for seed in (5, 6, 7) for name in ("sure", "unsure")
    ]
    assert [(row["id"], row["stable"]) for row in stored["stability"]] == [("sure", True), ("unsure", False)]
    assert stored["stability"][1]["verdicts"] == {"5": "holds", "6": "undecided", "7": "holds"}
    assert {"git", "versions", "device", "seconds", "command", "config"} <= set(stored["provenance"])
    shown = RUN.invoke(app, ["table", str(path)])
    assert shown.exit_code == 0 and shown.stdout.count("| `unsure` | planted | claim of unsure |") == 3


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One check cannot be run at first: the others' rows are kept, and --resume runs what is missing only."""

    def fails(budget: Budget) -> Verdict:
        raise RuntimeError("out of luck")

    first = plant(monkeypatch, "first", lambda budget: Verdict.HOLDS)
    plant(monkeypatch, "second", fails)
    path = tmp_path / "report.json"
    args = ["check", "first", "second", "--json", str(path), "--out", str(tmp_path)]
    found = RUN.invoke(app, args)
    assert found.exit_code == 1 and "could not be run: second (seed 0)" in found.stderr
    assert [r.id for r in report.load(path)["results"]] == ["first"]
    second = plant(monkeypatch, "second", lambda budget: Verdict.REFUTED)
    found = RUN.invoke(app, [*args, "--resume"])
    assert found.exit_code == 0, found.stderr
    assert [r.id for r in report.load(path)["results"]] == ["first", "second"]
    assert (first, second) == ([0], [0])
    other = RUN.invoke(app, [*args, "--resume", "--keys", "9"])
    assert other.exit_code == 2 and "--resume needs the options it was made with" in other.stderr
    assert [r.id for r in report.load(path)["results"]] == ["first", "second"]  # nothing is lost


def test_merging_keeps_every_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The later row of a check stands, rows of others stay, and the provenance of each part is kept."""
    plant(monkeypatch, "old", lambda budget: Verdict.UNDECIDED)
    plant(monkeypatch, "kept", lambda budget: Verdict.HOLDS)
    paths = [tmp_path / f"{n}.json" for n in range(3)]
    for path, names in zip(paths, (["old", "kept"], ["old"], ["kept"]), strict=True):
        plant(monkeypatch, "old", lambda budget, first=path == paths[0]: Verdict.UNDECIDED if first else Verdict.HOLDS)
        assert RUN.invoke(app, ["check", *names, "--json", str(path), "--out", str(tmp_path)]).exit_code == 0
    for more in paths[1:]:
        assert RUN.invoke(app, ["merge", str(paths[0]), str(more), "--json", str(paths[0])]).exit_code == 0
    found = report.load(paths[0])
    assert [(r.id, r.verdict) for r in found["results"]] == [("old", Verdict.HOLDS), ("kept", Verdict.HOLDS)]
    assert [part["checks"] for part in found["provenance"]["parts"]] == [["old"], ["kept"]]
