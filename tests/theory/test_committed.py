"""The stored full run against the registry, its counterexamples against exact OPT, and the README against both."""

import re
from pathlib import Path

import pytest

from theory import report
from theory.checks import CHECKS
from theory.replay import load, replay
from theory.results import Verdict

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "reports" / "theory"
README = (ROOT / "theory" / "README.md").read_text(encoding="utf-8")
FULL = report.load(STORED / "full.json")
KEY_SETS = report.load(STORED / "key-sets.json")
ROWS = {row.id: row for row in FULL["results"]}
NO_SHORT_INSTANCE = {
    # Statements about limits, rates, regret, or means over workloads: no single short instance breaks them.
    "yao": "a mean over random requests",
    "regularity_rate": "a share of epochs",
    "stationary_cr": "a limit in T",
    "ema_fixed_point": "a limit in T",
    "tau_star": "a limit in T",
    "admission_rate": "a rate",
    "eoq_dimension": "a cost per step",
    "regret_phases": "regret",
    "minimax_k": "regret",
    "regret_as_run": "regret",
    "regret_fresh": "regret",
    "both_guarantees": "regret",
    "fifo_regret_formula": "regret",
    "synergy": "hit rates of a workload",
    "release_rate": "a rate",
    "kstar": "hit rates of a workload",
    "ablate_touch": "hit rates of a workload",
}
FILES = sorted({ROWS[name].counterexample for name in ROWS} - {None})


def test_the_stored_rows_are_the_registrys():
    assert FULL["format"] == report.FORMAT and FULL["version"] == report.VERSION
    assert set(ROWS) <= set(CHECKS) and len(FULL["results"]) == len(ROWS)
    # What the stored run lacks is named in the README, and nothing else is.
    line = re.search(r"^Not in the stored full run:(.*?)$", README, flags=re.MULTILINE)
    assert set(CHECKS) - set(ROWS) == set(re.findall(r"`(\w+)`", line.group(1) if line else ""))
    for name, row in ROWS.items():
        assert (row.claim, row.source) == (CHECKS[name].claim, CHECKS[name].source)
        assert f"check {name} --full" in row.command and row.sizes and row.keys >= 1
    assert {row["id"] for row in FULL["stability"]} == set(ROWS)


def test_the_stored_run_says_where_it_comes_from():
    sources = [FULL["provenance"], *FULL["provenance"].get("parts", [])]
    for source in sources:
        assert re.fullmatch(r"[0-9a-f]{40}", source["git"]["sha"])
        assert {"python", "jax", "numpy", "optax"} <= set(source["versions"])
        assert source["device"]["platform"] and source["seconds"] > 0
        assert source["command"].startswith("python -m theory check") and "--full" in source["command"]
        assert source["config"]["full"] and source["config"]["keys"] >= 100 and len(source["config"]["theory"]) == 16


def test_every_refuted_row_has_a_short_counterexample_or_a_reason():
    refuted = {name for name, row in ROWS.items() if row.verdict is Verdict.REFUTED}
    without = {name for name in refuted if ROWS[name].counterexample is None}
    assert without <= set(NO_SHORT_INSTANCE), without - set(NO_SHORT_INSTANCE)
    assert len(refuted - without) >= 8


@pytest.mark.parametrize("path", FILES, ids=lambda p: Path(p).stem)
def test_a_stored_counterexample_replays(path):
    _, one, stored = load(ROOT / path)
    assert one.num_steps <= 24
    again = replay(ROOT / path, out=None)
    assert again.matches
    assert abs(again.ratio - stored["figures"]["ratio"]) <= 1e-9 * max(1.0, again.ratio)
    assert again.opt > 0 and again.ratio >= 1 - 1e-9
    row = ROWS[next(name for name in ROWS if ROWS[name].counterexample == path)]
    if row.verdict is Verdict.REFUTED and stored["bound"] is not None:
        assert again.ratio > stored["bound"]


def test_the_stored_files_are_small():
    assert sum(path.stat().st_size for path in STORED.rglob("*") if path.is_file()) < 2_500_000


def test_verdicts_agree_over_three_key_sets():
    rows = {row["id"]: row for row in KEY_SETS["stability"]}
    assert set(rows) == set(CHECKS)
    assert all(set(row["verdicts"]) == {"0", "1", "2"} for row in rows.values())
    own = {name: {str(r.verdict) for r in KEY_SETS["results"] if r.id == name} for name in rows}
    assert all(row["stable"] == (len(own[name]) == 1) for name, row in rows.items())
    # What differs is named in the README, and nothing else is.
    line = re.search(r"^Not the same on all three key sets:(.*?)$", README, flags=re.MULTILINE)
    assert {n for n, row in rows.items() if not row["stable"]} == set(re.findall(r"`(\w+)`", line[1] if line else ""))


def test_the_stored_figures_are_those_of_the_report():
    plots = [plot["name"] for row in FULL["results"] for plot in row.data.get("plots", [])]
    assert len(plots) == len(set(plots)) >= 10
    assert sorted(path.stem for path in (STORED / "figures").glob("*.svg")) == sorted(plots)


def test_the_readme_derives_every_corrected_statement():
    """Each check whose claim is a correction has a section that names it, and each section names a check."""
    sections = {
        name: body for name, body in re.findall(r"^### (.+?)\n(.+?)(?=^##)", README, flags=re.MULTILINE | re.DOTALL)
    }
    named = {name for title in sections for name in re.findall(r"`(\w+)`", title)}
    assert named <= set(CHECKS)
    corrected = {name for name, check in CHECKS.items() if check.claim.startswith("Corrected")}
    assert len(corrected) >= 8 and corrected <= named, corrected - named
    assert all(len(body.split()) > 25 for body in sections.values())


def test_the_readmes_table_is_the_stored_one():
    block = re.search(r"<!-- table: .*?-->\n(.*)<!-- end of table -->", README, flags=re.DOTALL)
    assert block and block.group(1).strip() == report.markdown(FULL["results"])
