"""Very many streams at once through the sidecar.

    scripts/bench_plane streams --count 1000

All are opened together, and each takes as long as all need to open, so that they run side by side; the stand-in counts
how many did. A stream counts as dropped unless every chunk and [DONE] arrived. Exit code 1 if one was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from scripts.plane.site import Connection, Site, question, site


async def _all(at: Site, count: int, chunks: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()

    async def one(number: int) -> None:
        connection = Connection(at.plane, at.headers())
        try:
            told = await connection.ask(question(number, True))
            whole = told.body.count(b'"content"') == chunks and b"data: [DONE]" in told.body
            outcomes["whole" if told.status == 200 and whole else f"{told.status}: {told.body[-120:]!r}"] += 1
        except (OSError, asyncio.IncompleteReadError) as error:
            outcomes[type(error).__name__] += 1
        finally:
            await connection.close()

    await asyncio.gather(*(one(i) for i in range(count)))
    return outcomes


def measure(at: Site, count: int, chunks: int) -> dict[str, Any]:
    """Opens the streams and waits for their ends."""
    cpu, begin = at.cpu_s(), time.monotonic()
    outcomes = asyncio.run(_all(at, count, chunks))
    return {
        "measured": "streams", "count": count, "outcomes": dict(outcomes), "at_once": at.stats()["most"],
        "seconds": round(time.monotonic() - begin, 2), "cpu_ms_per_stream": round((at.cpu_s() - cpu) / count * 1e3, 2),
        "resident_mb": round(at.resident_bytes() / 1e6, 1),
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=16.0, help="that a stream takes")
    given = parser.parse_args(arguments)
    interval = given.seconds / given.chunks
    with (
        tempfile.TemporaryDirectory() as folder,
        site(Path(folder), chunks=given.chunks, interval=interval) as at,
    ):
        found = measure(at, given.count, given.chunks)
    print(json.dumps(found))
    return int(found["outcomes"] != {"whole": given.count})
