"""Nodes that stay up from one part to the next: starting a real server takes longer than many a part."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from experiments.placemem import engines
from solarjax.replay import server
from solarjax.replay.server_options import ServerOptions, available_cores
from solarjax.replay.server_state import Record

PLACES = 2
"""Nodes of a benchmark."""


class Pool:
    """Real servers by place; use it as a context manager, at whose end all of them are stopped.

    Each may use all cores: requests come one at a time, so the servers never compute at once.

    Args:
      say: told what is started.

    Raises:
      ServerFailed, BadOption: see `solarjax.replay.server.up`.
    """

    def __init__(self, say: Callable[[str], None] = lambda text: None):
        self._say = say
        self._running: dict[int, tuple[int, Record, ServerOptions]] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Pool:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="pm")))
        self._stack.enter_context(engines.guarded([self._name(place) for place in range(PLACES)]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            for place in range(PLACES):
                server.down(self._name(place))

    def nodes(self, blocks: Sequence[int]) -> engines.Nodes:
        """Servers with caches of so many blocks of 32 tokens; those that have that many already stay as they are."""
        changed = [p for p, count in enumerate(blocks) if self._running.get(p, (None,))[0] != count]
        for place in changed:
            self._running.pop(place, None)
            server.down(self._name(place))
        if changed:
            self._say(f"starting {len(changed)} servers")
            made = [self._options(place, blocks[place]) for place in changed]
            with ThreadPoolExecutor(len(made)) as workers:
                starting = [workers.submit(server.up, options) for options in made]
                try:
                    records = [one.result()[0] for one in starting]
                except BaseException:
                    for place in changed:  # or the other one would be waited for until it answers
                        server.down(self._name(place))
                    raise
            for place, options, record in zip(changed, made, records, strict=True):
                self._running[place] = (blocks[place], record, options)
        chosen = [self._running[place] for place in range(len(blocks))]
        return engines.running([record for _, record, _ in chosen], [options for _, _, options in chosen])

    def _name(self, place: int) -> str:
        return f"placemem-{os.getpid()}-{engines.NAMES[place]}"

    def _options(self, place: int, blocks: int) -> ServerOptions:
        return ServerOptions(
            name=self._name(place), port=0, served_name=engines.SERVED, kv_blocks=blocks,
            max_model_len=min(engines.MAX_MODEL_LEN, blocks * 32), cores=available_cores(),
            kv_events=self._folder / "kv", dev_mode=True,
        )  # fmt: skip
