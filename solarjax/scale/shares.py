"""Shares of a sweep: which process runs what, and waiting for the others through the store they share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from solarjax.core.chunks import SweepError
from solarjax.core.execute import Task
from solarjax.core.task_runner import TaskRunner
from solarjax.scale.sinks import Sink

T = TypeVar("T")
Progress = Callable[[int, int, str], None]
POLL_SECONDS = 0.5


def share(parts: Sequence[T], index: int, count: int) -> list[T]:
    """Every `count`-th part from `index` on: shares differ by one part at most, and together they are all parts.

    Raises:
      SweepError: there is no such process.
    """
    if count < 1 or not 0 <= index < count:
        raise SweepError(f"process {index} of {count}: allowed are 0..{count - 1}")
    return list(parts[index::count])


def run_share(sink: Sink, runner: TaskRunner, index: int = 0, count: int = 1, progress: Progress | None = None) -> int:
    """Runs what is missing of one process's share, here, in order.

    Args:
      sink: where the results go.
      runner: of the sink's plan.
      index, count: which process this is, of how many.
      progress: called as progress(done, total, label) after each task, both counted in the share.

    Returns:
      Tasks that were run.

    Raises:
      SweepError: there is no such process, a task failed, or the disk refuses.
    """
    finished = sink.finished()
    own = [task for part in share(sink.parts(count), index, count) for task in part]
    todo = [task for task in own if task.name not in finished]
    for number, task in enumerate(todo):
        sink.put(task, runner.run(task))
        if progress is not None:
            progress(len(own) - len(todo) + number + 1, len(own), label(task))
    return len(todo)


def wait_for_all(sink: Sink, patience: float, progress: Progress | None = None, poll: float = POLL_SECONDS) -> None:
    """Returns once every task of the plan is finished on disk.

    Args:
      patience: seconds without any newly finished task after which the others are given up.

    Raises:
      SweepError: nothing new was finished for `patience` seconds.
    """
    total, best, since = len(sink.plan.tasks), -1, time.monotonic()
    while True:
        now = len(sink.finished())
        if now > best:
            best, since = now, time.monotonic()
            if progress is not None:
                progress(now, total, "waiting for the other processes")
        if now == total:
            return
        if time.monotonic() - since > patience:
            raise SweepError(
                f"{total - now} of {total} tasks of the other processes are missing and none was finished for "
                f"{patience:g} s; repeat the command of those that ended, finished tasks are kept"
            )
        time.sleep(poll)


def label(task: Task) -> str:
    """What a progress bar says of a task."""
    return f"{task.case.label} N={task.group.num_slots}"
