"""A replay of a LoCoMo session against a real vLLM: answers, times, cached tokens; a second start asks nothing.

Prompts are kept short (two corpus texts, eight tokens of answer), because this runs on a CPU.
"""

import json

import numpy as np
import pytest
import xarray as xr

from solarjax.cli.errors import run_guarded
from solarjax.cli.main import app

MODEL = "smollm2"
pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def replayed(vllm, shared_data, tmp_path_factory):
    """(words of the command, result folder) of 16 questions x 2 policies at one capacity, all scored."""
    out = tmp_path_factory.mktemp("replay") / "out"
    words = [
        "replay", "--locomo", str(shared_data / "locomo" / "locomo10.json"), "--server", vllm.url, "--model", MODEL,
        "--tokenizer", vllm.record.path, "--policies", "fifo,solar", "--capacities", "4", "--seeds", "1",
        "--sessions", "conv-26", "--limit", "16", "--warmup", "0", "--corpus-k", "2", "--max-tokens", "8",
        "--context", "700", "--timeout", "600", "--quiet", "--out", str(out),
    ]  # fmt: skip
    assert run_guarded(lambda: app(words, standalone_mode=False)) == 0
    return words, out


def test_every_question_is_answered_measured_and_scored(replayed):
    _, out = replayed
    data = xr.load_dataset(out / "result.nc", engine="h5netcdf")
    assert float(data["requests"].sum()) == 32
    f1 = data["step_quality"].values
    assert f1.shape == (1, 2, 1, 1, 16) and ((f1 >= 0) & (f1 <= 1)).all()
    assert np.isfinite(data["answer_f1"]).all() and (data["answer_f1"] <= 1).all()
    assert (data["step_ttft_s"] > 0).all() and (data["step_itl_s"] > 0).any()
    assert (data["step_prompt_tokens"] > 50).all() and (data["step_completion_tokens"] >= 1).all()
    cached = data["step_cached_tokens"]
    # The system message and, between the two policies, the corpus are the same.
    assert np.isfinite(cached).all() and (cached > 0).any() and (cached < data["step_prompt_tokens"]).all()
    assert (data["step_decision_s"] > 0).all()
    assert (data["final_size"] == 4).all()
    provenance = json.loads((out / "provenance.json").read_text())
    assert provenance["config"]["model"]["name"] == MODEL and provenance["server_version"][0].isdigit()
    assert len(provenance["config"]["prompt"]["sha256"]) == 64 and provenance["timing"]["asked"] == 32


def test_tokens_are_counted_as_the_server_counts_them(replayed):
    _, out = replayed
    records = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()[1:]]
    assert len(records) == 32
    assert all(r["counted_tokens"] == r["prompt_tokens"] for r in records)


def test_a_second_start_asks_nothing(replayed, capsys):
    """Neither a complete run nor one that lost its result needs the server again: the address is dead."""
    words, out = replayed
    dead = [("http://127.0.0.1:9" if word.startswith("http://") else word) for word in words]
    before = xr.load_dataset(out / "result.nc", engine="h5netcdf")
    for name in ("result.nc", "provenance.json"):
        (out / name).unlink()
    assert run_guarded(lambda: app(dead, standalone_mode=False)) == 0, capsys.readouterr().err
    after = xr.load_dataset(out / "result.nc", engine="h5netcdf")
    for name in before.data_vars:
        if not str(name).startswith(("decision_ms", "step_decision")):
            np.testing.assert_array_equal(after[name].values, before[name].values, err_msg=str(name))
    assert json.loads((out / "provenance.json").read_text())["timing"]["asked"] == 0
