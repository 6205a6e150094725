"""The real server in a process of its own: command line, client, event stream, and how it stops."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from solarjax.cli.main import main
from solarjax.plane.capsules import CapsuleContent, CapsuleDraft, Provenance, VersionRef
from solarjax.plane.client import PlaneClient
from solarjax.plane.errors import Conflict, NotFound, Unauthorized, Unavailable
from solarjax.plane.placement.views import PlacementBody
from solarjax.plane.retriever import Query
from tests.support.ports import free_port

SOURCE = Provenance(source="test")
CLI = [sys.executable, "-m", "solarjax.cli.main"]


class Running:
    """A plane started by `solarjax plane serve`."""

    def __init__(self, folder, url):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.config = folder / "plane.toml"
        self.config.write_text(f'database = "{url}"\nport = {self.url.rsplit(":", 1)[1]}\nshutdown_seconds = 5\n')
        made = subprocess.run(
            [*CLI, "plane", "token", "acme", "--config", str(self.config), "--actor", "desk"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        self.token = made.stdout.strip()
        self.process = subprocess.Popen([*CLI, "plane", "serve", "--config", str(self.config)], stderr=subprocess.PIPE)
        with self.client() as client:
            for _ in range(600):
                try:
                    client.capsules(limit=1).__next__()
                except StopIteration:
                    return
                except Unavailable:
                    time.sleep(0.1)
        raise AssertionError("the server did not start")

    def client(self, token=None):
        return PlaneClient(token or self.token, self.url, timeout=30.0)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.process.stderr.close()
        return code


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    server = Running(tmp_path_factory.mktemp("serve"), "catalogue.db")
    yield server
    if server.process.returncode is None:
        server.stop()


@pytest.fixture
def command(running, monkeypatch, capsys):
    monkeypatch.setenv("SOLARJAX_PLANE_TOKEN", running.token)
    monkeypatch.setenv("SOLARJAX_PLANE_URL", running.url)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["plane", *arguments])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run


def test_the_client_speaks_every_verb(running):
    with running.client() as client:
        client.create(CapsuleDraft(id="c1", text="first text", provenance=SOURCE), reason="start")
        one = VersionRef(id="c1", version=1)
        client.create(CapsuleDraft(id="c2", text="derived", provenance=SOURCE, depends_on=(one,)))
        assert client.preview(one).ended == 2
        admission = client.admit(["c1", "c2"])
        assert client.fence(admission).passed
        result = client.correct(one, CapsuleContent(text="second text", provenance=SOURCE), "it was wrong")
        assert result.ended == 2 and not client.fence(admission).passed
        assert [str(i.ref) for i in client.ended_by(result.epoch)] == ["c1@1", "c2@1"]
        assert client.why(VersionRef(id="c2", version=1))[0].event.reason == "it was wrong"
        assert [c.version for c in client.history("c1")] == [1, 2] and client.get("c1").text == "second text"
        assert client.search(Query(text="second")).hits[0].capsule.id == "c1"
        next_one = client.supersede(VersionRef(id="c1", version=2), CapsuleContent(text="third", provenance=SOURCE))
        assert client.expire(next_one.ref).ended == 1
        assert client.restore(one).ref.version == 4
        assert client.delete("c1", reason="done").ended >= 1 and list(client.artifacts("c1")) == []
        assert [e.operation for e in client.events(capsule="c1")][-1] == "delete"
        with pytest.raises(NotFound):
            client.get("c1")
        with pytest.raises(Conflict):
            client.correct(one, CapsuleContent(text="x", provenance=SOURCE))
    with running.client("sjp_bad") as client, pytest.raises(Unauthorized):
        client.get("c1")


def test_subscribers_see_every_write_in_order_and_can_go_on(running):
    seen = []

    def read(after, count):
        with running.client() as client:
            stream = client.stream(after=after)
            for event in stream:
                seen.append(event)
                if len(seen) >= count:
                    stream.close()
                    return

    with running.client() as client:
        start = max((e.epoch for e in client.events()), default=0)
        for part in (3, 6):
            reader = threading.Thread(target=read, args=(start + len(seen), part), daemon=True)
            reader.start()
            for i in range(3):
                client.create(CapsuleDraft(text=f"streamed {part} {i}", provenance=SOURCE))
                # One at a time, so that each is a reading of its own and none hides in a batch.
                deadline = time.monotonic() + 30
                while len(seen) < part - 2 + i and time.monotonic() < deadline:
                    time.sleep(0.01)
            reader.join(timeout=30)
            assert not reader.is_alive()
    assert [e.epoch for e in seen] == list(range(start + 1, start + 7)), "nothing skipped, nothing twice"
    assert {e.actor for e in seen} == {"desk"}


def test_the_command_line_works_with_a_running_plane(command, running):
    code, out, _ = command("capsule", "fact.1", "--text", "Refunds for 30 days", "--reason", "policy")
    assert code == 0 and json.loads(out)["ref"] == {"id": "fact.1", "version": 1}
    assert command("capsule", "sum.1", "--text", "thirty", "--from", "fact.1@1", "--kind", "summary")[0] == 0
    assert "fact.1@1  fact  Refunds" in command("capsule")[1]
    assert command("capsule", "--search", "refunds")[1].startswith("fact.1@1")
    assert "would end 2" in (out := command("correct", "fact.1@1")[1]) and "sum.1@1  summary  derived from" in out
    code, out, _ = command("correct", "fact.1@1", "--text", "14 days", "--reason", "new policy")
    assert code == 0 and json.loads(out)["ended"] == 2
    assert "(ended)" in command("capsule", "fact.1", "--history")[1]
    assert re.search(r"correct by desk  'new policy'  via fact.1@1 -> sum.1@1", command("audit", "sum.1@1")[1])
    assert "correct  fact.1  by desk  ended 2" in command("audit", "fact.1")[1]
    assert json.loads(command("capsule", "fact.1")[1])["text"] == "14 days"
    assert json.loads(command("capsule", "fact.1", "--delete")[1])["ended"] == 1
    for arguments in (("capsule", "nobody"), ("correct", "nonsense"), ("capsule", "a b", "--text", "x"), ("serve",)):
        code, out, error = command(*arguments)
        assert code == 2 and error.count("\n") == 1 and error.startswith("solarjax: error: "), error


def test_the_operators_commands_work_on_the_file(command, running, tmp_path):
    config = str(running.config)
    assert "acme  desk" in command("token", "--config", config)[1]
    made = command("token", "other", "--config", config, "--actor", "x")[1].strip()
    key = made.split("_")[1]
    with running.client(made) as client:
        assert list(client.capsules()) == []
        assert command("token", "--config", config, "--revoke", key)[0] == 0
        with pytest.raises(Unauthorized):
            list(client.capsules())
    assert command("backup", "--config", config, str(tmp_path / "b.db"))[0] == 0
    assert command("backup", "--config", config, str(tmp_path / "b.db"))[0] == 2
    assert "restored" in command("restore", "--config", config, str(tmp_path / "b.db"))[1]
    (tmp_path / "bad.toml").write_text("prot = 1\n")
    code, _, error = command("serve", "--config", str(tmp_path / "bad.toml"))
    assert code == 2 and "prot" in error
    code, out, _ = command("serve", "--example")
    (tmp_path / "example.toml").write_text(out)
    assert command("token", "--config", str(tmp_path / "example.toml"))[:2] == (0, "")
    assert (tmp_path / "plane.db").exists(), "a relative database lies beside its configuration"


def test_nodes_are_listed_and_the_sidecar_is_served_with_the_plane(tmp_path):
    """One configuration starts both; a second plane, because the first has no nodes."""
    from tests.plane.standin import Engine

    engine = Engine(tmp_path)
    port = free_port()
    (tmp_path / "plane.toml").write_text(
        f'port = {port}\nshutdown_seconds = 2\n[[nodes]]\nname = "a"\nurl = "{engine.url}"\nmodel = "tiny"\n'
        f'tokenizer = "model"\nevents = "{engine.endpoints[0]}"\nreplay = "{engine.endpoints[1]}"\n'
    )
    config = ["--config", str(tmp_path / "plane.toml")]
    made = subprocess.run([*CLI, "plane", "token", "acme", *config], capture_output=True, text=True, check=True)
    process = subprocess.Popen([*CLI, "plane", "serve", *config], stderr=subprocess.PIPE)
    try:
        with PlaneClient(made.stdout.strip(), f"http://127.0.0.1:{port}", timeout=30.0) as client:
            deadline = time.monotonic() + 60
            while True:
                try:
                    if client.nodes()[0].residency_known and client.nodes()[0].health == "up":
                        break
                except Unavailable:
                    pass
                assert time.monotonic() < deadline
                time.sleep(0.1)
            client.create(CapsuleDraft(id="fact", text="It is 17. " * 8, provenance=SOURCE))
            ask = {"model": "tiny", "messages": [{"role": "user", "content": "what?"}], "capsules": ("fact",)}
            placed = client.place(PlacementBody.model_validate(ask))
            assert placed.decision.node == "a" and placed.decision.cached_tokens == 0 and client.requests() == []
        listed = subprocess.run(
            [*CLI, "plane", "nodes", "--url", f"http://127.0.0.1:{port}"],
            env={**os.environ, "SOLARJAX_PLANE_TOKEN": made.stdout.strip()}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert listed.stdout.startswith("a  tiny  up  0 of 400 blocks")
        assert (tmp_path / "plane.salt").stat().st_mode & 0o077 == 0
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        process.stderr.close()
        engine.close()


def test_only_this_machine_can_connect_by_default(running):
    port = int(running.url.rsplit(":", 1)[1])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [fields[1] for fields in lines if fields[3] == "0A"]
    assert f"0100007F:{port:04X}" in listening and f"00000000:{port:04X}" not in listening


def test_stopping_ends_streams_and_finishes_requests(running):
    """Last in this file: the server is gone afterwards."""
    begun, ended = threading.Event(), threading.Event()

    def subscribe():
        with running.client() as client:
            for _ in client.stream(after=0):
                begun.set()
        ended.set()

    subscriber = threading.Thread(target=subscribe, daemon=True)
    subscriber.start()
    with running.client() as client:
        for i in range(3):
            client.create(CapsuleDraft(id=f"last{i}", text="x", provenance=SOURCE))
    assert begun.wait(timeout=30), "the stream never began"
    assert running.stop() == 0
    assert ended.wait(timeout=30), "the stream was not ended"
    subscriber.join()
    with running.client() as client, pytest.raises(Unavailable):
        client.get("last0")
    assert os.path.exists(running.config)
