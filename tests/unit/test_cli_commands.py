"""The subcommands beside `run`."""

import json

import numpy as np
import pytest

from solarjax.cli.main import main
from solarjax.policies.registry import POLICIES
from solarjax.report import stored
from solarjax.traces.format import load, save
from solarjax.traces.protocols import PROTOCOLS
from solarjax.workloads.registry import WORKLOADS
from tests.unit.fake_results import fake_config, fake_provenance, fake_results
from tests.unit.small_trace import small_trace


def call(*arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return stop.value.code


def fails(capsys, *arguments):
    assert call(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1, shown
    return shown.err


def test_version_and_help(capsys):
    assert call("--version") == 0
    assert capsys.readouterr().out.startswith("solarjax 0.")
    for words in (
        ["run"],
        ["policies"],
        ["workloads"],
        ["trace", "import"],
        ["trace", "info"],
        ["data"],
        ["report"],
    ):
        assert call(*words, "--help") == 0
        out = capsys.readouterr().out
        assert "Example" in out and f"solarjax {' '.join(words)}" in out


def test_unknown_command(capsys):
    assert "No such command 'rum'" in fails(capsys, "rum")


def test_policies_lists_the_registry(capsys):
    assert call("policies") == 0
    out = capsys.readouterr().out
    named = {line.split()[0] for line in out.splitlines() if line and not line.startswith(" ")}
    assert set(POLICIES) <= named
    assert next(line for line in out.splitlines() if line.startswith("oracle")).split()[1].startswith("offline")


def test_parameters_of_one(capsys):
    assert call("policies", "solar") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in POLICIES["solar"].params) and "release, paper_ema, eoq, fixed" in out
    assert call("policies", "fifo") == 0
    assert "no parameters" in capsys.readouterr().out
    assert "unknown policy 'solra'; did you mean 'solar'" in fails(capsys, "policies", "solra")


def test_workloads_and_protocols(capsys):
    assert call("workloads") == 0
    out = capsys.readouterr().out
    named = {line.split()[0] for line in out.splitlines() if line and not line.startswith(" ")}
    assert set(WORKLOADS) | set(PROTOCOLS) <= named
    assert call("workloads", "cycling") == 0
    assert "n_topics" in capsys.readouterr().out
    assert call("workloads", "P2") == 0
    assert "mean delay in turns" in capsys.readouterr().out
    assert "did you mean 'cycling'" in fails(capsys, "workloads", "cycles")


def dialogue_file(tmp_path):
    """A LoCoMo file of one conversation with two questions."""
    turns = [
        {"speaker": "Ann", "dia_id": f"D1:{i + 1}", "text": text}
        for i, text in enumerate(["My cat is called Tom.", "Nice.", "I moved to Bonn.", "When?", "In May."])
    ]
    sample = {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann", "speaker_b": "Bob", "session_1": turns,
            "session_1_date_time": "1:56 pm on 8 May, 2023",
        },
        "qa": [
            {"question": "What is the cat called?", "answer": "Tom", "evidence": ["D1:1"], "category": 4},
            {"question": "Where does Ann live?", "answer": "Bonn", "evidence": ["D1:3"], "category": 4},
        ],
    }  # fmt: skip
    path = tmp_path / "dialogue.json"
    path.write_text(json.dumps([sample, {**sample, "sample_id": "conv-2"}]))
    return path


@pytest.fixture
def encoder(monkeypatch):
    """A stand-in for the network: letter counts. The real one is tested elsewhere."""

    def encode(texts, **_):
        return np.array([[1 + text.lower().count(c) for c in "abcdefghijklmno"] for text in texts], np.float32)

    monkeypatch.setattr("solarjax.encoders.minilm.encode", encode)


def test_import_a_dialogue(encoder, tmp_path, capsys):
    source, out = dialogue_file(tmp_path), tmp_path / "traces"
    assert call("trace", "import", "locomo", source, "--protocol", "P2", "--set", "mean=2", "--out", out) == 0
    written = capsys.readouterr().out.split()
    assert len(written) == 2
    trace = load(written[0])
    assert trace.meta["conversation"] == "conv-1" and len(trace.items) == 5 and len(trace.queries) == 2
    assert call("trace", "info", written[0]) == 0
    out = capsys.readouterr().out
    assert "conv-1" in out and "5 in 15 dimensions" in out and "2 (2 asked, 2 scored)" in out


