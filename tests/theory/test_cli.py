"""The command line: the list, one line for a user's mistake, stored results, and a false formula that is caught."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from theory import checks
from theory.__main__ import app
from theory.define import Finding, define
from theory.results import Budget, CheckResult, Verdict

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
        (["replay", "missing.json"], "missing.json"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(args: list[str], says: str) -> None:
    found = RUN.invoke(app, args)
    assert found.exit_code == 2
    assert len(found.stderr.splitlines()) == 1
    assert says in found.stderr


def test_a_false_formula_is_refuted_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @define("planted", "the sum of the first n odd numbers is n^2 + 1", "planted")
    def planted(budget: Budget) -> Finding:
        total = float(sum(range(1, 20, 2)))
        verdict = Verdict.HOLDS if total == 101 else Verdict.REFUTED
        return Finding(verdict, total, "sum", "1", {"n": 10}, 1, "", predicted=101.0)

    monkeypatch.setitem(checks.CHECKS, "planted", planted)
    path = tmp_path / "report.json"
    found = RUN.invoke(app, ["check", "planted", "--key-sets", "2", "--json", str(path), "--out", str(tmp_path)])
    assert found.exit_code == 0, found.stderr
    report = json.loads(path.read_text())
    rows = [CheckResult.from_json(row) for row in report["results"]]
    assert [row.verdict for row in rows] == [Verdict.REFUTED, Verdict.REFUTED]
    assert [row.command.split()[-1] for row in rows] == ["0", "1"]
    assert report["provenance"]
