"""Verdicts of the memory plane's benchmark are functions of stored figures: they follow an edited one."""

import json

import numpy as np
import pytest

from experiments import external
from experiments import ledger as book
from experiments.claims.registry import CLAIMS
from experiments.placemem import controls, ledger, report, table
from experiments.placemem.cli import guarded
from experiments.placemem.loop import Plan
from experiments.placemem.parts import PARTS, Outcome
from tests.support.placemem_turns import turn


def world():
    """Stored parts in which every claim is true."""
    rng = np.random.default_rng(0)
    jitter = rng.uniform(0.99, 1.01, (6, 48))
    speed = {"prompt_only": 500, "text_no_cache": 400, "text_cache": 360, "text_hash": 200, "no_invalidation": 180,
             "full": 180}  # fmt: skip
    records = []
    for j, (condition, ms) in enumerate(speed.items()):
        for i in range(48):
            wrong = condition == "no_invalidation" and i >= 21
            cached = {"prompt_only": 0, "text_no_cache": 0}.get(condition, 4400)
            records.append(turn(condition, i, ttft_ms=ms * jitter[j, i], engine_ms=ms * jitter[j, i], after=i >= 21,
                                prompt_tokens=4700, cached=cached, predicted=cached, right=not wrong, old=wrong,
                                follows=not wrong if i >= 21 else None,
                                stale=None if condition == "prompt_only" else wrong and i >= 31))  # fmt: skip
    full = [turn("full", i, repeat=r) for r in range(3) for i in range(340)]
    cascades = [{"synchronous": "full", "dependants": n, "nth": i, "ended": n + 1, "wall_ms": 0.9 + i / 100,
                 "cpu_ms": 0.5 + i / 100}
                for n in (0, 1, 10) for i in range(5)]  # fmt: skip
    modes = (("snapshot", {}), ("hot", {}), ("ttl", {"stale": 9}), ("two_reads", {"torn": 2}))
    stress = [{"database": database, "mode": mode, "violations": bad, "admissions": 1000, "corrections": 50,
               "close": 40, "fenced": 900, "refused": 3, "lost_races": 50, "corrections_per_s": 20.0, "seconds": 60.0,
               "kept": 300 * (mode == "hot"), "readmitted": 3 * (mode == "hot")}
              for database in ("sqlite", "postgresql") for mode, bad in modes]  # fmt: skip
    rows = {
        "pilot": table.rows("pilot", records, True), "trace": table.rows("trace", records, True),
        "probe": table.rows("probe", records), "deployment": table.rows("deployment", full),
        "invalidation": controls.invalidation_rows("invalidation", cascades),
        "concurrency": controls.concurrency_rows("concurrency", stress),
    }  # fmt: skip
    config = {"turns": 340, "repeats": 3, "databases": ["sqlite", "postgresql"]}
    return {name: Outcome(PARTS[name], config, [], found, True, 1.0) for name, found in rows.items()}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    out = tmp_path_factory.mktemp("placemem")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "RESAMPLES", 200)
        for name, outcome in world().items():
            report.save(outcome, out, f"python -m experiments.placemem run {name}")
    return out


def verdicts(out):
    return {result.id: str(result.verdict) for result in ledger.results(report.load(out))}


def test_all_claims_hold_where_they_are_true(stored):
    found = ledger.results(report.load(stored))
    assert {str(r.verdict) for r in found} == {"holds"}, [(r.id, str(r.verdict), r.figure) for r in found]
    assert {r.source for r in found} == {f"P0{i}" for i in range(1, 8)} and len(found) == len(ledger.JUDGES)


# part, condition, measure, versus, what is written, row of the ledger, the verdict that must follow
EDITS = [
    ("probe", "full", "TTFT ms change", "prompt_only", {"value": -0.5, "low": -0.55, "high": -0.4}, "p01-vLLM",
     "refuted"),
    ("probe", "full", "TTFT ms change", "prompt_only", {"high": -0.5}, "p01-vLLM", "undecided"),
    ("probe", "full", "TTFT ms change", "prompt_only", {"n": 47}, "p01-vLLM", "undecided"),
    ("pilot", "full", "stale selections", "", {"value": 1.0}, "p02-pilot", "refuted"),
    ("pilot", "no_invalidation", "stale selections", "", {"value": 0.0}, "p02-pilot", "refuted"),
    ("trace", "no_invalidation", "stale selections", "", {"value": 27.0}, "p02-trace", "holds under"),
    ("invalidation", "1 dependants", "correction ms", "", {"high": 2.0}, "p03-wall time", "undecided"),
    ("invalidation", "1 dependants", "correction CPU ms", "", {"low": 1.2, "high": 2.0}, "p03-CPU time", "refuted"),
    ("probe", "no_invalidation", "follows correction", "", {"value": 0.3, "low": 0.1, "high": 0.5}, "p04-without",
     "refuted"),
    ("probe", "full", "follows correction", "", {"value": 0.5, "low": 0.3, "high": 0.7},
     "p04-full p05-accuracy", "refuted"),
    ("probe", "full", "TTFT ms change", "no_invalidation", {"high": 0.2}, "p04-wall time", "undecided"),
    ("probe", "full", "engine CPU ms change", "no_invalidation", {"low": 0.06, "high": 0.2}, "p04-CPU time", "refuted"),
    ("probe", "text_no_cache", "follows correction", "", {"value": 0.5, "high": 0.7}, "p05-accuracy", "refuted"),
    ("probe", "text_cache", "TTFT ms change", "full", {"low": 0.2}, "p05-prefix cache on", "undecided"),
    ("probe", "text_cache", "TTFT ms change", "full", {"low": 0.1, "high": 0.3}, "p05-prefix cache on", "refuted"),
    ("probe", "no_invalidation", "follows correction", "", {"n": 6}, "p04-without", "holds under"),
    ("deployment", "full", "TTFT ms", "", {"n": 400}, "p06", "holds under"),
    ("concurrency", "snapshot", "violations", "", {"value": 1.0}, "p07", "refuted"),
    ("concurrency", "ttl", "violations", "", {"value": 0.0}, "p07", "undecided"),
    ("concurrency", "snapshot, postgresql", "violations", "", {"value": 2.0}, "p07", "refuted"),
    ("concurrency", "hot", "violations", "", {"value": 1.0}, "p07", "refuted"),
    ("concurrency", "hot, postgresql", "violations", "", {"value": 1.0}, "p07", "refuted"),
    ("concurrency", "hot, postgresql", "violations", "", {"value": None}, "p07", "holds under"),
    ("concurrency", "hot", "kept", "", {"value": 0.0}, "p07", "undecided"),
    ("concurrency", "hot, postgresql", "close", "", {"value": 0.0}, "p07", "undecided"),
]  # fmt: skip


