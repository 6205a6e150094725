"""The labelled dataset against counts by hand; frozen and shadow replays; the report of a replay."""

import numpy as np
import pytest

from solarjax.policies.registry import case
from solarjax.replay import dataset, modes
from solarjax.replay.correlation import correlate
from solarjax.replay.errors import BadOption, ReplayError
from solarjax.replay.journal import FILE
from solarjax.replay.plan import Settings, question_order, replay_cases
from solarjax.report import render, stored
from tests.replay.child import replay
from tests.replay.worlds import Model, encode, plan, session


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """(plan, records, dataset) of an on-policy replay; `unlimited` runs once for both capacities."""
    what = plan("fifo,unlimited", capacities=(2, 4), names=("a",), n=12, lambdas=(0.0, 2.0))
    records = replay(tmp_path_factory.mktemp("live") / FILE, what, Model())
    return what, records, dataset.assemble(what, records, {"model": "fake"})


def test_the_dataset_counts_what_was_recorded(live):
    what, records, data = live
    rows = [r for r in records if (r["policy"], r["capacity"], r["seed"]) == ("fifo", 2, 1)]
    cell = data.sel(trace="a", policy="fifo", capacity=2, seed=1)
    scored = [r for r in rows if r["scored"]]
    f1 = [r["f1"] for r in scored]
    assert len(scored) == 6 == cell["requests"]
    assert cell["answer_f1"] == pytest.approx(sum(f1) / 6)
    assert cell["first_half"] == pytest.approx(sum(f1[:3]) / 3) and cell["second_half"] == pytest.approx(
        sum(f1[3:]) / 3
    )
    # Fewer scored questions than two windows: the slope is that of the plain least-squares line.
    assert cell["learning_slope"] == pytest.approx(np.polyfit(np.arange(6), f1, 1)[0], abs=1e-9)
    assert cell["hit_rate"] == pytest.approx(sum(r["hit"] for r in scored) / 6)
    # FIFO admits all 12 and evicts all but 2.
    assert (cell["admissions"], cell["evictions"], cell["final_size"], cell["store_rate"]) == (12, 10, 2, 1)
    assert cell["total_cost"].sel({"lambda": 2.0}) == pytest.approx(6 - sum(f1) + 2 * 12)
    assert cell["total_cost"].sel({"lambda": 0.0}) == pytest.approx(6 - sum(f1))
    answerable = [r["f1"] for r in scored if r["rule"] != "unanswerable"]
    assert cell["answer_f1_answerable"] == pytest.approx(sum(answerable) / len(answerable))
    even = [r["f1"] for r in scored if r["category"] == "even"]
    assert cell["category_f1"].sel(category="even") == pytest.approx(sum(even) / len(even))
    assert cell["category_requests"].sum() == 6
    assert cell["cached_share"] == pytest.approx(
        sum(r["cached_tokens"] for r in rows) / sum(r["prompt_tokens"] for r in rows)
    )
    assert cell["step_order"].values.tolist() == [r["order"] for r in rows]
    assert data["answer_f1"].attrs["units"] == "1" and data.attrs["model"] == "fake"


def test_what_ignores_its_capacity_ran_once_and_stands_at_each(live):
    what, records, data = live
    assert len(records) == 12 * 2 * 3 == what.total()
    both = data["answer_f1"].sel(policy="unlimited")
    assert (both.sel(capacity=2) == both.sel(capacity=4)).all()
    assert (data["final_size"].sel(policy="unlimited") == 12).all()


def test_a_missing_question_is_an_error(live):
    what, records, _ = live
    with pytest.raises(ReplayError, match="11 of 12 questions are recorded"):
        dataset.assemble(what, [r for r in records if r["order"] != 40], {})


def test_a_repeated_prompt_is_told_by_the_order_not_by_who_was_faster(live):
    what, records, data = live
    seen, repeats = set(), 0
    for r in sorted(records, key=lambda r: r["order"]):
        repeats += r["prompt"] in seen
        seen.add(r["prompt"])
    assert repeats > 0
    shares = (
        data["repeated_share"].sel(policy="fifo").sum()
        + data["repeated_share"].sel(policy="unlimited", capacity=2).sum()
    )
    assert float(shares) * 12 == pytest.approx(repeats)


