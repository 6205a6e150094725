"""`solarjax plane serve` is told to stop while an engine is in the middle of an answer."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import httpx2
import pytest

from solarjax.plane.catalogue import Catalogue
from solarjax.plane.commit import Intent
from solarjax.plane.listing import Listing
from solarjax.plane.services import build
from solarjax.plane.settings import load
from tests.plane.front import MODEL
from tests.plane.helpers import draft
from tests.plane.http import bearer
from tests.plane.standin import Engine
from tests.support.ports import free_port

USED = {"X-PlaceMem-Capsules": "fact", "X-PlaceMem-Writeback": "note", "X-Request-Id": "held"}
BODY = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "code?"}]}


class Asked:
    """A request under way, in a thread of its own."""

    def __init__(self, running, **more):
        self._url = f"http://127.0.0.1:{running.port}/v1/chat/completions"
        self._options = {"json": {**BODY, **more}, "headers": bearer(running.token, **USED)}
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self):
        self._outcome = None
        try:
            with httpx2.Client(timeout=60.0, trust_env=False) as client:
                self._outcome = client.post(self._url, **self._options).text
        except httpx2.TransportError as error:
            self._outcome = error

    def outcome(self):
        """The text of the whole answer, or what cut it off."""
        self._thread.join(timeout=60)
        return self._outcome


class Running:
    """A plane in a process of its own, in front of one scripted engine."""

    def __init__(self, folder, grace):
        self.folder, self.engine = folder, Engine(folder)
        self.port = free_port()
        config = folder / "plane.toml"
        config.write_text(
            f'database = "plane.db"\nport = {self.port}\nshutdown_seconds = {grace}\nrequest_log = "requests.jsonl"\n'
            f'[[nodes]]\nname = "a"\nurl = "{self.engine.url}"\nmodel = "{MODEL}"\ntokenizer = "model"\n'
        )
        with closing(build(load(config))) as services:
            services.catalogue.add_tenant("one")
            self.token = services.access.issue("one", "tester")
            services.catalogue.create(Intent("one", "tester"), draft("fact", "The code is 17. " * 6))
        command = [sys.executable, "-m", "solarjax.cli.main", "plane", "serve", "--config", str(config)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)
        self.http = httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60.0, trust_env=False)
        self.until(lambda: self.get("/readyz") == 200)

    def get(self, path):
        try:
            return self.http.get(path).status_code
        except httpx2.TransportError:
            return None

    def until(self, done):
        deadline = time.monotonic() + 60
        while not done():
            assert time.monotonic() < deadline, "it did not come about"
            time.sleep(0.02)

    def refuses(self):
        """True once nobody can connect any more."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        except ConnectionError:
            return True
        return False

    def left(self):
        """What is found after its end: the records, and a catalogue that is whole."""
        with closing(sqlite3.connect(self.folder / "plane.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        lines = (self.folder / "requests.jsonl").read_text().splitlines(keepends=True)
        assert all(line.endswith("\n") for line in lines)
        with closing(Catalogue(str(self.folder / "plane.db"))) as catalogue:
            held = Listing(catalogue.database, catalogue.clock).capsules("one", limit=10)
            return [json.loads(line) for line in lines], sorted(str(capsule.ref) for capsule in held)

    def close(self):
        self.http.close()
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        self.engine.close()


@pytest.fixture
def running(tmp_path, request):
    made = Running(tmp_path, request.param)
    yield made
    made.close()


@pytest.mark.parametrize("running", [60], indirect=True)
@pytest.mark.parametrize("stream", [True, False])
def test_a_request_is_finished_before_the_process_ends(running, stream):
    running.engine.script.append("pause" if stream else "hold")
    asked = Asked(running, stream=stream)
    running.until(lambda: running.engine.held)
    running.process.send_signal(signal.SIGTERM)
    running.until(running.refuses)
    assert running.process.poll() is None, "it waits"
    running.engine.held.popleft().release()
    text = asked.outcome()
    assert "there" in str(text) and ("[DONE]" in text) == stream
    assert running.process.wait(timeout=60) == 0
    (record,), kept = running.left()
    assert (record["id"], record["outcome"], record["status"]) == ("held", "ok", 200)
    assert kept == ["fact@1", "note@1"], "what was to be kept of the answer is"


@pytest.mark.parametrize("running", [1], indirect=True)
def test_a_stream_that_does_not_end_is_cut_off_after_the_grace(running):
    running.engine.script.append("pause")
    asked = Asked(running)
    running.until(lambda: running.engine.held)
    begin = time.monotonic()
    running.process.send_signal(signal.SIGTERM)
    assert isinstance(asked.outcome(), httpx2.TransportError), "no end that could be taken for one"
    assert running.process.wait(timeout=60) == 0 and time.monotonic() - begin >= 1.0
    (record,), kept = running.left()
    assert (record["id"], record["outcome"]) == ("held", "cancelled")
    assert kept == ["fact@1"], "half an answer is not kept"
    running.until(lambda: running.engine.cancelled == 1)
