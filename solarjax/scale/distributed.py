"""Several processes under `jax.distributed`: each runs its share with its own devices and writes into one store.

A lane never needs another lane, so nothing is exchanged while the shares run: jax tells the processes who they are,
and the results meet in the store, a folder that all of them see. Where jax finds its cluster by itself (Slurm,
Open MPI, TPU pods) no address is needed.
"""

from __future__ import annotations

from collections.abc import Callable

from solarjax.core.chunks import SweepError
from solarjax.core.task_runner import TaskRunner
from solarjax.scale.rendezvous import meet
from solarjax.scale.shares import Progress, run_share, wait_for_all
from solarjax.scale.sinks import Sink


def start(coordinator: str | None, processes: int | None, process: int | None, seconds: float) -> None:
    """Joins the other processes. To be called before anything else of jax.

    Args:
      coordinator: `host:port` of process 0, None where jax finds it by itself.
      processes, process: how many there are, and which this is; None with `coordinator` None.
      seconds: how long to wait for the others.

    Raises:
      SweepError: an argument is wrong, the address is taken, or not everybody came in time.
    """
    import jax

    if coordinator is not None:
        assert processes is not None and process is not None
        meet(coordinator, processes, process, seconds)
    # The loss of a process must not end the others, which is what jax does by default: they need nothing from it.
    jax.config.update("jax_enable_recoverability", True)
    try:
        jax.distributed.initialize(coordinator, processes, process, initialization_timeout=max(1, round(seconds)))
    except (RuntimeError, ValueError) as error:
        text = " ".join(str(error).split())
        raise SweepError(f"jax.distributed could not start: {text}") from error


def who() -> tuple[int, int]:
    """(this process, number of processes), after `start`."""
    import jax

    return jax.process_index(), jax.process_count()


def leave() -> None:
    """Ends the connection; process 0 leaves it to jax, which does it at exit."""
    import jax

    jax.distributed.shutdown()


def run_together(
    sink: Sink,
    runner: TaskRunner,
    index: int,
    count: int,
    patience: float,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
) -> None:
    """Runs this process's share; process 0 then waits for the others, and takes over what never comes.

    Args:
      index, count: which process this is, of how many.
      patience: seconds without a finished task after which process 0 stops waiting.
      progress, note: as in `run_share`, and told what is taken over.

    Raises:
      SweepError: a task failed, or the disk refuses.
    """
    run_share(sink, runner, index, count, progress)
    if index:
        return
    try:
        wait_for_all(sink, patience, progress)
    except SweepError as silence:
        if note is not None:
            note(f"{silence.args[0].split(';')[0]}; they run here now")
        run_share(sink, runner, progress=progress)
