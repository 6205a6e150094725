"""Batches of work in processes of their own, a few at a time: compiling is most of the work and uses one core."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class BatchFailed(Exception):
    """A process ended with an error; its own output says why. batch: what it was given.  code: its exit code."""

    def __init__(self, batch: Any, code: int):
        super().__init__(f"{batch} failed (exit code {code})")
        self.batch, self.code = batch, code


def side_by_side(batches: Sequence[T], launch: Callable[[T], subprocess.Popen[bytes]], workers: int) -> None:
    """Launches a process per batch, `workers` at a time, in order, and waits for all.

    Raises:
      BatchFailed: one failed. Then, as on any exception that passes through, the others are stopped first.
    """
    waiting = list(batches)
    running: list[tuple[T, subprocess.Popen[bytes]]] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                batch = waiting.pop(0)
                running.append((batch, launch(batch)))
            time.sleep(0.1)
            ended = [entry for entry in running if entry[1].poll() is not None]
            running = [entry for entry in running if entry not in ended]
            for batch, process in ended:
                if process.returncode:
                    raise BatchFailed(batch, process.returncode)
    finally:
        for _, process in running:
            process.terminate()
        for _, process in running:
            process.wait()
