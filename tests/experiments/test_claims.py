"""Verdicts are functions of stored figures: they hold in the papers' world, and change when a figure is edited."""

import json
import random
import shutil
from dataclasses import replace

import pytest

from experiments import external, ledger, store
from experiments.claims.figures import Figures, NotStored
from experiments.claims.registry import CLAIMS
from experiments.claims.types import Label, Part, beyond, combine, near, sign
from experiments.types import ExperimentError, Row
from tests.support import stored_rows as stored

SYNTHETIC = (*(f"S{i:02d}" for i in range(1, 10)), *(f"S{i}" for i in range(21, 27)), "S27", "S29")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return stored.write(tmp_path_factory.mktemp("world"))


@pytest.fixture
def out(world, tmp_path):
    return shutil.copytree(world, tmp_path / "out")


def verdicts(out):
    return {row["id"]: row for row in ledger.compute(out)}


def test_every_claim_of_the_ledger_is_there():
    ids = [claim.id for claim in CLAIMS]
    assert ids == [f"S{i:02d}" for i in range(1, 31)] + [f"P{i:02d}" for i in range(1, 8)]


@pytest.mark.parametrize("claim", SYNTHETIC)
def test_claims_hold_in_a_world_where_they_are_true(world, claim):
    row = verdicts(world)[claim]
    assert row["label"] == "holds", row["parts"]
    assert row["rows"] and row["commands"] and not row["controls_too"]


LIKE_SOLAR = ("solar", "solar(signal=miss)")

# claim -> artefact, which rows are edited, what is written into them, the verdict that must follow
EDITS = [
    ("S01", "cycling", lambda r: r.policy == "fifo" and r.x == 2, {"mean": 0.001}, "holds under"),
    ("S01", "cycling", lambda r: r.policy == "fifo" and r.measure == "hit_rate", {"mean": 0.5}, "refuted"),
    ("S02", "cycling", lambda r: r.policy == "lru" and r.x == 3 and r.diff is not None,
     {"diff": 0.2, "p_adjusted": 1e-6}, "holds under"),
    ("S03", "cycling", lambda r: r.policy == "solar_a" and r.measure == "hit_rate", {"mean": 0.3}, "holds under"),
    ("S04", "drift", lambda r: r.policy == "lfu" and r.table == "drift", {"diff": 0.1}, "holds under"),
    ("S04", "drift", lambda r: r.policy == "lfu" and r.table == "drift", {"p_adjusted": 0.4}, "undecided"),
    ("S05", "working_set", lambda r: r.policy == "solar_a" and r.x == 15 and r.diff, {"diff": 0.2}, "holds under"),
    ("S06", "working_set", lambda r: r.measure == "final_size" and r.x == 100, {"mean": 95.0}, "holds under"),
    ("S07", "noise_probe", lambda r: r.policy.startswith("off-topic"), {"diff": 0.0, "p_adjusted": 0.9}, "refuted"),
    ("S08", "noise_stream", lambda r: r.policy == "solar" and r.x == 50, {"diff": -0.05}, "holds under"),
    ("S08", "noise_stream", lambda r: r.policy == "solar" and r.x == 50, {"mean": 0.02}, "holds under"),
    ("S09", "locomo", lambda r: r.policy == "solar_paper(fill=free)" and r.measure == "admission_rate_full",
     {"mean": 0.9}, "holds under"),
    ("S21", "ablation", lambda r: r.diff is not None, {"diff": -0.004}, "refuted"),
    ("S22", "locomo", lambda r: r.policy == "solar(signal=miss)" and r.x == 20 and r.group == "P1 turns",
     {"diff": -0.1}, "holds under"),
    ("S23", "locomo", lambda r: r.policy == "lru" and r.diff is not None, {"diff": 0.1}, "holds under"),
    ("S24", "locomo", lambda r: r.policy == "solar(signal=miss)" and r.x == 50, {"diff": -0.01}, "refuted"),
    ("S25", "learning", lambda r: r.table == "slope against SOLAR" and r.policy == "lfu", {"diff": 0.01}, "refuted"),
    ("S27", "latency", lambda r: r.measure == "p99 (ms)", {"mean": 2.0, "low": 1.9, "high": 2.1}, "holds under"),
    ("S26", "drift", lambda r: r.table == "ageing", {"diff": -0.01}, "holds under"),
    ("S29", "working_set", lambda r: r.policy == "fifo" and r.x == 100, {}, "holds"),
    ("S29", "cycling", lambda r: r.policy == "lfu" and r.measure == "switches", {"mean": 91.0}, "holds under"),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "artefact", "chosen", "changes", "wanted"), EDITS,
                         ids=[f"{e[0]}-{i}" for i, e in enumerate(EDITS)])  # fmt: skip
def test_an_edited_figure_changes_the_verdict(out, claim, artefact, chosen, changes, wanted):
    before = verdicts(out)[claim]
    if changes:
        stored.edit(out, artefact, chosen, **changes)
    after = verdicts(out)[claim]
    assert before["label"] == "holds" and after["label"] == wanted, after["parts"]


def test_a_control_that_does_as_well_is_named(out):
    stored.edit(out, "cycling", lambda r: r.policy == "keep_first" and r.x == 5, mean=0.17)
    row = verdicts(out)["S03"]
    assert row["label"] == "holds" and row["controls_too"] and "keep_first 0.170" in row["controls"]


def test_a_cause_is_judged_by_the_intervention_not_by_topic_precision(out):
    stored.edit(out, "noise_probe", lambda r: r.measure == "topic_precision", mean=0.01)
    assert verdicts(out)["S07"]["label"] == "holds"


