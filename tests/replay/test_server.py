"""Servers as processes: started, found again, stopped with all their children. tests/vllm does it with the real one."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from solarjax.cli.main import main
from solarjax.replay import processes, server
from solarjax.replay.errors import BadOption, ServerFailed
from solarjax.replay.server_options import ServerOptions, available_cores
from solarjax.replay.server_state import read

FAKE = Path(__file__).with_name("fake_vllm.py")
HOUR = 3600.0


@pytest.fixture
def setting(tmp_path, monkeypatch):
    """An interpreter that runs the fake, a model folder, a state folder; nothing may run afterwards."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    python.chmod(0o755)
    model = tmp_path / "tiny"
    model.mkdir()
    (model / "config.json").write_text("{}")
    monkeypatch.setenv("SOLARJAX_VLLM_PYTHON", str(python))
    monkeypatch.setattr(server, "state_folder", lambda: tmp_path / "state")
    yield ServerOptions(name="one", model=str(model), port=0, gpu=False)
    left = [process for process in processes.table() if str(tmp_path) in _command(process.pid)]
    for process in left:
        os.kill(process.pid, signal.SIGKILL)
    assert not left


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
    except OSError:
        return ""


def engine_of(record):
    """Process id of the child that the fake started."""
    deadline = time.monotonic() + 10
    while "engine " not in (text := Path(record.log).read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(text.split("engine ")[1].split()[0])


def test_a_server_starts_is_listed_and_stops(setting, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    record, started = server.up(setting)
    assert started and [(s.record, s.state) for s in server.status()] == [(record, "ready")]
    assert os.getsid(record.pid) == record.pid and record.model == "tiny"
    engine = engine_of(record)
    log = Path(record.log).read_text()
    assert "keys []" in log and "sk-secret" not in log
    assert f"'--port', '{record.port}'" in log and "'--host', '127.0.0.1'" in log
    assert {p.pid for p in processes.family(record.pid, record.started)} >= {record.pid, engine}

    assert server.up(setting) == (record, False), "a second start finds the first"
    with pytest.raises(BadOption, match="other options"):
        server.up(replace(setting, max_model_len=77))
    assert server.down("one") and not server.status()
    assert processes.find(engine) is None and processes.find(record.pid) is None
    assert server.down("one") is False


def test_several_servers_side_by_side(setting):
    records = [server.up(replace(setting, name=name))[0] for name in ("a", "b")]
    assert len({record.port for record in records}) == 2
    server.down("a")
    assert [(s.record.name, s.state) for s in server.status()] == [("b", "ready")]
    server.down("b")


@pytest.mark.parametrize("mode", ["stubborn", "orphan"])
def test_children_that_do_not_listen_are_killed(setting, monkeypatch, mode):
    monkeypatch.setenv("FAKE_VLLM", mode)
    record, _ = server.up(setting)
    engine = engine_of(record)
    assert server.down("one", grace_s=0.5)
    assert processes.find(record.pid) is None and processes.find(engine) is None


def test_a_start_that_fails_shows_the_log_and_leaves_nothing(setting, monkeypatch):
    monkeypatch.setenv("FAKE_VLLM", "die")
    with pytest.raises(ServerFailed, match="ended before it answered: ValueError: no such dtype: blue") as caught:
        server.up(setting)
    assert "loading" in caught.value.tail and not server.status()

    monkeypatch.setenv("FAKE_VLLM", "hang")
    with pytest.raises(ServerFailed, match="did not answer within 0.5 s") as caught:
        server.up(setting, timeout_s=0.5)
    assert "arguments" in caught.value.tail and not server.status()
    assert (server.state_folder() / "one.log.1").exists(), "the log before is kept"


def test_a_dead_server_is_noticed_and_what_it_left_is_ended(setting, monkeypatch):
    monkeypatch.setenv("FAKE_VLLM", "orphan")
    record, _ = server.up(setting)
    engine = engine_of(record)
    os.kill(record.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while server.status()[0].state != "dead":
        assert time.monotonic() < deadline
    assert processes.find(engine) is not None
    monkeypatch.setenv("FAKE_VLLM", "ok")
    again, started = server.up(setting)
    assert started and again.pid != record.pid and processes.find(engine) is None
    server.down("one")


def test_a_number_that_was_given_to_another_process_is_not_touched(setting):
    """A state file left by an earlier boot may name the id of somebody else's process."""
    record, _ = server.up(setting)
    server.down("one")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True) as bystander:
        path = server.state_folder() / "one.json"
        path.write_text(json.dumps(record.__dict__ | {"pid": bystander.pid}))
        assert server.status()[0].state == "dead"
        assert server.down("one") and bystander.poll() is None
        bystander.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_start_leaves_nothing(setting, tmp_path, number):
    code = (
        "import sys; from pathlib import Path; from solarjax.replay import server\n"
        "from solarjax.replay.server_options import ServerOptions\n"
        "try: server.up(ServerOptions(name='one', model=sys.argv[1], port=0, gpu=False), folder=Path(sys.argv[2]))\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    folder = tmp_path / "state"
    with subprocess.Popen(
        [sys.executable, "-c", code, setting.model, folder],
        stdout=subprocess.PIPE, text=True, env=os.environ | {"FAKE_VLLM": "hang"},
    ) as starting:  # fmt: skip
        while not (folder / "one.json").exists():
            assert starting.poll() is None
            time.sleep(0.01)
        record = read(folder, "one")
        engine = engine_of(record)
        with pytest.raises(BadOption, match="being started by another command"):
            server.up(setting, folder=folder)
        starting.send_signal(number)
        assert starting.communicate(timeout=30)[0] == "interrupted\n"
    assert read(folder, "one") is None
    assert processes.find(record.pid) is None and processes.find(engine) is None


def test_a_start_that_was_killed_can_be_stopped(setting, tmp_path):
    """SIGKILL cannot be handled: the server goes on, but it is listed, and `down` ends it."""
    code = (
        "import sys; from pathlib import Path; from solarjax.replay import server\n"
        "from solarjax.replay.server_options import ServerOptions\n"
        "server.up(ServerOptions(name='one', model=sys.argv[1], port=0, gpu=False), folder=Path(sys.argv[2]))\n"
    )
    folder = tmp_path / "state"
    arguments = [sys.executable, "-c", code, setting.model, folder]
    with subprocess.Popen(arguments, env=os.environ | {"FAKE_VLLM": "hang"}) as starting:
        while not (folder / "one.json").exists():
            time.sleep(0.01)
        starting.kill()
    assert [s.state for s in server.status(folder=folder)] == ["not ready"]
    record = read(folder, "one")
    assert server.down("one", folder=folder) and processes.find(record.pid) is None


def test_serving_is_for_the_length_of_a_block(setting):
    with pytest.raises(ZeroDivisionError), server.serving(setting) as record:
        assert server.status()[0].state == "ready"
        raise ZeroDivisionError
    assert processes.find(record.pid) is None


def test_a_taken_port_is_named(setting):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BadOption, match=f"port {port} cannot be used: Address already in use"):
            server.up(replace(setting, port=port))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "../x"}, "cannot be a server's name"),
        ({"port": 70000}, "port is 70000"),
        ({"dtype": "blue"}, "known are auto, bfloat16"),
        ({"max_model_len": 0}, "max_model_len is 0"),
        ({"block_size": 16}, "multiples of 32"),
        ({"cores": (4096,)}, r"cores are \(4096,\)"),
        ({"threads": 4096}, "threads is 4096"),
        ({"kv_events": Path("/" + "x" * 120)}, "too long a path"),
    ],
)
def test_bad_options_are_named(changed, said):
    with pytest.raises(BadOption, match=said):
        ServerOptions(**{"gpu": False} | changed)


