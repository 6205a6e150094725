"""`solarjax replay`: what it prints, and one line with exit code 2 for everything a user can mend."""

import json

import pytest
import xarray as xr

from solarjax.replay import server as servers
from solarjax.replay import server_state, tokenizer
from tests.replay.commands import call, options
from tests.replay.stand_in import MODEL, StandIn, in_thread


def test_a_replay_its_continuation_and_its_shadow(world, tmp_path, capsys):
    with in_thread(StandIn()) as server:
        words = options(world, server=server.url, out=tmp_path / "out")
        assert call(*words) == 0
        shown = capsys.readouterr()
        assert "answer_f1" in shown.out and "asked 12 questions" in shown.err and "12/12" in shown.err
        assert "requests/s" in shown.err and "F1" in shown.err
        asked = len(server.asked)
        # The two policies share prompts until their caches differ.
        assert 6 <= asked <= 12
        assert call(*words) == 0
        assert "was complete already; nothing was asked" in capsys.readouterr().err and len(server.asked) == asked
        assert call(*words, "--feedback", "liked") == 2
        assert "holds a run of another configuration (feedback" in capsys.readouterr().err
    data = xr.load_dataset(tmp_path / "out" / "result.nc", engine="h5netcdf")
    assert data.sizes["policy"] == 2 and data.attrs["model"] == MODEL
    shadow = options(world, mode="shadow", out=tmp_path / "shadow", against=tmp_path / "out")
    assert call(*shadow) == 0
    rows = json.loads((tmp_path / "shadow" / "correlation.json").read_text())
    assert [row["policy"] for row in rows] == ["fifo", "solar(signal=miss)", None]
    assert call("report", tmp_path) == 0
    assert "ranks as the model does" in (tmp_path / "report.md").read_text()


def test_what_is_not_asked_is_said_and_stored_and_no_evidence_is_no_hit(world, tmp_path, capsys):
    """Of one's own questions one has no answer, which leaves nothing to score, and one no evidence: it is asked."""
    rows = [{"kind": "query", "id": "x", "text": "what is it"}]
    rows.append({"kind": "query", "id": "y", "text": "what is box 9", "answer": "red", "category": "bare"})
    world.write_text(world.read_text() + "\n" + "\n".join(map(json.dumps, rows)))
    with in_thread(StandIn(answer=lambda prompt: "red")) as server:
        assert call(*options(world, policies="fifo", server=server.url, warmup=0, out=tmp_path / "out")) == 0
    assert "questions left out, and counted in the result: 1 without answer" in capsys.readouterr().err
    data = xr.load_dataset(tmp_path / "out" / "result.nc", engine="h5netcdf")
    assert json.loads(data.attrs["left_out"]) == {"mine": {"without answer": 1}}
    bare = data.sel(category="bare").squeeze()
    # `red` against `red`: F1 is 1, though nothing that was retrieved can be a hit.
    assert (float(bare["category_f1"]), float(bare["category_hit_rate"])) == (1.0, 0.0)
    assert data["step_hit"].sum() > 0


def test_a_dry_run_counts_and_asks_nothing(world, capsys):
    assert call(*options(world, seeds=3), "--dry-run") == 0
    shown = capsys.readouterr().out
    # 6 questions x 2 policies x 1 capacity x 3 seeds; each question differs at least once per seed.
    assert "requests: 36 (at least 18 of them differ" in shown
    assert "prompt tokens: about" in shown and "min at 1500 prompt tokens a second" in shown


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"server": "http://127.0.0.1:9", "out": "OUT"}, "127.0.0.1:9"),
        ({"server": "SERVER", "out": "OUT", "model": "gpt-x"}, "gpt-x"),
        ({"server": "SERVER", "out": "FILE"}, "cannot write"),
        ({"server": "SERVER"}, "--out is needed"),
        ({"out": "OUT"}, "--server"),
        ({"server": "SERVER", "out": "OUT", "policies": "oracle"}, "sees the future"),
        ({"server": "SERVER", "out": "OUT", "policies": "fivo"}, "did you mean 'fifo'"),
        ({"server": "SERVER", "out": "OUT", "sessions": "nobody"}, "session 'nobody' is not in this trace"),
        ({"server": "SERVER", "out": "OUT", "mode": "ghost"}, "mode 'ghost' is unknown"),
        ({"server": "SERVER", "out": "OUT", "context": 20}, "leaves no room"),
        ({"server": "SERVER", "out": "OUT", "template": "nothing_v1"}, "'nothing_v1' is neither"),
        ({"server": "SERVER", "out": "OUT", "api": "rest"}, "--api rest is unknown"),
        ({"server": "SERVER", "out": "OUT", "against": "OUT"}, "--against only applies"),
        ({"server": "SERVER", "out": "OUT", "locomo": "OUT"}, "name one source"),
        ({"server": "SERVER", "out": "OUT", "qa": "OUT"}, "--dialsim and --qa go together"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_exit_code_2(world, tmp_path, capsys, monkeypatch, given, says):
    monkeypatch.setattr("solarjax.replay.retry.wait_s", lambda *_: 0.0)
    (tmp_path / "file").write_text("")
    with in_thread(StandIn()) as server:
        places = {"OUT": str(tmp_path / "out"), "FILE": str(tmp_path / "file" / "out"), "SERVER": server.url}
        code = call(*options(world, **{k: places.get(v, v) for k, v in given.items()}))
    shown = capsys.readouterr().err
    assert code == 2 and says in shown and len(shown.strip().splitlines()) == 1
    assert not list(tmp_path.rglob("result.nc"))


def test_a_server_that_was_started_here_brings_its_tokenizer(tmp_path, monkeypatch):
    """As the README has it: `solarjax vllm up`, then a replay by address and name."""
    monkeypatch.delenv(tokenizer.VARIABLE, raising=False)
    monkeypatch.setattr(servers, "state_folder", lambda: tmp_path)
    record = server_state.Record("default", 1, "never", 8123, "small", "/models/small", "log", "", 0.0)
    server_state.write(tmp_path, record)
    for address in ("http://127.0.0.1:8123", "http://localhost:8123/", "http://127.0.0.1:8123/v1"):
        assert tokenizer.chosen(None, address, "small") == "/models/small"
    assert tokenizer.chosen(None, "http://127.0.0.1:8124", "small") == "small"
    assert tokenizer.chosen(None, "http://127.0.0.1:8123", "org/other") == "org/other"
    assert tokenizer.chosen(None, None, "small") == "small"
    monkeypatch.setenv(tokenizer.VARIABLE, "/mine")
    assert tokenizer.chosen(None, "http://127.0.0.1:8123", "small") == "/mine"
    assert tokenizer.chosen("/given", "http://127.0.0.1:8123", "small") == "/given"


def test_a_tokenizer_that_is_not_there_is_named_at_once(capsys):
    with pytest.raises(ValueError, match="no tokenizer at 'smollm2': it is no folder"):
        tokenizer.load("smollm2")
