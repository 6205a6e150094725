"""What the memory plane costs.

    scripts/bench_plane corrections [--postgres]   # corrections, cascades, admissions, fences
    scripts/bench_plane sidecar                    # time to first token and CPU against asking the engine directly
    scripts/bench_plane streams --count 1000       # so many streams at once, none dropped
    scripts/bench_plane memory --requests 100000   # growth of the process, bytes a request

Each prints JSON lines; `--help` after a name tells its options. The last three ask a stand-in for an engine in a
process of its own (scripts/plane/backend.py), so that nothing but the plane is measured.
"""

from __future__ import annotations

import sys

from scripts.plane import bench_corrections, bench_memory, bench_sidecar, bench_streams

COMMANDS = {
    "corrections": bench_corrections.main, "sidecar": bench_sidecar.main, "streams": bench_streams.main,
    "memory": bench_memory.main,
}  # fmt: skip


def main() -> int:
    """See the module."""
    name, *rest = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        print(__doc__)
        return 0
    if name not in COMMANDS:
        print(f"bench_plane: {name!r} is unknown; allowed are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return COMMANDS[name](rest)


if __name__ == "__main__":
    sys.exit(main())
