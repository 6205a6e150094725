"""Starts, shows and stops vLLM servers: named, on the loopback interface, one state file each.

The state file is written before anything can go wrong and removed after everything has ended, so that a server is
either listed or not there, whatever became of the command that started it.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from solarjax.replay import processes
from solarjax.replay.errors import BadOption, ServerFailed
from solarjax.replay.server_options import ServerOptions, find_python, root
from solarjax.replay.server_state import Record, lock, read, read_all, remove, write

START_S = 600.0
_POLL_S = 0.2
_TAIL_LINES = 30
# Children of this process; kept so that they are waited for, and not only left behind.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class Status:
    """What is known of one server. state: `ready`, `not ready` (starting, or hung), or `dead`."""

    record: Record
    state: str


def state_folder() -> Path:
    """Where state files and logs lie: `.cache/vllm` of the checkout."""
    return root() / ".cache" / "vllm"


def up(
    options: ServerOptions,
    *,
    folder: Path | None = None,
    timeout_s: float = START_S,
    progress: Callable[[float], None] = lambda seconds: None,
) -> tuple[Record, bool]:
    """Starts a server and waits until it answers; leaves nothing behind if that fails or is interrupted.

    A server of this name that runs with the same options is waited for and left as it is.

    Args:
      options: of the server.
      folder: for state file and log; None for `state_folder()`.
      timeout_s: most seconds to wait.
      progress: called several times a second with the seconds waited.

    Returns:
      The server, and whether this call started it.

    Raises:
      ServerFailed: it ended, or did not answer in time; `tail` holds the end of its log.
      BadOption: the port is taken, the name is in use with other options, vLLM or the model was not found.
      KeyboardInterrupt: on SIGINT, SIGTERM or SIGHUP, after everything was stopped.
    """
    folder = folder or state_folder()
    with lock(folder, options.name), _signals() as caught:
        known = read(folder, options.name)
        if known is not None and processes.is_running(known.pid, known.started):
            if known.options != record_options(options):
                raise BadOption(
                    f"server {options.name!r} already runs with other options (process {known.pid}, {known.url}); "
                    f"stop it first: solarjax vllm down {options.name}"
                )
            _wait(known, timeout_s, progress, caught)
            return known, False
        if known is not None:
            down(options.name, folder=folder)  # its leader died; nothing of it may be left when the next one starts
        record = _launch(options, folder)
        try:
            _wait(record, timeout_s, progress, caught)
        except BaseException:
            _stop(record, folder)
            raise
        return record, True


def down(name: str, *, folder: Path | None = None, grace_s: float = 15.0) -> bool:
    """Stops a server with all its processes, and verifies it. False if there is none of this name.

    Raises:
      ServerFailed: something of it could not be ended.
    """
    folder = folder or state_folder()
    record = read(folder, name)
    if record is None:
        return False
    _stop(record, folder, grace_s)
    return True


def status(*, folder: Path | None = None) -> list[Status]:
    """All servers that were started and not stopped, by name."""
    return [Status(record, _state(record)) for record in read_all(folder or state_folder())]


@contextmanager
def serving(options: ServerOptions, *, folder: Path | None = None, timeout_s: float = START_S) -> Iterator[Record]:
    """A server for the length of a block; one that ran before is left running."""
    record, started = up(options, folder=folder, timeout_s=timeout_s)
    try:
        yield record
    finally:
        if started:
            down(options.name, folder=folder)


def record_options(options: ServerOptions) -> str:
    """The options as they are compared: everything but a port left to chance."""
    return repr(options)


def log_tail(path: Path, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log, or "" if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 64 * 1024))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def _launch(options: ServerOptions, folder: Path) -> Record:
    python = find_python()
    port = _free_port(options.port)
    argv, environment = options.command(python, port), options.environment(os.environ)
    if options.kv_events is not None:
        options.kv_events.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = folder / f"{options.name}.log"
    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    with log.open("wb") as out, _bound_to(options.used_cores()):
        # A session of its own: the terminal's Ctrl-C goes to `up` alone, and `processes.family` finds the children.
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
            start_new_session=True,
        )
    _children[process.pid] = process
    found = processes.find(process.pid)
    record = Record(
        name=options.name, pid=process.pid, started=found.started if found else "", port=port,
        model=options.shown_name(), path=options.model_path(), log=str(log), options=record_options(options),
        started_at=time.time(),
    )  # fmt: skip
    try:
        write(folder, record)
    except BaseException:
        _stop(record, folder)
        raise
    return record


def _wait(record: Record, timeout_s: float, progress: Callable[[float], None], caught: list[int]) -> None:
    began = time.monotonic()
    while True:
        if caught:
            raise KeyboardInterrupt
        if not _is_running(record):
            raise _failed(record, "ended before it answered")
        if _answers(record.port):
            return
        waited = time.monotonic() - began
        if waited > timeout_s:
            raise _failed(record, f"did not answer within {timeout_s:g} s")
        progress(waited)
        time.sleep(_POLL_S)


def _failed(record: Record, what: str) -> ServerFailed:
    tail = log_tail(Path(record.log))
    said = [line for line in tail.splitlines() if re.search(r"\b\w*(Error|Exception)\b.*: ", line)]
    # vLLM puts process, level, date and source in front of each line.
    reason = re.sub(r"^\(.*?\)\s+\w+ [\d-]+ [\d:]+ \[.*?\]\s*", "", said[-1]).strip() if said else "see the log"
    return ServerFailed(f"server {record.name!r} {what}: {reason}; log: {record.log}", tail=tail)


def _stop(record: Record, folder: Path, grace_s: float = 15.0) -> None:
    survivors = processes.end(record.pid, record.started, grace_s=grace_s)
    child = _children.pop(record.pid, None)
    if child is not None:
        child.wait(timeout=10)
    if survivors:
        left = ", ".join(str(process.pid) for process in survivors)
        raise ServerFailed(f"server {record.name!r}: processes {left} could not be ended")
    remove(folder, record.name)


def _state(record: Record) -> str:
    if not _is_running(record):
        return "dead"
    return "ready" if _answers(record.port) else "not ready"


def _is_running(record: Record) -> bool:
    return processes.is_running(record.pid, record.started)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _free_port(wanted: int) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            raise BadOption(
                f"port {wanted} cannot be used: {error.strerror}; choose another, or 0 for a free one"
            ) from None
        return probe.getsockname()[1]


@contextmanager
def _bound_to(cores: tuple[int, ...]) -> Iterator[None]:
    """Children started inside run on these cores only, where the system can say so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collects the signals that ask to stop, instead of dying of them between a start and its entry in the state."""
    caught: list[int] = []
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        try:
            before[number] = signal.signal(number, lambda seen, frame: caught.append(seen))
        except ValueError:
            break  # not the main thread: then signals do not arrive here anyway
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