def test_the_model_must_exist(tmp_path):
    assert ServerOptions(model="owner/name").model_path() == "owner/name"
    for model, said in (
        (str(tmp_path), "no config.json"),
        ("./nowhere", "no folder"),
        (str(tmp_path / "no"), "no folder"),
    ):
        with pytest.raises(BadOption, match=said):
            ServerOptions(model=model).model_path()


def test_options_reach_the_command_line(tmp_path):
    """The flags are vLLM's: its own parser checks them in tests/vllm."""
    core = available_cores()[-1]
    options = ServerOptions(
        name="n", model="owner/name", served_name="short", dtype="float32", max_model_len=99, kv_blocks=64,
        kv_cache_gib=2, prefix_caching=False, threads=1, eager=False, gpu=False, kv_events=tmp_path, dev_mode=True,
        extra=("--seed", "3"),
    )  # fmt: skip
    argv = options.command("PY", 1234)
    assert argv[:3] == ["PY", "-m", "vllm.entrypoints.openai.api_server"] and argv[-2:] == ["--seed", "3"]
    pairs = dict(zip(argv, argv[1:], strict=False))
    assert (pairs["--model"], pairs["--served-model-name"], pairs["--port"]) == ("owner/name", "short", "1234")
    assert (pairs["--dtype"], pairs["--max-model-len"], pairs["--num-gpu-blocks-override"]) == ("float32", "99", "64")
    assert "--no-enable-prefix-caching" in argv and "--enforce-eager" not in argv and pairs["--block-size"] == "32"
    events = json.loads(pairs["--kv-events-config"])
    assert events["endpoint"] == f"ipc://{tmp_path}/n.events.sock" and events["enable_kv_cache_events"] is True
    environment = options.environment({"PATH": "p", "PYTHONHASHSEED": "0", "SOLARJAX_API_KEY": "k"})
    assert environment["VLLM_CPU_OMP_THREADS_BIND"] == str(core) and environment["OMP_NUM_THREADS"] == "1"
    assert (environment["VLLM_CPU_KVCACHE_SPACE"], environment["VLLM_SERVER_DEV_MODE"]) == ("2", "1")
    assert environment["PATH"] == "p" and not {"PYTHONHASHSEED", "SOLARJAX_API_KEY"} & set(environment)
    on_gpu = ServerOptions(model="m", gpu=True, block_size=16)
    assert "--enforce-eager" not in on_gpu.command("PY", 1) and "VLLM_CPU_KVCACHE_SPACE" not in on_gpu.environment({})


