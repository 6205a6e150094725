"""What is stored and when it is computed again: addresses, import closures, atomic files, second runs."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from experiments import code, registry, runner, store, workers
from experiments.statistics import sample_row
from experiments.types import Artefact, Context, ExperimentError, Measurement, Missing, Row, View
from solarjax.cli.job import Job
from solarjax.cli.sources import SourceSpec

CALLS = []


def measure(config):
    CALLS.append(dict(config))
    values = np.random.default_rng(config["seed"]).normal(config["mean"], 1.0, 50)
    return xr.Dataset({"value": ("seed", values)}, {"seed": np.arange(50)})


def make(mean=0.3, published=None):
    def rows(results):
        return [
            sample_row(results[n]["value"].values, table="t", policy=n, measure="value", x=1.0, entry=n)
            for n in results
        ]

    def plan(context):
        seeds = (0,) if context.quick else (0, 1)
        return {f"s{seed}": Measurement({"seed": seed, "mean": mean}, measure) for seed in seeds}

    return Artefact("fake", "Fake", "none", plan, rows, (View("t", "value", "Value"),), published=published or {})


@pytest.fixture
def quiet():
    CALLS.clear()
    return []


def test_a_second_run_computes_nothing(tmp_path, quiet):
    assert runner.run([make()], Context(), tmp_path, quiet.append) == []
    assert len(CALLS) == 2
    before = (tmp_path / "data/fake/provenance.json").read_bytes()
    runner.run([make()], Context(), tmp_path, quiet.append)
    assert len(CALLS) == 2 and (tmp_path / "data/fake/provenance.json").read_bytes() == before


def test_only_what_changed_is_computed_again(tmp_path, quiet):
    runner.run([make()], Context(quick=True), tmp_path, quiet.append)
    runner.run([make()], Context(), tmp_path, quiet.append)
    assert [call["seed"] for call in CALLS] == [0, 1]
    runner.run([make(mean=0.4)], Context(), tmp_path, quiet.append)
    assert len(CALLS) == 4
    runner.run([make(published={("", 1.0, "s0", "value"): _published()})], Context(), tmp_path, quiet.append)
    held = store.load_artefact(tmp_path, "fake")
    assert len(CALLS) == 4 and held.rows[0].agrees and not held.rows[1].agrees


def _published():
    from experiments.types import Published

    return Published(0.3)


def test_provenance_names_entry_code_command_and_revision(tmp_path, quiet):
    runner.run([make()], Context(), tmp_path, quiet.append)
    record = store.load_artefact(tmp_path, "fake").record
    entry = record["entries"]["s0"]
    assert record["status"] == "done" and record["command"] == "python -m experiments run fake"
    assert entry["config"]["mean"] == 0.3 and len(entry["code"]) == 16 and entry["command"].endswith("run fake")
    assert (tmp_path / "runs" / entry["key"] / "result.nc").is_file() and "jax" in entry["versions"]


def test_missing_data_is_recorded_and_an_old_result_is_kept(tmp_path, quiet):
    def absent(context):
        raise Missing("no locomo10.json; get it from there")

    without = replace(make(), plan=absent)
    assert runner.run([without], Context(), tmp_path, quiet.append) == ["fake"]
    held = store.load_artefact(tmp_path, "fake")
    assert not held.done and "locomo10.json" in held.record["reason"]
    runner.run([make()], Context(), tmp_path, quiet.append)
    assert runner.run([without], Context(), tmp_path, quiet.append) == ["fake"]
    assert store.load_artefact(tmp_path, "fake").done


def test_a_failure_leaves_no_artefact(tmp_path, quiet):
    def bad(results):
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        runner.run([replace(make(), rows=bad)], Context(), tmp_path, quiet.append)
    assert store.load_artefact(tmp_path, "fake") is None
    runner.run([make()], Context(), tmp_path, quiet.append)
    assert len(CALLS) == 2


def test_rows_of_one_name_are_refused(tmp_path, quiet):
    twice = replace(make(), rows=lambda results: [Row("t", "p", "m", 0.1), Row("t", "p", "m", 0.2)])
    with pytest.raises(AssertionError, match="t///p/m|t//"):
        runner.run([twice], Context(), tmp_path, quiet.append)


def test_rows_survive_the_file_with_nine_digits():
    rows = [
        Row("t", 'a "b", c', "m", 0.1 + 0.2, group="g\nh", x=1 / 3, capacity=7, n=3, p_value=1e-300, agrees="x"),
        Row("t", "large", "m", 123456789012.0, x=10.0, capacity=1234567890123, diff=-2 / 3e7, p_value=0.0),
        Row("t", "empty", "m", None),
    ]
    text = store.rows_text(rows)
    held = store.parse_rows(text, "here")
    assert [r.policy for r in held] == [r.policy for r in rows] and held[0].group == "g\nh" and held[2] == rows[2]
    assert (held[0].mean, held[0].x, held[0].p_value, held[0].capacity) == (0.3, 0.333333333, 1e-300, 7)
    assert (held[1].mean, held[1].diff, held[1].capacity) == (123456789000.0, -6.66666667e-08, 1234567890123)
    assert isinstance(held[1].x, float) and held[1].p_value == 0.0
    assert store.rows_text(held) == text


def test_rows_stored_with_every_digit_are_read_as_they_are(tmp_path):
    text = store.rows_text([Row("t", "p", "m", 0.5)]).replace(",0.5,", ",0.30000000000000004,")
    assert store.parse_rows(text, "here")[0].mean == 0.1 + 0.2


def test_provenance_says_how_many_digits_rows_have(tmp_path):
    store.save_artefact(tmp_path, "fake", [], {"status": "done", "entries": {}})
    assert store.load_artefact(tmp_path, "fake").record["digits"] == store.DIGITS == 9


@pytest.mark.parametrize(("text", "says"), [("a,b\n1,2\n", "columns"), ("", "columns"), (None, "line 2")])
def test_damaged_rows_are_named(text, says):
    if text is None:
        text = store.rows_text([Row("t", "p", "m", 0.1)]).replace("0.1", "zero")
    with pytest.raises(ExperimentError, match=says):
        store.parse_rows(text, "rows.csv")


@pytest.mark.parametrize("text", ["{", "[]", '{"status": "done"}'])
def test_a_damaged_record_is_named(tmp_path, text):
    store.save_artefact(tmp_path, "fake", [], {"status": "done", "entries": {}})
    (tmp_path / "data/fake/provenance.json").write_text(text)
    with pytest.raises(ExperimentError, match="fake"):
        store.load_artefact(tmp_path, "fake")


def job(policies, **settings):
    return Job(SourceSpec("workload", "cycling", settings=tuple(f"{k}={v}" for k, v in settings.items())), policies)


def test_a_sweep_depends_on_its_own_policies_and_workload_only():
    fifo = code.closure(code.modules_of_job(job("fifo")))
    assert {"solarjax.core.rollout", "solarjax.workloads.cycling", "solarjax.policies.victims.fifo"} <= set(fifo)
    for other in ("solarjax.policies.victims.lru", "solarjax.policies.registry", "solarjax.workloads.working_set",
                  "solarjax.encoders.minilm", "solarjax.report.render"):  # fmt: skip
        assert other not in fifo
    solar = set(code.closure(code.modules_of_job(job("fifo,solar"))))
    assert {"solarjax.policies.admission.regret_gate", "solarjax.policies.victims.thompson"} <= solar - set(fifo)
    dialogue = Job(SourceSpec("locomo", protocol="P1"), "fifo")
    assert {"solarjax.traces.locomo", "solarjax.encoders.bert"} <= set(code.closure(code.modules_of_job(dialogue)))


def test_every_policy_is_traced_to_its_source():
    """The registry's lines are lambdas and functions of many modules; none may fall through."""
    from solarjax.policies.registry import POLICIES

    for name in POLICIES:
        found = set(code.closure(code.modules_of_job(job(name))))
        assert any(m.startswith("solarjax.policies.") for m in found), name
    assert "solarjax.policies.joint.arc" in code.closure(code.modules_of_job(job("arc")))


