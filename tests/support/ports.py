"""Ports of this machine."""

import socket


def free_port() -> int:
    """One that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
