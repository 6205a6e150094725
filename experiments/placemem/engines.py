"""Nodes to measure: scripted ones in this process, or real vLLM servers, started and stopped here.

Real servers outlive whoever starts them, so a guard process does too: it waits for this one to end, however that
happens, and then stops them (`python -m experiments.placemem.guard`). Killing a benchmark leaves no server behind.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solarjax.replay import processes, server
from solarjax.replay.server_options import ServerOptions
from solarjax.replay.server_state import Record

NAMES = "abcdefgh"
SERVED = "smollm2"
MAX_MODEL_LEN = 2560


@dataclass(frozen=True)
class Node:
    """One node. `config` is a `[[nodes]]` table of the plane; `blocks` its KV capacity, `family` its process."""

    config: dict[str, Any]
    blocks: int
    family: tuple[int, str] | None = None


@dataclass(frozen=True)
class Nodes:
    """Nodes that run.

    backend: `standin` or `vllm`.  model: name to ask for.  published: batches of events of each node, where known.
    facts: what identifies them in results; no paths, no ports.
    """

    backend: str
    model: str
    nodes: tuple[Node, ...]
    facts: dict[str, Any]
    published: Callable[[], list[int]] | None = field(default=None)

    def configs(self) -> list[dict[str, Any]]:
        """For the plane's settings."""
        return [node.config for node in self.nodes]

    def cpu_ms(self) -> float | None:
        """CPU time that all servers' threads have used so far, milliseconds; None where it is not known."""
        spent = [cpu_ns(*node.family) for node in self.nodes if node.family is not None]
        known = [ns for ns in spent if ns is not None]
        return sum(known) / 1e6 if known and len(known) == len(self.nodes) else None


def cpu_ns(pid: int, started: str) -> int | None:
    """Nanoseconds on a CPU of all threads of a server's processes; None if the system does not tell."""
    total = 0
    for process in processes.family(pid, started):
        try:
            for task in os.listdir(f"/proc/{process.pid}/task"):
                with open(f"/proc/{process.pid}/task/{task}/schedstat", encoding="ascii") as file:
                    total += int(file.read().split()[0])
        except FileNotFoundError:
            return None
        except OSError:
            continue  # a thread that ended meanwhile
    return total


@contextlib.contextmanager
def standin(blocks: Sequence[int]) -> Iterator[Nodes]:
    """Scripted nodes of these capacities."""
    from experiments.placemem.standin import BLOCK, MODEL, TOPIC, StandIn

    with tempfile.TemporaryDirectory(prefix="pm") as folder, contextlib.ExitStack() as stack:
        made = []
        for name, capacity in zip(NAMES, blocks, strict=False):
            engine = StandIn(Path(folder), name, capacity)
            stack.callback(engine.close)
            made.append(engine)
        nodes = tuple(
            Node({"name": e.name, "url": e.url, "model": MODEL, "tokenizer": str(e.model), "events": e.events,
                  "replay": e.replay, "topic": TOPIC}, e.cache.capacity)
            for e in made
        )  # fmt: skip
        facts = {"backend": "standin", "blocks": list(blocks), "block_size": BLOCK}
        yield Nodes("standin", MODEL, nodes, facts, lambda: [engine.published for engine in made])


def running(records: Sequence[Record], options: Sequence[ServerOptions]) -> Nodes:
    """Real servers as nodes."""
    nodes = tuple(
        Node(
            {"name": NAMES[i], "url": record.url, "model": SERVED, "tokenizer": record.path,
             "events": f"ipc://{option.kv_events}/{option.name}.events.sock",
             "replay": f"ipc://{option.kv_events}/{option.name}.replay.sock", "topic": "kv-events"},
            option.kv_blocks or 0, (record.pid, record.started),
        )
        for i, (record, option) in enumerate(zip(records, options, strict=True))
    )  # fmt: skip
    facts = {"backend": "vllm", "model": Path(records[0].path).name, "blocks": [node.blocks for node in nodes],
             "block_size": 32, "dtype": options[0].used_dtype()}  # fmt: skip
    return Nodes("vllm", SERVED, nodes, facts)


@contextlib.contextmanager
def guarded(names: Sequence[str], folder: Path | None = None) -> Iterator[None]:
    """Servers of these names are stopped when this process ends in any way.

    folder: with their state files, None for the usual one.
    """
    command = [sys.executable, "-m", "experiments.placemem.guard", str(folder or server.state_folder()), *names]
    # It reads from a pipe that only this process holds open, in a session of its own, which no Ctrl-C reaches.
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, cwd=_root())
    try:
        yield
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait(timeout=120)


def _root() -> Path:
    return Path(__file__).resolve().parents[2]