def test_import_one_of_several(encoder, tmp_path, capsys):
    source, out = dialogue_file(tmp_path), tmp_path / "one.npz"
    assert "there are 2 dialogues (conv-1, conv-2)" in fails(capsys, "trace", "import", "locomo", source, "--out", out)
    assert not out.exists()
    base = ["trace", "import", "locomo", source, "--protocol", "P2", "--out", out]
    assert call(*base, "--conversation", "conv-2", "--seed", "1") == 0
    seeded = load(out)
    assert call(*base, "--conversation", "conv-2", "--seed", "2") == 0
    assert seeded.meta["conversation"] == "conv-2"
    assert not np.array_equal(seeded.query, load(out).query)
    capsys.readouterr()
    assert "did you mean 'conv-2'" in fails(capsys, *base, "--conversation", "conv2")


def test_import_json_lines(tmp_path, capsys):
    source, out = tmp_path / "mine.jsonl", tmp_path / "mine.npz"
    source.write_text(
        '{"kind": "item", "id": "a", "embedding": [1, 0]}\n'
        '{"kind": "query", "id": "q", "embedding": [1, 0], "relevant": ["a"]}\n'
    )
    assert call("trace", "import", "jsonl", source, "--out", out) == 0
    assert load(out).num_steps == 2
    capsys.readouterr()
    assert "only apply to dialogues" in fails(capsys, "trace", "import", "jsonl", source, "--out", out, "--seed", "3")


def test_import_checks_the_target_first(encoder, tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    out = tmp_path / "file" / "trace.npz"
    assert "cannot write to" in fails(capsys, "trace", "import", "locomo", dialogue_file(tmp_path), "--out", out)


def test_info_with_prefill_and_wrong_files(tmp_path, capsys):
    save(small_trace(), tmp_path / "t.npz")
    np.save(tmp_path / "p.npy", np.array([1, 0]))
    assert call("trace", "info", tmp_path / "t.npz", "--prefill", tmp_path / "p.npy") == 0
    out = capsys.readouterr().out
    assert "6 (2 prefill, 4 scored)" in out and "1 about a, 1 about b" in out and "4 of them repeats" in out
    assert "no such file" in fails(capsys, "trace", "info", tmp_path / "nowhere.npz")
    np.save(tmp_path / "p.npy", np.array([5]))
    assert "prefill[0] = 5" in fails(capsys, "trace", "info", tmp_path / "t.npz", "--prefill", tmp_path / "p.npy")


def test_data_says_what_is_there(shared_data, capsys):
    assert call("data", "--data", shared_data) == 0
    out = capsys.readouterr().out
    assert out.count("as published") == 4 and "CC BY-NC 4.0" in out


def test_data_tells_missing_and_changed_files(shared_data, tmp_path, capsys):
    assert call("data", "--data", tmp_path) == 0
    assert capsys.readouterr().out.count("here: not found") == 4
    assert call("data", "friendsqa", "--data", tmp_path) == 2
    assert "friendsqa" in capsys.readouterr().err
    for path in (shared_data / "friendsqa").iterdir():
        (tmp_path / "friendsqa").mkdir(exist_ok=True)
        (tmp_path / "friendsqa" / path.name).write_bytes(path.read_bytes() + b" ")
    assert call("data", "friendsqa", "--data", tmp_path) == 2
    shown = capsys.readouterr()
    assert "differs from the published files" in shown.out and "SHA-256" in shown.err
    assert "--download needs --data" in fails(capsys, "data", "friendsqa", "--download")
    assert "did you mean 'locomo'" in fails(capsys, "data", "lokomo")


def test_report(tmp_path, capsys):
    data = fake_results()
    stored.save(tmp_path / "one", data, fake_provenance(fake_config(data)))
    assert call("report", tmp_path, "--title", "Mine & yours") == 0
    assert str(tmp_path / "index.html") in capsys.readouterr().out
    assert "<h1>Mine &amp; yours</h1>" in (tmp_path / "index.html").read_text()
    assert "holds no complete run" in fails(capsys, "report", tmp_path / "figures")
    assert "is not a folder" in fails(capsys, "report", tmp_path / "nowhere")
