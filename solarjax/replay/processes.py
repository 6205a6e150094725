"""Processes that outlive the one that started them: recognised without doubt, and ended with all their children.

A process id alone proves nothing, ids are reused; id, boot and start time together do. A server is started as the
leader of a session of its own, and the kernel does not give a session's number away while any member lives: so its
members are its children, also those whose parent died or that made a process group of their own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_POLL_S = 0.05


@dataclass(frozen=True)
class Process:
    """One row of the process table. session: id of the session's leader.  started: boot and start time."""

    pid: int
    session: int
    started: str


def table() -> list[Process]:
    """All processes that run; those that ended and only wait for their parent to notice are left out."""
    if (_PROC / "self" / "stat").exists():
        found = (_from_proc(int(entry.name)) for entry in _PROC.iterdir() if entry.name.isdigit())
        return [process for process in found if process is not None]
    return _from_ps(["-ax"])


def find(pid: int) -> Process | None:
    """The process with this id, or None if none runs."""
    if (_PROC / "self" / "stat").exists():
        return _from_proc(pid)
    return next(iter(_from_ps(["-p", str(pid)])), None)


def is_running(pid: int, started: str) -> bool:
    """Whether the process that had this id and start time still runs."""
    process = find(pid)
    return process is not None and process.started == started


def family(pid: int, started: str) -> list[Process]:
    """What still runs of the session that this process leads or led."""
    leader = find(pid)
    if leader is not None and leader.started != started:
        return []  # the number was given to somebody else, so nobody of the old session is left
    return [process for process in table() if process.session == pid]


def end(pid: int, started: str, *, grace_s: float = 15.0, kill_s: float = 10.0) -> list[Process]:
    """Ends a session: asks its leader, waits, then kills what is left. Returns what survived, normally nothing.

    Args:
      pid: the leader.
      started: its start time, as `find` told it.
      grace_s: seconds for an orderly end.
      kill_s: seconds to wait for the killed ones to disappear.
    """
    if is_running(pid, started):
        _send(pid, signal.SIGTERM)
        _wait_until_gone(pid, started, grace_s)
    deadline = time.monotonic() + kill_s
    # In a loop: a member may start another one while the list is walked.
    while members := family(pid, started):
        for member in members:
            if is_running(member.pid, member.started):
                _send(member.pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return members
        time.sleep(_POLL_S)
    return []


def _wait_until_gone(pid: int, started: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while family(pid, started) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it ended by itself meanwhile


def _from_proc(pid: int) -> Process | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold spaces and parentheses. After it: state is field 3, session 6, start time 22.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return Process(pid, int(fields[3]), f"{_boot()}:{fields[19]}")


def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]


def _from_ps(which: list[str]) -> list[Process]:
    done = subprocess.run(["ps", *which, "-o", "pid=,sess=,stat=,lstart="], capture_output=True, text=True, check=False)
    rows = (line.split(None, 3) for line in done.stdout.splitlines())
    return [
        # Where `ps` shows an address instead of a session id, the system call is asked.
        Process(int(row[0]), _session(int(row[0])), row[3].strip())
        for row in rows
        if len(row) == 4 and not row[2].startswith("Z")
    ]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1
