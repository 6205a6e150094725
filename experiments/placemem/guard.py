"""Waits until the other end of its standard input is closed, then stops the named servers.

    python -m experiments.placemem.guard STATE_FOLDER NAME...

The benchmark holds the other end. A process that is killed cannot tidy up, but the system closes its pipes.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """See the module."""
    from solarjax.replay import server

    folder, *names = arguments
    sys.stdin.buffer.read()
    for name in names:
        server.down(name, folder=Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