@pytest.mark.parametrize(("claim", "artefact"), [("S01", "cycling"), ("S07", "noise_probe"), ("S25", "learning")])
def test_without_its_figures_a_claim_is_not_run_and_says_what_to_do(out, claim, artefact):
    for file in (out / store.DATA / artefact).iterdir():
        file.unlink()
    row = verdicts(out)[claim]
    assert row["label"] == "not run" and row["figure"] is None and row["rows"] == []
    assert row["command"].startswith(f"python -m experiments run {artefact}")


def test_claims_of_other_packages_say_their_command(world):
    rows = verdicts(world)
    for claim in [f"S{i:02d}" for i in (*range(10, 21), 28, 30)]:
        assert rows[claim]["label"] == "not run" and rows[claim]["command"].startswith("python -m theory check")
    assert all(rows[f"P{i:02d}"]["label"] == "not run" for i in range(1, 8))


RESULT = {
    "id": "fifo_ratio", "claim": "x", "source": "T1, S12", "verdict": "holds", "condition": None, "figure": 7.5,
    "figure_name": "ratio", "unit": "1", "interval": [7.0, 8.0], "predicted": 7.5, "sizes": {"K": [1, 2]}, "keys": 9,
    "seconds": 1.0, "counterexample": None, "command": "python -m theory check fifo_ratio", "notes": "n",
    "data": {"a": [1]},
}  # fmt: skip


def test_theory_rows_enter_the_ledger(out, tmp_path):
    second = {**RESULT, "id": "soft", "source": "S12,S13", "verdict": "refuted"}
    external.take(stored.dump(tmp_path / "theory.json", {"results": [RESULT, second]}), out)
    rows = verdicts(out)
    assert rows["S12"]["label"] == "holds under" and rows["S13"]["label"] == "refuted"
    assert rows["S12"]["figure"] == 7.5 and rows["S12"]["interval"] == [7.0, 8.0] and rows["S12"]["keys"] == 9
    assert rows["S12"]["commands"] == ["python -m theory check fifo_ratio"]
    assert "data" not in json.loads((out / "external" / "theory.json").read_text())[0]


@pytest.mark.parametrize("claim", ["S21", "S22", "S23", "S24", "S25"])
def test_replay_rows_join_a_retrieval_verdict(out, tmp_path, claim):
    """With what they say of the model; a row of another check is not taken for answers."""
    plain = verdicts(out)[claim]
    replay = {**RESULT, "id": f"replay-{claim}", "source": claim, "verdict": "refuted", "notes": "a small model"}
    theory = {**RESULT, "id": "synergy", "source": claim, "notes": ""}
    external.take(stored.dump(tmp_path / "rows.json", [replay, theory]), out)
    row = verdicts(out)[claim]
    assert plain["label"] == "holds" and row["label"] == "holds under"
    assert [part["text"] for part in row["parts"][-2:]] == [f"answer F1: replay-{claim}", "synergy"]
    assert row["note"] == f"{plain['note']} a small model".strip()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": 1}, "no list"),
        ([{**RESULT, "verdict": "true"}], "'true'"),
        ([{k: v for k, v in RESULT.items() if k != "figure"}], "lacks figure"),
        ([{**RESULT, "figure": "big"}], "'big'"),
    ],
)
def test_wrong_rows_are_refused_by_name(tmp_path, value, says):
    path = stored.dump(tmp_path / "rows.json", value)
    with pytest.raises(ExperimentError, match=says):
        external.take(path, tmp_path)
    assert not (tmp_path / external.FOLDER).exists()


def test_combining_parts():
    def label(*states):
        return combine([Part(str(i), s) for i, s in enumerate(states)])

    assert label() == (Label.UNDECIDED, "")
    assert label(True, True) == (Label.HOLDS, "")
    assert label(True, None) == (Label.UNDECIDED, "")
    assert label(False, None) == (Label.REFUTED, "")
    assert label(True, False, None) == (Label.HOLDS_UNDER, "0")


def test_sign_needs_the_corrected_p():
    row = Row("t", "p", "m", 0.1, diff=0.1, diff_low=0.05, diff_high=0.15, p_value=0.01, p_adjusted=0.2)
    assert sign(row) == 0 and beyond(row, 1) is None
    assert sign(replace(row, p_adjusted=0.01)) == 1 and beyond(replace(row, p_adjusted=0.01), -1) is False
    same = replace(row, p_value=None, p_adjusted=None, diff_low=0.1, diff_high=0.1)
    assert sign(same) == 1 and sign(replace(same, diff=0.0, diff_low=0.0, diff_high=0.0)) == 0
    assert near(0.105, 0.1, 0.005) and not near(0.1051, 0.1, 0.005) and near(None, 0.1, 1) is None


def test_figures_remember_what_was_read_and_refuse_to_guess(world):
    figures = Figures(store.load_all(world, ["cycling"]))
    assert figures.one("cycling", policy="fifo", x=2.0, measure="hit_rate").mean == 0.0
    assert figures.used == ["cycling:cycling//2/fifo/hit_rate"]
    with pytest.raises(NotStored, match="5 rows"):
        figures.one("cycling", policy="fifo", measure="hit_rate")
    with pytest.raises(NotStored, match="experiments run drift"):
        figures.all("drift")


def test_verdicts_do_not_depend_on_the_order_of_rows(out):
    before = verdicts(out)
    for name in stored.WORLD:
        held = store.load_artefact(out, name)
        rows = list(held.rows)
        random.Random(3).shuffle(rows)
        store.save_artefact(out, name, rows, dict(held.record))
    assert {k: v["label"] for k, v in before.items()} == {k: v["label"] for k, v in verdicts(out).items()}
