"""The benchmark's arithmetic, gate, tables and command, on planted numbers."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from scripts import bench as script
from solarjax.bench import child, figure, floor, gate, growth, options, paired, render, results, sections
from solarjax.bench.errors import BenchError
from solarjax.bench.options import Options
from solarjax.bench.sections import SECTIONS, Measured
from solarjax.cli.main import main

DEVICE = {"platform": "cpu", "kind": "cpu", "count": 1, "cpus": 2, "load": 1.26}
ROOT = Path(__file__).resolve().parents[2]


def row(policy="fifo", capacity=10, ratio=3.0, **more):
    """A row of the comparison."""
    spans = {
        f"ratio_{end}": ratio and ratio * by for end, by in (("low", 0.9), ("q1", 0.95), ("q3", 1.05), ("high", 1.1))
    }
    found = {
        "policy": policy, "capacity": capacity, "lanes": 256, "steps": 300, "repeats": 7, "engine_steps_per_s": 6e6,
        "engine_spread": 0.1, "times_authors": 300.0, "trace_s": 1.0, "compile_s": 2.0, "peer_compile_s": 2.0,
        "peer_steps_per_s": ratio and 2e6, "ratio": ratio, **spans, "floor_steps_per_s": 3e7, "floor_bound": "bytes",
        "over_floor": 5.0,
    }  # fmt: skip
    return {**found, **more}


PLANTED = {
    "compare": [row(), row("solar", ratio=None)],
    "cores": [
        {"policy": "fifo", "capacity": 10, "devices": 2, "one_steps_per_s": 1e6, "all_steps_per_s": 2e6, "speedup": 2.0,
         "speedup_low": 1.9, "speedup_high": 2.1, "busy_one": 1.0, "busy_all": 2.0}
    ],
    "device": [
        {"policy": "fifo", "capacity": 10, "lanes": 100, "left_out": None, "steps_per_s": 1e6, "spread": 0.1,
         "streamed_bytes": 500.0, "bound_steps_per_s": 2e7, "of_bound": 0.05, "trace_s": 1.0, "compile_s": 2.0},
        {"policy": "fifo", "capacity": 10, "lanes": 10**6, "left_out": "memory", "estimate": 2.0**34},
        {"policy": "fifo", "capacity": 50, "lanes": 10**6, "left_out": "time", "estimate": 90.0},
    ],
    "compile": [{"policy": "fifo", "capacity": 10, "trace_s": 1.0, "compile_s": 2.0, "total_s": 3.0}],
    "growth": [
        {"axis": axis, "policy": policy, "points": [10, 20], "seconds": [0.1, 0.21], "exponent": 1.07, "low": 1.0,
         "high": 1.14, "expected_low": 0.0, "expected_high": 1.0}
        for axis in ("steps", "lanes") for policy in ("fifo", "solar")
    ],
    "memory": [{"seeds": 512, "steps": 500, "budget_mib": 256.0, "peak_mib": 700.0}],
}  # fmt: skip


# --- timing ---


def test_pairs_run_in_turn_and_are_summed_up():
    calls = []
    pair = paired.alternate(lambda: calls.append("a") or 1, lambda: calls.append("b") or 2, 3)
    assert calls == ["a", "b"] * 4 and pair.results == (1, 2) and len(pair.first) == len(pair.second) == 3
    found = paired.spread(np.array([4.0, 1.0, 3.0, 2.0, 10.0]))
    assert found == (3.0, 1.0, 10.0, 2.0, 4.0, 5)


def test_exponents_are_those_of_a_power_law():
    points = [10, 20, 40]
    seconds = np.array([[x**1.5 * c for x in points] for c in (1.0, 7.0, 0.2)])
    np.testing.assert_allclose(growth.exponents(points, seconds), 1.5)
    # t quantile of 2 degrees of freedom: 4.303; standard error of (1, 2, 3): 1 / sqrt 3.
    np.testing.assert_allclose(
        growth.interval(np.array([1.0, 2.0, 3.0])), (2, 2 - 4.3027 / 3**0.5, 2 + 4.3027 / 3**0.5), 1e-4
    )


def test_expected_exponents_follow_from_what_the_rule_reads():
    assert growth.expected("capacity", "lru") == (0, 1) and growth.expected("capacity", "solar_a") == (0, 2)
    assert growth.expected("steps", "solar") == (1, 1) and growth.expected("items", "fifo") == (0, 0)


# --- floor ---


def test_floor_of_every_rule_by_hand():
    """K = 10, k = 3, every step writes (a = 1) and half replace (f = 1/2)."""
    by_hand = {
        "lru": (12 + 4 + 20, 5),
        "lfu": (24 + 4 + 20, 3 + 5),
        "arc": (15 + 80 + 8 + 5 + (8 + 40) / 2 + 25, 20 + 4 + 5 + 10),
        "solar_e": (24 + 16 + 8 + (80 + 180) / 2, 3 + 2 + (90 + 10 * 446) / 2),
        "solar_a": (40 + 124 + 36 + 8 + (80 + 180) / 2, 10 + 120 + 3 + (90 + 300) / 2),
    }
    for policy, expected in by_hand.items():
        assert floor.rule_work(policy, 10, 1.0, 0.5) == pytest.approx(expected), policy
    both = [floor.rule_work("solar", 10, 1.0, 0.5)[i] for i in (0, 1)]
    assert both == pytest.approx([40 + 124 + by_hand["solar_e"][0], 10 + 120 + by_hand["solar_e"][1]])
    assert floor.rule_work("sieve", 10, 1.0, 0.5) is None


# --- gate ---

REFERENCE = {("fifo", 10): 3.0, ("solar", 10): 1.0}


def test_the_gate_fails_below_half_of_the_reference():
    assert gate.verdict([row(ratio=1.6), row("solar", ratio=0.55)], REFERENCE) == []
    (text,) = gate.verdict([row(ratio=1.4), row("solar", ratio=0.55)], REFERENCE)
    assert "fifo at K = 10 runs 1.40 times" in text and "the reference is 3.00" in text and "(1.50)" in text
    assert len(gate.verdict([row(ratio=float("nan")), row("solar", ratio=0.4)], REFERENCE)) == 2


def test_the_gate_does_not_pass_for_want_of_numbers():
    for rows in ([row()], [row(), row("solar", ratio=None)]):
        with pytest.raises(BenchError, match="no ratio was measured for solar at K = 10"):
            gate.verdict(rows, REFERENCE)
    with pytest.raises(BenchError, match="no ratio was measured for anything"):
        gate.verdict([row()], {})


def test_the_stored_reference_is_what_the_gate_measures():
    stored = gate.load(script.REFERENCE)
    assert set(stored) == {(p, k) for p in gate.SIZES.policies for k in gate.SIZES.capacities}
    assert all(0 < ratio < 100 for ratio in stored.values())
    text = script.REFERENCE.read_text()
    assert str(ROOT) not in text and "provenance" in text


def test_references_are_checked(tmp_path):
    with pytest.raises(BenchError, match="there is no reference"):
        gate.load(tmp_path / "gate.json")
    (tmp_path / "gate.json").write_text('{"rows": [{"policy": "fifo"}]}')
    with pytest.raises(BenchError, match="no reference of the gate"):
        gate.load(tmp_path / "gate.json")


@pytest.fixture
def measured(monkeypatch):
    """Stands in for the children: rows to return, call by call; what was asked."""
    asked = []
    answers = []

    def measure(name, sizes, quiet=True):
        asked.append((name, sizes))
        return Measured(name, answers.pop(0) if answers else PLANTED[name], DEVICE)

    monkeypatch.setattr(sections, "measure", measure)
    return asked, answers


def test_gate_script_stores_passes_and_fails_after_two_tries(measured, tmp_path, capsys):
    asked, answers = measured
    path = tmp_path / "gate.json"
    answers += [[row(ratio=3.0), row("solar", ratio=1.0)]]
    assert script.run_gate(True, path) == 0 and gate.load(path) == REFERENCE
    fast, slow = [row(ratio=2.9), row("solar", ratio=0.9)], [row(ratio=1.2), row("solar", ratio=0.9)]
    answers += [slow, fast]  # one bad measurement is noise
    assert script.run_gate(False, path) == 0
    capsys.readouterr()
    answers += [slow, slow]
    assert script.run_gate(False, path) == 1
    said = capsys.readouterr()
    assert "FAILED twice" in said.err and "fifo at K = 10 runs 1.20 times" in said.err and "reference 3.00" in said.out
    assert {name for name, _ in asked} == {"compare"} and {sizes for _, sizes in asked} == {gate.SIZES}


def test_gate_options(monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        script.main(["--gate", "--lanes", "3"])
    assert stop.value.code == 2 and "--lanes 3" in capsys.readouterr().err
    seen = []
    monkeypatch.setattr(script, "solarjax", lambda words: seen.append(words) or sys.exit(0))
    with pytest.raises(SystemExit):
        script.main(["--quick", "--json", "-"])
    assert seen == [["bench", "--quick", "--json", "-"]]


# --- sections and their processes ---


def test_sections_start_as_they_need(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1 --xla_force_host_platform_device_count=8")
    found = sections.environment(SECTIONS["compare"], [0, 1])
    assert found["JAX_PLATFORMS"] == "cpu" and found["JAX_ENABLE_COMPILATION_CACHE"] == "0"
    assert found["XLA_FLAGS"] == "--xla_a=1 --xla_force_host_platform_device_count=1"
    assert sections.environment(SECTIONS["cores"], [0, 1])["XLA_FLAGS"].endswith("count=2")
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.delenv("XLA_FLAGS")
    found = sections.environment(SECTIONS["device"], [0, 1])
    assert "JAX_PLATFORMS" not in found and "XLA_FLAGS" not in found


def test_units_cover_what_was_asked():
    sizes = Options(policies=("fifo", "lru"), capacities=(4, 8), seeds=(1, 2, 3))
    count = {name: len(list(sections.units(name, sizes))) for name in SECTIONS}
    assert count == {"compare": 1, "cores": 1, "device": 1, "compile": 2, "growth": 1, "memory": 3}
    with pytest.raises(BenchError, match="unknown section 'speed'; there are compare"):
        list(sections.units("speed", sizes))


def test_a_child_answers_and_its_error_comes_back(monkeypatch):
    monkeypatch.setattr(child, "rows_of", lambda section, unit, say: say("x") or [{"seeds": unit["seeds"]}])
    request = {"section": "memory", "unit": {"seeds": 3}, "pinned": False, "quiet": True}
    answer = child.answer(request)
    assert answer["rows"] == [{"seeds": 3}] and answer["device"]["platform"] == "cpu" and answer["device"]["load"] >= 0
    # In a process of its own: an unknown policy is the caller's error, one line and no traceback.
    with pytest.raises(BenchError, match="no policy 'fifa'|unknown policy 'fifa'|fifa"):
        sections.measure("compile", Options(policies=("fifa",), capacities=(4,), steps=4))


# --- the command ---


def call(*words):
    with pytest.raises(SystemExit) as stop:
        main(["bench", *(str(word) for word in words)])
    return stop.value.code


def test_all_sections_are_shown_and_stored(measured, tmp_path, capsys):
    asked, _ = measured
    path, picture = tmp_path / "bench.json", tmp_path / "growth.svg"
    assert call("--all", "--json", path, "--figure", picture) == 0
    shown = capsys.readouterr().out
    for section in SECTIONS.values():
        assert section.title in shown
    for text in (
        "load 1.3 on 2 cores",
        "6 M/s",
        "3.00 (2.70 .. 3.30)",
        "left out: memory (16.0 GiB)",
        "1.07 (1.00 .. 1.14)",
        "700 MiB",
    ):
        assert text in shown, text
    assert "no compiled loop beside solar" in shown and [name for name, _ in asked] == list(SECTIONS)
    stored = json.loads(path.read_text())
    assert {name: part["rows"] for name, part in stored["sections"].items()} == PLANTED
    record = stored["provenance"]
    assert record["config"]["lanes"] == 1024 and record["device"]["growth"] == DEVICE and "jax" in record["versions"]
    assert record["command"] == "solarjax bench " + " ".join(f"--{name}" for name in SECTIONS)
    assert str(tmp_path) not in path.read_text() and str(ROOT) not in path.read_text()
    drawing = picture.read_text()
    assert drawing.startswith("<svg") and drawing.count("solar: 1.07 ± 0.07") == 2 and "lanes B" in drawing


def test_quick_is_smaller_and_a_policy_can_still_be_named(measured, capsys):
    asked, _ = measured
    assert call("--quick") == 0 and call("--quick", "--policies", "lru", "--capacities", "5,7", "--repeats", 2) == 0
    (_, first), (_, second) = asked
    assert first.policies == ("fifo", "solar") and first.capacities == (10,) and first.lanes < 1024
    assert second.policies == ("lru",) and second.capacities == (5, 7) and second.repeats == 2
    command = results.command([Measured("compare", [], DEVICE)], second, options.Options())
    assert command.startswith("solarjax bench --compare --quick --policies lru --capacities 5,7 --lanes 256")
    capsys.readouterr()
    assert call("--quick", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["sections"]["compare"]["rows"] == PLANTED["compare"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--policies", "fifa"], "fifa"),
        (["--policies", "oracle"], "oracle sees the future"),
        (["--policies", "unlimited"], "unlimited keeps everything"),
        (["--lanes", "0"], "lanes 0 is out of range; allowed are whole numbers from 1"),
        (["--capacities", "ten"], "--capacities 'ten' is not a whole number"),
        (["--figure", "x.svg"], "ask for --growth"),
        (["--growth", "--repeats", "1"], "allowed are whole numbers from 2"),
        (["--json", "no/such/folder/x.json"], "cannot write no/such/folder/x.json"),
    ],
)
def test_wrong_words_are_refused_before_measuring(words, says, measured, capsys):
    assert call(*words) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1 and measured[0] == []


def test_figures_need_rows_and_files_are_whole(tmp_path, monkeypatch):
    with pytest.raises(BenchError, match="nothing to draw"):
        figure.drawn([])
    monkeypatch.setattr(figure.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BenchError, match=r"needs matplotlib; install solarjax\[report\]"):
        figure.drawn(PLANTED["growth"])
    path = tmp_path / "x.json"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError):
        results.write(path, "\ud800")
    assert path.read_text() == "before" and [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_rates_are_readable():
    assert [render.rate(v) for v in (None, 12.0, 9.94e3, 9.4e6, 1.5e9)] == [
        "-",
        "12 /s",
        "9.94 k/s",
        "9.4 M/s",
        "1.5 G/s",
    ]