def test_a_changed_source_changes_the_address(tmp_path, monkeypatch):
    before = store.address("x", job("fifo"))
    assert store.address("y", job("fifo")).key == before.key
    assert store.address("x", job("fifo", n_topics=15)).key != before.key
    other = store.address("x", job("lru")).key
    real = code.path_of
    changed = tmp_path / "fifo.py"
    changed.write_text(real("solarjax.policies.victims.fifo").read_text() + "\n# another\n")

    def path_of(module):
        return changed if module == "solarjax.policies.victims.fifo" else real(module)

    monkeypatch.setattr(code, "path_of", path_of)
    assert store.address("x", job("fifo")).key != before.key
    assert store.address("x", job("lru")).key == other


def test_all_artefacts_are_described_and_their_figures_are_in_their_plan():
    for name in registry.IDS:
        artefact = registry.get(name)
        assert artefact.id == name and artefact.title and artefact.source and artefact.views and artefact.summary
        assert artefact.plan.__doc__ and artefact.rows.__doc__
    with pytest.raises(ExperimentError, match="did you mean 'cycling'"):
        registry.get("cycing")
    assert [a.id for a in registry.choose(["drift", "cycling"])] == ["cycling", "drift"]


def test_stored_json_is_plain(tmp_path, quiet):
    runner.run([make()], Context(), tmp_path, quiet.append)
    json.loads((tmp_path / "data/fake/provenance.json").read_text(), parse_constant=lambda c: pytest.fail(c))


def test_a_smaller_run_does_not_replace_results_of_full_size(tmp_path, quiet):
    runner.run([make()], Context(), tmp_path, quiet.append)
    for smaller in (Context(quick=True), Context(seeds=3)):
        with pytest.raises(ExperimentError, match="holds fake at full size"):
            _keep_full(smaller, tmp_path)
    _keep_full(Context(), tmp_path)
    runner.run([make()], Context(quick=True), tmp_path / "quick", quiet.append)
    _keep_full(Context(quick=True), tmp_path / "quick")


def _keep_full(context, out):
    # `load_all` knows nothing of the registry, so the fake one is found.
    runner.keep_full([make()], context, out)


def test_processes_get_what_is_missing_and_measures_no_time(tmp_path, quiet):
    assert workers.batches([make()], Context(), tmp_path) == [("fake", ("s0", "s1"))]
    assert workers.batches([replace(make(), alone=True)], Context(), tmp_path) == []
    runner.run([make()], Context(quick=True), tmp_path, quiet.append)
    assert workers.batches([make()], Context(), tmp_path) == [("fake", ("s1",))]
    # Stored rows that are current need no entries: those of the reference report are not in the repository.
    shutil.rmtree(tmp_path / store.RUNS)
    assert workers.batches([make()], Context(quick=True), tmp_path) == []
    assert workers.batches([make(mean=0.4)], Context(quick=True), tmp_path) == [("fake", ("s0",))]
