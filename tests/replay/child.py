"""A replay as a process that can be killed: `python -m tests.replay.child JOURNAL`; a line per settled round."""

import sys
from pathlib import Path

from tests.replay.test_loop import LONG, replay
from tests.replay.worlds import Model, plan

if __name__ == "__main__":
    import jax

    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    replay(Path(sys.argv[1]), plan(n=LONG), Model(delay_s=0.02), tell=lambda at: print(at.done, flush=True))
