"""Tasks handed to a Ray cluster, one Ray task per chunk; lost workers and machines cost a retry, not the run.

Results come back to the driver, which alone writes the store, so the machines need no file system in common. At most
a few tasks per CPU are under way, whatever the size of the sweep: the driver's memory does not grow with it.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from typing import Any

from solarjax.core.chunks import SweepError
from solarjax.core.execute import Task
from solarjax.scale.ray_worker import Recipe, identity, run_named
from solarjax.scale.rendezvous import reach
from solarjax.scale.shares import Progress, label
from solarjax.scale.sinks import Sink

RETRIES = 3
STARTS = 3
"""Tries to start a cluster of our own: on a busy machine Ray gives its processes too little time."""
TASKS_PER_CPU = 2
CONNECT_SECONDS = 20.0
OBJECT_STORE_BYTES = 256 * 2**20  # of a cluster of our own; chunks are small

Note = Callable[[str], None]


def run_on_ray(
    sink: Sink,
    recipe: Recipe,
    *,
    address: str | None = None,
    gpus: float = 0,
    retries: int = RETRIES,
    progress: Progress | None = None,
    note: Note | None = None,
) -> int:
    """Runs what is missing in the sink on Ray workers.

    Args:
      sink: where the results go.
      recipe: makes the sweep's plan in a worker.
      address: of a running cluster (`host:port`, or `auto` for the one on this machine); None starts one for this run.
      gpus: GPUs of each task.
      retries: how often one task may lose its worker.
      progress: called as progress(done, total, label) after each task.
      note: told, in one line, about every worker that was lost.

    Returns:
      Tasks that were lost and run again.

    Raises:
      SweepError: Ray is not installed or not reached, a task failed or was lost too often, or the disk refuses.
    """
    if len(sink.finished()) == len(sink.plan.tasks):
        return 0
    ray = _connect(address)
    try:
        return _run(ray, sink, recipe, gpus, retries, progress, note or (lambda line: None))
    finally:
        ray.shutdown()


def _connect(address: str | None) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_agent_register_timeout_ms", "120000")  # a busy machine starts its processes slowly
    try:
        import ray
    except ImportError:
        raise SweepError("the ray launcher needs the package ray: pip install 'solarjax[ray]'") from None
    if address not in (None, "auto"):
        reach(str(address), CONNECT_SECONDS, "Ray cluster").close()
    own: dict[str, Any] = {} if address else {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    for left in reversed(range(1 if address else STARTS)):
        try:
            with warnings.catch_warnings():
                # jax warns of every fork; the cluster's processes are executed at once and never run jax's threads.
                warnings.filterwarnings("ignore", message=r"os\.fork\(\)", category=RuntimeWarning)
                ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
            return ray
        except Exception as error:  # Ray raises a bare Exception where a process of it did not start
            ray.shutdown()
            if not left:
                text = " ".join(str(error).split())
                raise SweepError(f"Ray cluster {address or '(own)'} cannot be used: {text}") from error


def _run(ray: Any, sink: Sink, recipe: Recipe, gpus: float, retries: int, progress: Progress | None, note: Note) -> int:
    plan, finished = sink.plan, sink.finished()
    # Ray's own retries are silent; these are told, and also serve results that were lost with their machine.
    work = ray.remote(run_named).options(num_cpus=1, num_gpus=gpus, max_retries=0, scheduling_strategy="SPREAD")
    shared = ray.put(recipe), plan.layout, identity(plan)
    waiting = [(number, task) for number, task in enumerate(plan.tasks) if task.name not in finished]
    waiting.reverse()  # taken from the end
    done, lost, attempts = len(plan.tasks) - len(waiting), 0, dict[str, int]()
    running: dict[Any, tuple[int, Task]] = {}
    while waiting or running:
        room = max(2, int(TASKS_PER_CPU * ray.cluster_resources().get("CPU", 1)))
        while waiting and len(running) < room:
            number, task = waiting.pop()
            running[work.remote(*shared, number)] = (number, task)
        ready, _ = ray.wait(list(running), num_returns=1, timeout=5.0)
        for reference in ready:
            number, task = running.pop(reference)
            try:
                chunk = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, SweepError):
                    raise SweepError(str(error.cause)) from error
                raise
            except ray.exceptions.RayError as error:
                lost += 1
                attempts[task.name] = attempts.get(task.name, 0) + 1
                why = type(error).__name__
                if attempts[task.name] > retries:
                    raise SweepError(
                        f"{label(task)}, block {task.block}: its worker was lost {attempts[task.name]} times ({why}); "
                        "finished chunks are kept"
                    ) from error
                note(f"a worker was lost ({why}): {label(task)}, block {task.block} runs again")
                waiting.append((number, task))
                continue
            sink.put(task, chunk)
            done += 1
            if progress is not None:
                progress(done, len(plan.tasks), label(task))
    return lost