def command(capsys, *arguments):
    """(exit code, stdout, stderr) of `solarjax vllm`."""
    with pytest.raises(SystemExit) as ended:
        main(["vllm", *arguments])
    out = capsys.readouterr()
    return ended.value.code, out.out, out.err


def test_the_command_line(setting, capsys, monkeypatch):
    up = ("up", "cli", "--model", setting.model, "--port", "0", "--cpu", "--cores", str(available_cores()[0]))
    code, out, err = command(capsys, *up)
    record = server.status()[0].record
    assert code == 0 and out == f"{record.url}\n" and "ready after" in err
    assert "as before" in command(capsys, *up)[2]
    code, out, _ = command(capsys, "status")
    assert code == 0 and out.startswith("cli  ready for ") and record.url in out
    assert command(capsys, "down", "cli")[0] == 0
    assert command(capsys, "status")[0] == 1
    assert command(capsys, "down", "cli")[::2] == (
        2, "solarjax: error: no server 'cli' was started; `solarjax vllm status` lists them\n",
    )  # fmt: skip
    monkeypatch.setenv("FAKE_VLLM", "die")
    code, out, err = command(capsys, *up)
    assert (
        code == 2 and not out and "[api.py:1] loading" in err and "no such dtype: blue; log: " in err.splitlines()[-1]
    )
    assert command(capsys, "up", "--cores", "1-x")[0] == 2
    assert command(capsys, "down", "--all")[0] == 0
