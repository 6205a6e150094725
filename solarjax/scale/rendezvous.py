"""Everybody is there, before jax starts: what jax.distributed answers with an abort becomes one line here.

Process 0 listens on the coordinator's port, the others report with their number; once all have come each is told to
go on, the port is free again, and jax's own service starts on it.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack

from solarjax.core.chunks import SweepError


def check_address(address: str, what: str = "coordinator") -> tuple[str, int]:
    """`host:port` in two parts. Raises `SweepError` if it is none."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise SweepError(f"{what} {address!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def reach(address: str, seconds: float, what: str = "coordinator") -> socket.socket:
    """A connection to `host:port`, tried again until somebody listens; errors call it `what`.

    Raises:
      SweepError: nobody listens within `seconds`.
    """
    host, port = check_address(address, what)
    until = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection((host, port), timeout=max(0.1, min(5.0, until - time.monotonic())))
        except OSError as error:
            if time.monotonic() >= until:
                why = error.strerror or error
                raise SweepError(f"{what} {address} was not reached within {seconds:g} s: {why}") from None
        time.sleep(0.1)


def meet(address: str, processes: int, process: int, seconds: float) -> None:
    """Returns in every process once all `processes` have called it.

    Args:
      address: `host:port` of process 0, seen from everywhere.
      processes, process: how many there are, and which this is.
      seconds: how long to wait.

    Raises:
      SweepError: the address is wrong or taken, a number came twice or the counts differ, or somebody did not come.
    """
    check_address(address)
    if processes < 1 or not 0 <= process < processes:
        raise SweepError(f"process {process} of {processes}: allowed are 0..{processes - 1}")
    if process == 0:
        _host(address, processes, seconds)
    else:
        _join(address, processes, process, seconds)


def _host(address: str, processes: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    here: dict[int, socket.socket] = {}
    with ExitStack() as closing:
        try:
            port, both = check_address(address)[1], socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if both else socket.AF_INET
            server = closing.enter_context(socket.create_server(("", port), family=family, dualstack_ipv6=both))
        except OSError as error:
            raise SweepError(f"coordinator {address}: the port cannot be used: {error.strerror}") from None
        problem = None
        while problem is None and len(here) < processes - 1:
            server.settimeout(max(0.01, until - time.monotonic()))
            try:
                guest = closing.enter_context(server.accept()[0])
                guest.settimeout(5)
                said = json.loads(guest.makefile().readline())
                number, count = int(said["process"]), int(said["processes"])
            except TimeoutError:
                if time.monotonic() < until:
                    continue  # connected and said nothing
                absent = sorted(set(range(1, processes)) - here.keys())
                problem = f"process(es) {', '.join(map(str, absent))} did not come within {seconds:g} s"
                break
            except (OSError, ValueError, KeyError, TypeError):
                continue  # a stranger
            if count != processes:
                problem = f"process {number} was started with --processes {count}, process 0 with {processes}"
            elif number in here or number == 0:
                problem = f"two processes say they are process {number}"
            here[number if number not in here else -number - 1] = guest
        for guest in here.values():
            try:
                guest.sendall(json.dumps({"problem": problem}).encode() + b"\n")
            except OSError:
                pass  # gone meanwhile; jax notices
        if problem:
            raise SweepError(problem)


def _join(address: str, processes: int, process: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    with reach(address, seconds) as host:
        host.settimeout(max(0.1, until - time.monotonic()))
        try:
            host.sendall(json.dumps({"process": process, "processes": processes}).encode() + b"\n")
            line = host.makefile().readline()
            answer = json.loads(line)
            problem = answer["problem"]
        except TimeoutError:
            raise SweepError(f"the other processes did not come within {seconds:g} s") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise SweepError(f"coordinator {address} ended, or is not a process 0 of solarjax") from None
    if problem:
        raise SweepError(problem)