def test_shadow_scores_hits_and_correlates(live):
    what, _, data = live
    shadow_plan = plan("fifo,unlimited", capacities=(2, 4), names=("a",), n=12, lambdas=(0.0, 2.0), mode="shadow")
    records = modes.offline(shadow_plan, encode)
    assert all(r["f1"] is None and r["quality"] == float(r["hit"]) for r in records)
    shadow = dataset.assemble(shadow_plan, records, {})
    assert "answer_f1" not in shadow and shadow.attrs["quality"] == "hit"
    # The evidence pairs questions 2i and 2i + 1: under the full memory the later of a pair may hit, the earlier never.
    rows = [r for r in records if (r["policy"], r["seed"]) == ("unlimited", 0)]
    order, _ = question_order(what.sessions[0], 0, 0, 0.5)
    later = {int(q) for i, q in enumerate(order) if int(q) ^ 1 in order[:i]}
    assert all(not r["hit"] or int(r["question"][1:]) in later for r in rows) and any(r["hit"] for r in rows)
    table = correlate(data, shadow, draws=50)
    assert [(r["over"], r["policy"], r["capacity"]) for r in table] == [
        row for k in (2, 4) for row in (("questions", "fifo", k), ("questions", "unlimited", k), ("policies", None, k))
    ]
    row = table[1]
    f1 = data["step_quality"].sel(policy="unlimited", capacity=2).values[0][:, 6:].ravel()
    hit = shadow["step_hit"].sel(policy="unlimited", capacity=2).values[0][:, 6:].ravel()
    assert row["n"] == 12 and row["pearson"] == pytest.approx(np.corrcoef(f1, hit)[0, 1])
    assert row["pearson_low"] < row["pearson"] < row["pearson_high"]
    with pytest.raises(ReplayError, match="differ on the axis 'seed'"):
        correlate(data.isel(seed=[0]), shadow)


def test_frozen_studies_all_policies_on_one_recording(tmp_path):
    what = plan("fifo,unlimited", names=("a",), seeds=(0,), mode="frozen")
    model = Model()
    recorded = replay(tmp_path / FILE, modes.recording_plan(what), model)
    assert len(model.asked) == 8
    records = modes.offline(what, encode, recorded)
    by = {p: [r for r in records if r["policy"] == p] for p in ("fifo", "unlimited")}
    # Every policy sees the recorded answers and scores; the full memory supports itself.
    assert [r["f1"] for r in by["fifo"]] == [r["f1"] for r in by["unlimited"]] == [r["f1"] for r in recorded]
    assert {r["support"] for r in by["unlimited"]} == {None, 1.0}
    assert min(r["support"] for r in by["fifo"] if r["support"] is not None) < 1
    data = dataset.assemble(what, records, {})
    assert float(data["support"].sel(policy="unlimited").mean()) == 1.0
    with pytest.raises(ReplayError, match="no recorded answer to question"):
        modes.offline(what, encode, recorded[:-1])


def test_the_report_shows_answers_beside_hits(live, tmp_path):
    what, _, data = live
    source = {"kind": "locomo", "name": "locomo", "protocol": "replay", "params": {}, "files": [], "summary": "S"}
    record = {"config": what.config({"name": "fake"}, source), "command": "replay", "code": "x", "seconds": 1.0,
              "created": "now", "git": None, "versions": {}, "device": {"kind": "cpu", "count": 1, "platform": "cpu",
              "machine": "m", "system": "s", "cpus": 1}, "schema": 1}  # fmt: skip
    stored.save(tmp_path / "live", data, record)
    render.report(tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "LoCoMo replay" in text and "Answer F1 by question category" in text
    assert "its answer f1" in text.lower()
    assert "answer_f1" in (tmp_path / "results.csv").read_text()


def test_a_test_without_learning_keeps_the_warm_cache(tmp_path):
    what = plan("fifo", names=("a",), seeds=(0,), test="frozen")
    records = replay(tmp_path / FILE, what, Model())
    assert [r["admitted"] for r in records] == [True] * 4 + [False] * 4
    data = dataset.assemble(what, records, {})
    assert (float(data["offers"].sum()), float(data["admissions"].sum())) == (4, 4)


def test_gates_listen_to_the_answers_unless_told_otherwise():
    assert dict(replay_cases("solar")[0].static)["signal"] == "miss"
    assert dict(replay_cases("solar(signal=information_gain)")[0].static)["signal"] == "information_gain"
    with pytest.raises(BadOption, match="sees the future"):
        replay_cases("oracle")
    with pytest.raises(BadOption, match="one value per parameter"):
        replay_cases("solar", ["lam=1,2"])
    assert case("solar", signal="miss").label == "solar(signal=miss)"


def test_the_split_is_a_permutation_with_something_scored():
    order, warm = question_order(session("a", 10), 0, 0, 0.8)
    assert sorted(order) == list(range(10)) and warm == 8
    assert question_order(session("a", 3), 0, 0, 0.99)[1] == 2
    assert list(order) == list(question_order(session("a", 10), 0, 0, 0.5)[0])
    for wrong, says in ((1.0, "warmup 1"), (-0.1, "warmup -0.1")):
        with pytest.raises(BadOption, match=says):
            Settings(warmup=wrong)
