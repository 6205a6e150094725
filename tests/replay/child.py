"""A replay as a process that can be killed: `python -m tests.replay.child JOURNAL`; a line per settled round.

It imports no more than it needs, because it is started eleven times.
"""

import asyncio
import sys
from pathlib import Path

from solarjax.replay.journal import Journal
from solarjax.replay.loop import Loop
from solarjax.replay.prompts import Prompter, load
from tests.replay.worlds import Model, Words, encode, plan

CONFIG = {"what": "a test"}
LONG = 20
"""Questions of a session in the killing test: 40 rounds."""


def replay(path, what, model, tell=None):
    """Records of a replay against a fake model."""
    prompter = Prompter(load(what.settings.template), Words(), what.settings.context)
    with Journal(path, CONFIG) as journal:
        loop = Loop(what, model, prompter, encode, journal, concurrency=4, tell=tell)
        asyncio.run(loop.run())
        return journal.records


if __name__ == "__main__":
    import jax

    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    replay(Path(sys.argv[1]), plan(n=LONG), Model(delay_s=0.02), tell=lambda at: print(at.done, flush=True))