@pytest.mark.parametrize(("part", "condition", "measure", "versus", "change", "row", "verdict"), EDITS)
def test_a_verdict_follows_an_edited_figure(stored, part, condition, measure, versus, change, row, verdict):
    path = stored / f"{part}.json"
    text = path.read_text()
    data = json.loads(text)
    (found,) = [
        r for r in data["rows"]
        if (r["family"], r["condition"], r["measure"], r["versus"]) == ("all", condition, measure, versus)
    ]  # fmt: skip
    found.update(change)
    before = verdicts(stored)
    try:
        path.write_text(json.dumps(data))
        after = verdicts(stored)
    finally:
        path.write_text(text)
    moved = [name for name in before if before[name] != after[name]]
    assert " ".join(moved) == row and {before[name] for name in moved} == {"holds"}
    assert {after[name] for name in moved} == {verdict}


def test_the_ledger_takes_the_rows_over(stored, tmp_path):
    report.render(stored)
    claims = json.loads((stored / "claims.json").read_text())
    assert [c for c in claims if c["interval"] is None] and [c for c in claims if c["interval"] is not None]
    external.take(stored / "claims.json", tmp_path)
    judged = {claim.id: book.judge(claim, {}, external.load(tmp_path)) for claim in CLAIMS if claim.id[0] == "P"}
    assert {row["label"] for row in judged.values()} == {"holds"}
    assert judged["P02"]["interval"] is None and judged["P05"]["interval"] is not None
    assert judged["P06"]["command"] == "python -m experiments.placemem run deployment"


def test_the_page_says_which_comparisons_lack_a_baseline_and_what_was_not_forced_to_disk(stored, tmp_path):
    for path in stored.glob("*.json"):
        (tmp_path / path.name).write_text(path.read_text())

    def page(part, **changes):
        data = json.loads((stored / f"{part}.json").read_text())
        (tmp_path / f"{part}.json").write_text(json.dumps(data | changes))
        report.render(tmp_path)
        return (tmp_path / "report.md").read_text()

    rows = json.loads((tmp_path / "pilot.json").read_text())["rows"]
    said = "both stand in every comparison"
    alone = f"{said} but for these: `deployment` lacks text_cache, `deployment` lacks text_hash."
    assert alone in page("pilot") and f"{said}." in page("deployment", rows=rows)
    unforced = "PostgreSQL's commits were not forced to disk"
    config = {"databases": ["sqlite", "postgresql"]}
    assert page("concurrency", config=config).count(unforced) == page("pilot").count(unforced) >= 1
    before = page("pilot").count(unforced)
    assert page("concurrency", config=config | {"postgresql_fsync": "on"}).count(unforced) == before - 1
    assert page("concurrency", config={"databases": ["sqlite"]}).count(unforced) == before - 1


def test_a_part_that_was_not_run_gives_no_row(stored, tmp_path):
    (tmp_path / "pilot.json").write_text((stored / "pilot.json").read_text())
    assert {r.source for r in ledger.results(report.load(tmp_path))} == {"P01", "P02"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "pilots"], "pilots"), (["run", "pilot", "--conditions", "fullest"], "fullest"),
        (["render", "--out", "nowhere"], "nowhere"),
    ],
)  # fmt: skip
def test_user_errors_are_one_line(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert guarded(words) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and not list(tmp_path.iterdir())


def test_damaged_parts_are_named(tmp_path):
    (tmp_path / "pilot.json").write_text('{"rows": [{}]}')
    with pytest.raises(report.BenchError, match="pilot.json is no stored part"):
        report.render(tmp_path)


def test_plans_that_cannot_be_are_refused():
    with pytest.raises(report.BenchError, match="repeats is 0"):
        Plan(repeats=0)
