"""What the memory plane costs.

    scripts/bench_plane corrections [--postgres]   # corrections, cascades, admissions, fences
    scripts/bench_plane sidecar                    # time to first token and CPU against asking the engine directly
    scripts/bench_plane streams --count 1000       # so many streams at once, none dropped
    scripts/bench_plane memory --requests 100000   # growth of the process, bytes a request

Each prints JSON lines; `--help` after a name tells its options. `--out FOLDER` also keeps them, in bench-NAME.json with
the command and what it ran on. The last three ask a stand-in for an engine in a process of its own
(scripts/plane/backend.py), so that nothing but the plane is measured.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
import time
from pathlib import Path

from scripts.plane import bench_corrections, bench_memory, bench_sidecar, bench_streams

COMMANDS = {
    "corrections": bench_corrections.main, "sidecar": bench_sidecar.main, "streams": bench_streams.main,
    "memory": bench_memory.main,
}  # fmt: skip


class _Both(io.TextIOBase):
    """Passes on what is written, and keeps it."""

    def __init__(self) -> None:
        self.kept = ""

    def write(self, text: str) -> int:
        """To the terminal and into `kept`."""
        self.kept += text
        sys.__stdout__.write(text)  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]
        return len(text)


def _kept(name: str, rest: list[str], out: Path) -> int:
    from experiments.placemem.report import collected
    from solarjax.report.stored import write_text

    out.mkdir(parents=True, exist_ok=True)
    both, begin = _Both(), time.monotonic()
    made = collected(real=False)  # of the code that runs, not of what lies there when it has run
    with contextlib.redirect_stdout(both):
        code = COMMANDS[name](rest)
    stored = {
        "command": shlex.join(["scripts/bench_plane", name, *rest]), "exit_code": code,
        "seconds": round(time.monotonic() - begin, 1), "provenance": made,
        "measured": [json.loads(line) for line in both.kept.splitlines()],
    }  # fmt: skip
    suffix = "-postgresql" if "--postgres" in rest else ""
    write_text(out / f"bench-{name}{suffix}.json", json.dumps(stored, indent=1, allow_nan=False) + "\n")
    return code


def main() -> int:
    """See the module."""
    name, *rest = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        print(__doc__)
        return 0
    if name not in COMMANDS:
        print(f"bench_plane: {name!r} is unknown; allowed are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    if "--out" not in rest:
        return COMMANDS[name](rest)
    at = rest.index("--out")
    if at + 1 == len(rest):
        print("bench_plane: --out needs a folder", file=sys.stderr)
        return 2
    return _kept(name, rest[:at] + rest[at + 2 :], Path(rest[at + 1]))


if __name__ == "__main__":
    sys.exit(main())
