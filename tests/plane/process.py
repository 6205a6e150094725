"""An engine of standin.py in a process of its own, which can be killed as one and started again at the same address."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.plane.standin import Engine, write_model
from tests.support.ports import free_port


class Process:
    """One node. `start` may be called again after `kill`."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.model = write_model(folder / "model")
        self.endpoints = [f"ipc://{folder}/{name}.{kind}" for kind in ("live", "replay")]
        self._process = None

    def start(self, *acts):
        """acts: what it does with its first requests, see standin.Engine."""
        command = [sys.executable, "-m", "tests.plane.process", str(self.folder), self.name, str(self._port), *acts]
        root = Path(__file__).resolve().parents[2]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
        self._says("started")

    def until_held(self):
        """Returns when it holds the next request back."""
        self._says("held")

    def _says(self, word):
        ready, _, _ = select.select([self._process.stdout], [], [], 60)
        assert ready, f"it never said {word}"
        assert self._process.stdout.readline() == f"{word}\n"

    def kill(self):
        """SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()


def main(folder, name, port, *acts):
    parent = os.getppid()
    engine = Engine(Path(folder), name, port=int(port))
    engine.script.extend(acts)
    print("started", flush=True)
    due = 0.0
    while os.getppid() == parent:  # it does not outlive the tests
        if time.monotonic() > due:
            # What is published before a subscription has arrived again is missed until something more comes.
            asyncio.run_coroutine_threadsafe(engine.publish(), engine.server.loop).result(timeout=30)
            due = time.monotonic() + 0.2
        while engine.held:
            engine.held.popleft()
            print("held", flush=True)
        time.sleep(0.005)


if __name__ == "__main__":
    main(*sys.argv[1:])
