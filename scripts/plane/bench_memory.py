"""Does the plane's process grow with what it has served?

    scripts/bench_plane memory --requests 100000

Resident memory is read every hundredth of the requests; the slope is a least-squares line through the second half,
where caches with a bound have filled. One JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from scripts.plane.site import Connection, Site, question, site


async def _serve(at: Site, requests: int, concurrency: int) -> list[tuple[int, int]]:
    todo, seen, every = iter(range(requests)), [], max(requests // 100, 1)

    async def caller() -> None:
        connection = Connection(at.plane, at.headers())
        for number in todo:
            told = await connection.ask(question(number, number % 2 == 0))
            assert told.status == 200, told
            if number % every == 0:
                seen.append((number, at.resident_bytes()))
        await connection.close()

    await asyncio.gather(*(caller() for _ in range(concurrency)))
    return seen


def measure(at: Site, requests: int, concurrency: int) -> dict[str, Any]:
    """Serves and fits."""
    seen = sorted(asyncio.run(_serve(at, requests, concurrency)))
    number, size = np.array(seen[len(seen) // 2 :], np.float64).T
    slope = np.polyfit(number, size, 1)[0]
    return {
        "measured": "memory", "requests": requests, "first_mb": round(seen[0][1] / 1e6, 1),
        "half_mb": round(size[0] / 1e6, 1), "last_mb": round(size[-1] / 1e6, 1),
        "bytes_per_request": round(float(slope), 1),
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--concurrency", type=int, default=8)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, site(Path(folder)) as at:
        print(json.dumps(measure(at, given.requests, given.concurrency)))
    return 0
