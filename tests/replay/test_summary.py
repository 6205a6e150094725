"""The summary of a full replay against plain Python over the arrays that were stored."""

import csv
import json
import math
import statistics

import numpy as np
import pytest
from scipy import stats

from scripts.replay import complete, summary
from solarjax.report import stored
from solarjax.traces.locomo import CATEGORY_NAMES
from tests.replay import toy_run

SOLAR = "solar(signal=miss)"
MULTI_HOP, ADVERSARIAL = 0, 4


@pytest.fixture
def two(tmp_path):
    """(datasets by session, the joint run); session b asks nothing of the categories 2 and 3."""
    data = {"a": toy_run.run("a", 1), "b": toy_run.run("b", 2, ("adversarial", "multi-hop", "single-hop"))}
    for name, one in data.items():
        toy_run.store(tmp_path / "work", name, one)
    run = complete.gather([tmp_path / "work" / name for name in "axb"], "scripts/replay_full")
    assert run is not None
    return data, run


def table(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def cell(data, name, policy, k, *tail):
    """Mean over the two seeds of one stored value, by index."""
    p, c = toy_run.POLICIES.index(policy), toy_run.CAPACITIES.index(k)
    values = data[name].values
    return sum(float(values[(0, p, c, s, *tail)]) for s in range(2)) / 2


def test_a_session_has_every_measure_as_stored(two, tmp_path):
    data, run = two
    summary.write(run, tmp_path / "out")
    rows = {(r["session"], r["capacity"], r["policy"]): r for r in table(tmp_path / "out" / "sessions.csv")}
    assert len(rows) == 2 * 2 * 3
    row, one = rows["a", "20", SOLAR], data["a"]
    for name in toy_run.PLAIN:  # cache size, admissions, evictions, halves and slope are among them
        assert float(row[name]) == pytest.approx(cell(one, name, SOLAR, 20), abs=1e-6), name
    for number, name in enumerate(("multi_hop", "temporal", "open_domain", "single_hop", "adversarial")):
        assert float(row[f"f1_{name}"]) == pytest.approx(cell(one, "category_f1", SOLAR, 20, number), abs=1e-6)
        asked = cell(one, "category_requests", SOLAR, 20, number)
        assert float(row[f"requests_{name}"]) == pytest.approx(asked, abs=1e-6)
    for number, label in enumerate(("0", "2.5")):
        cost = cell(one, "total_cost", SOLAR, 20, number)
        assert float(row[f"total_cost_lambda_{label}"]) == pytest.approx(cost, abs=1e-5)
    sizes = [cell(one, "step_size", SOLAR, 20, step) for step in range(toy_run.STEPS)]
    assert float(row["mean_size"]) == pytest.approx(statistics.mean(sizes), abs=1e-6)


def test_categories_keep_their_numbers_though_a_session_lacks_some(two, tmp_path):
    data, run = two
    assert [str(name) for name in run.data["category"].values] == list(CATEGORY_NAMES)
    summary.write(run, tmp_path / "out")
    rows = {(r["session"], r["capacity"], r["policy"]): r for r in table(tmp_path / "out" / "sessions.csv")}
    row = rows["b", "10", "lru"]
    # Stored in another order: adversarial, multi-hop, single-hop.
    assert float(row["f1_adversarial"]) == pytest.approx(cell(data["b"], "category_f1", "lru", 10, 0), abs=1e-6)
    assert float(row["f1_multi_hop"]) == pytest.approx(cell(data["b"], "category_f1", "lru", 10, 1), abs=1e-6)
    assert (row["f1_temporal"], row["requests_temporal"]) == ("", "0.0")
    means = {(r["capacity"], r["policy"], r["measure"]): r for r in table(tmp_path / "out" / "results.csv")}
    only = means["10", "lru", "f1_temporal"]
    assert only["sessions"] == "1" and only["low"] == "", "one session has no interval"
    assert float(only["mean"]) == pytest.approx(cell(data["a"], "category_f1", "lru", 10, 1), abs=1e-6)


def test_means_and_paired_differences_are_over_sessions(two, tmp_path):
    data, run = two
    summary.write(run, tmp_path / "out")
    means = {(r["capacity"], r["policy"], r["measure"]): r for r in table(tmp_path / "out" / "results.csv")}
    cases = [("answer_f1", ()), ("learning_slope", ()), ("evictions", ()), ("total_cost_lambda_2.5", (1,))]
    for measure, tail in cases:
        stored_as = "total_cost" if tail else measure
        own = [cell(data[s], stored_as, SOLAR, 10, *tail) for s in "ab"]
        base = [cell(data[s], stored_as, "fifo", 10, *tail) for s in "ab"]
        gaps = [x - y for x, y in zip(own, base, strict=True)]
        row = means["10", SOLAR, measure]
        for values, names in ((own, ("mean", "low", "high")), (gaps, ("diff_to_fifo", "diff_low", "diff_high"))):
            half = stats.t.ppf(0.975, 1) * statistics.stdev(values) / math.sqrt(2)
            middle = statistics.mean(values)
            got = [float(row[name]) for name in names]
            assert got == pytest.approx([middle, middle - half, middle + half], abs=2e-6), measure
    assert {r["measure"] for r in means.values()} >= {"f1_adversarial", "mean_size", "final_size", "second_half"}


def test_the_ledger_takes_the_differences_of_the_claims(two, tmp_path):
    data, run = two
    summary.write(run, tmp_path / "out")
    rows = {row["id"]: row for row in json.loads((tmp_path / "out" / "ledger.json").read_text())}
    assert sorted(rows) == sorted(
        ["replay-S22-K10", "replay-S22-K20", "replay-S23-lru-K10", "replay-S23-lru-K20", "replay-S24-K10-K20",
         *(f"replay-S25-{p}-K{k}" for p in ("fifo", "lru") for k in (10, 20))]
    )  # fmt: skip

    def lead(k, measure="answer_f1", other="fifo", policy=SOLAR):
        return np.array([cell(data[s], measure, policy, k) - cell(data[s], measure, other, k) for s in "ab"])

    for id, values in {
        "replay-S22-K20": lead(20), "replay-S23-lru-K10": lead(10, policy="lru"),
        "replay-S24-K10-K20": lead(10) - lead(20), "replay-S25-lru-K20": lead(20, "learning_slope", "lru"),
    }.items():  # fmt: skip
        row = rows[id]
        assert row["figure"] == pytest.approx(values.mean())
        half = stats.t.ppf(0.975, 1) * values.std(ddof=1) / math.sqrt(2)
        assert row["interval"] == pytest.approx([values.mean() - half, values.mean() + half], abs=2e-6)
        assert row["source"] == id.split("-")[1] and row["keys"] == 2 and "2 sessions" in row["notes"]


def test_the_verdict_follows_the_sign_that_the_claim_needs():
    from scripts.replay import ledger

    data = toy_run.run("a", 1)
    for other in ("b", "c", "d"):
        data = complete.joined([data, toy_run.run(other, ord(other))])
    base = data["answer_f1"].sel(policy="fifo").values
    data["answer_f1"].loc[{"policy": SOLAR}] = base + 0.25
    data["answer_f1"].loc[{"policy": "lru"}] = base + 0.125
    rows = {r["id"]: r for r in ledger.rows({10: summary.measures(data, 10)}, "toy", "")}
    assert rows["replay-S22-K10"]["verdict"] == "holds"
    # LRU was claimed to be below FIFO.
    assert rows["replay-S23-lru-K10"]["verdict"] == "refuted"


def test_the_provenance_names_the_data_and_no_folder_of_this_machine(two, tmp_path):
    _, run = two
    summary.write(run, tmp_path / "out")
    text = (tmp_path / "out" / "provenance.json").read_text()
    held = json.loads(text)
    source = held["config"]["source"]
    assert source["files"] == toy_run.FILES and source["kind"] == "locomo" and source["encoder"] == "e"
    assert source["sessions"] == {"a": "cd" * 32, "b": "cd" * 32}
    assert [part["sessions"] for part in held["runs"]] == [["a"], ["b"]] and held["runs"][0]["code"] == "c"
    assert str(tmp_path) not in text
    assert run.provenance["timing"] == {"asked": 10, "wall_s": 19.0} and run.provenance["seconds"] == 20
    assert json.loads(run.data.attrs["left_out"]) == {"a": {"without evidence": 1}, "b": {"without evidence": 2}}
    assert run.data.attrs["server_version"] == "0.1, 0.2"


def test_what_does_not_belong_together_is_refused(tmp_path):
    assert complete.gather([tmp_path / "a"], "") is None
    toy_run.store(tmp_path, "a", toy_run.run("a", 1))
    toy_run.store(tmp_path, "b", toy_run.run("b", 2), settings={"mode": "on-policy", "warmup": 0.8})
    with pytest.raises(stored.StoreError, match="differ in settings"):
        complete.gather([tmp_path / "a", tmp_path / "b"], "")
    with pytest.raises(stored.StoreError, match="'a' is stored twice"):
        complete.joined([toy_run.run("a", 1), toy_run.run("a", 2)])
    run = toy_run.store(tmp_path / "other", "a", toy_run.run("a", 1, policies=["lru", "arc", "lfu"]))
    with pytest.raises(stored.StoreError, match="no runs of 'fifo' to compare with, only lru, arc, lfu"):
        summary.write(run, tmp_path / "out")


def test_sessions_of_different_length_are_padded():
    data = complete.joined([toy_run.run("a", 1, steps=8), toy_run.run("b", 2, steps=5)])
    assert data.sizes["step"] == 8
    assert data["step_size"].sel(trace="b").isnull().sum() == 3 * 3 * 2 * 2
    assert complete.compact(data)["step_size"].dtype == np.float32 and data["answer_f1"].dtype == np.float64
