"""The page of claims that scripts/reproduce makes: of a quick reproduction's own runs, or of every experiment."""

import json
import shutil
from pathlib import Path

import pytest

from experiments import adopted, cli, statistics, store
from scripts import reproduce
from solarjax.cli.errors import UserError
from solarjax.report import stored
from tests.unit.fake_results import fake_config, fake_provenance, fake_results

POLICIES = ("fifo", "lru", "solar", "solar_a")
COMPLETE = [f"cycling-m{m}" for m in (10, 15, 20, 30, 50)] + ["working_set"]


def store_run(folder, code="0" * 16):
    name = folder.name
    data = fake_results(POLICIES, (10,) if name.startswith("cycling") else (10, 20), seeds=4)
    record = fake_provenance(fake_config(data, name), f"solarjax run --out {name}")
    stored.save(folder, data, {**record, "code": code})


@pytest.fixture(scope="module", autouse=True)
def few_resamples():
    """The bootstrap has tests of its own; here it would take most of the time."""
    patch = pytest.MonkeyPatch()
    patch.setattr(statistics, "RESAMPLES", 20)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """`quick` as reproduce leaves it, one of LoCoMo's two runs unfinished, and the page beside it."""
    runs = tmp_path_factory.mktemp("reproduction") / "quick"
    for name in [*COMPLETE, "locomo-P1"]:
        store_run(runs / name)
    words = ["--quick", "--out", str(runs)]
    page = reproduce.claims(reproduce.parse(words), words)
    return runs, page


def test_a_quick_reproduction_has_a_page_marked_as_reduced(made):
    runs, page = made
    assert page == runs.parent / "paper-quick" / "index.html"
    text = page.read_text(encoding="utf-8")
    assert "Reduced:" in text and "solarjax run --out cycling-m50" in text
    assert sorted(p.name for p in (page.parent / "data").iterdir()) == ["cycling", "working_set"]
    claims = {c["id"]: c for c in json.loads((page.parent / "claims.json").read_text())}
    assert claims["S01"]["label"] != "not run" and claims["S01"]["quick"] and claims["S01"]["keys"] == 4
    # What the runs lack is not made up, and what other parts of the project stored is there.
    assert claims["S22"]["label"] == "not run" and claims["S07"]["label"] == "not run"
    assert claims["S12"]["label"] != "not run" and claims["P07"]["label"] != "not run"


def test_rows_are_those_of_the_runs(made):
    runs, page = made
    held = store.load_artefact(page.parent, "cycling")
    data = stored.load(runs / "cycling-m20").data
    wanted = float(data["hit_rate"].sel(policy="solar_a").mean())
    (row,) = [r for r in held.rows if (r.policy, r.x, r.measure) == ("solar_a", 2.0, "hit_rate")]
    assert row.mean == pytest.approx(wanted, abs=1e-7) and row.published == 0.4 and row.n == 4
    assert held.record["quick"] and held.record["command"].startswith("scripts/reproduce --quick")


def test_only_what_changed_is_taken_again(made, tmp_path):
    runs, page = (shutil.copytree(p, tmp_path / p.name) for p in (made[0], made[1].parent))
    files = {name: page / "data" / name / "provenance.json" for name in ("cycling", "working_set")}
    before = {name: file.stat().st_mtime_ns for name, file in files.items()}
    assert adopted.take(runs, page, "again") == ["cycling", "working_set"]
    assert {name: file.stat().st_mtime_ns for name, file in files.items()} == before
    store_run(runs / "cycling-m30", code="1" * 16)
    adopted.take(runs, page, "again")
    assert files["cycling"].stat().st_mtime_ns != before["cycling"]
    assert files["working_set"].stat().st_mtime_ns == before["working_set"]


def test_every_run_it_looks_for_is_one_of_the_quick_plan():
    runs = [run for batch in reproduce.synthetic(True) for run in batch]
    runs += reproduce.dialogues(True, "locomo", (Path("locomo10.json"),))
    wanted = {folder for places in adopted.SOURCES.values() for folder in places.values()}
    assert wanted == {run.name for run in runs}


def test_without_any_known_run_there_is_no_page(tmp_path):
    words = ["--quick", "--out", str(tmp_path / "quick")]
    assert reproduce.claims(reproduce.parse(words), words) is None and list(tmp_path.iterdir()) == []


def test_a_full_reproduction_runs_every_experiment_beside_its_report(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(cli, "main", lambda ids=(), **options: calls.append((ids, options)))
    words = ["--out", str(tmp_path / "full"), "--seeds", "3", "--workers", "2"]
    assert reproduce.claims(reproduce.parse(words), words) == tmp_path / "paper-full" / "index.html"
    ((ids, options),) = calls
    assert ids == () and not options.get("quick") and options["out"] == tmp_path / "paper-full"
    assert options["seeds"] == 3 and options["workers"] == 2
    assert {path.name for path in options["rows"]} == {"full.json", "ledger.json", "claims.json"}


def test_damaged_rows_are_a_user_error(made, tmp_path):
    runs, page = (shutil.copytree(p, tmp_path / p.name) for p in (made[0], made[1].parent))
    (page / "data" / "cycling" / "provenance.json").write_text("{")
    words = ["--quick", "--out", str(runs)]
    with pytest.raises(UserError, match="cycling holds no readable result"):
        reproduce.claims(reproduce.parse(words), words)
