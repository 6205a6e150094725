"""A real vLLM with a real small model, started once by the command that users type; scripts/setup_vllm installs it."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from solarjax.replay import processes, server
from solarjax.replay.server_state import Record, read

MODEL = "smollm2"


def solarjax_vllm(*arguments):
    """Runs `solarjax vllm ...` in a process of its own."""
    command = [sys.executable, "-m", "solarjax.cli.main", "vllm", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)


@dataclass(frozen=True)
class Running:
    """The server of this session. url: for clients.  record: its state.  events: folder of its cache events."""

    url: str
    record: Record
    events: Path


@pytest.fixture(scope="session")
def vllm(tmp_path_factory):
    """Stopped after the last test, which fails if a process of it is left."""
    name = f"tests-{os.getpid()}"
    # Sockets want a short path.
    events = tmp_path_factory.mktemp("kv")
    done = solarjax_vllm(
        "up", name, "--port", "0", "--served-name", MODEL, "--threads", "1", "--max-model-len", "2048",
        "--kv-events", str(events),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = read(server.state_folder(), name)
    assert record is not None and done.stdout == f"{record.url}\n"
    members = processes.family(record.pid, record.started)
    assert len(members) >= 2, "the engine is a process of its own"
    yield Running(record.url, record, events)
    stopped = solarjax_vllm("down", name)
    assert stopped.returncode == 0, stopped.stderr
    assert not [member for member in members if processes.is_running(member.pid, member.started)]
    assert not processes.family(record.pid, record.started) and read(server.state_folder(), name) is None


@pytest.fixture
def fresh_words():
    """Words that no earlier run sent, so that nothing of a prompt that begins with them is cached."""
    stamp = time.time_ns()
    return f"Note {stamp}: " + " ".join(f"item {stamp % (i + 2)} lies in box {i}," for i in range(16))
