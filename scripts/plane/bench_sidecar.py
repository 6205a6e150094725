"""What the sidecar adds: paired with asking the engine directly, catalogue look-up of three capsules included.

    scripts/bench_plane sidecar --requests 1000 --concurrency 4 --first 0.1

Every caller asks by turns directly and through the plane, so that both see the same machine. Two stand-ins are asked.
One answers at once: then all callers are in the plane at the same time, wait for each other there, and what is added is
the price of a queue that no engine leaves room for. It is what measures CPU. The other takes `--first` seconds to its
first token, as an engine does (a real one on a CPU took 60 to 100 ms for prompts it had cached, and longer for others):
what is added there is what a user waits longer. One JSON line each for streams and whole answers: medians of the time
to first token (milliseconds), the median of the paired differences, and CPU milliseconds of the plane's process a
request (from /proc, so Linux only), from a run without the direct half. On a busy machine the CPU time is the steadier
figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from scripts.plane.site import Connection, Site, question, site


async def _callers(at: Site, concurrency: int, requests: int, stream: bool, direct: bool) -> list[tuple[float, float]]:
    """(direct, through the plane) seconds to the first token."""
    todo, pairs = iter(range(requests)), []

    async def caller() -> None:
        straight, through = Connection(at.backend, {}), Connection(at.plane, at.headers())
        for number in todo:
            told = [await straight.ask(question(number, stream))] if direct else []
            told.append(await through.ask(question(number, stream)))
            assert all(t.status == 200 and (not stream or b"[DONE]" in t.body) for t in told), told[-1]
            pairs.append((told[0].ttft_s, told[-1].ttft_s))
        await straight.close()
        await through.close()

    await asyncio.gather(*(caller() for _ in range(concurrency)))
    return pairs


def measure(at: Site, concurrency: int, requests: int, stream: bool, first: float) -> dict[str, Any]:
    """One way of asking, streaming or not. first: seconds that the stand-in takes to its first token."""
    asyncio.run(_callers(at, concurrency, 50, stream, False))  # connections opened, statements compiled
    before = at.cpu_s()
    asyncio.run(_callers(at, concurrency, requests, stream, False))
    cpu = (at.cpu_s() - before) / requests
    pairs = asyncio.run(_callers(at, concurrency, requests, stream, True))
    directly, through = (statistics.median(p[i] for p in pairs) * 1e3 for i in (0, 1))
    return {
        "measured": "sidecar", "engine_first_s": first, "stream": stream, "concurrency": concurrency,
        "requests": requests,
        "cpu_ms_per_request": round(cpu * 1e3, 2), "direct_ttft_p50_ms": round(directly, 2),
        "plane_ttft_p50_ms": round(through, 2),
        "added_ttft_p50_ms": round(statistics.median(b - a for a, b in pairs) * 1e3, 2),
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--chunks", type=int, default=4, help="content chunks of a stream")
    parser.add_argument("--first", type=float, default=0.1, help="seconds to the first token of the slower stand-in")
    given = parser.parse_args(arguments)
    for first in (0.0, given.first):
        with tempfile.TemporaryDirectory() as folder, site(Path(folder), chunks=given.chunks, first=first) as at:
            for stream in (True, False):
                # The slower one tells nothing of CPU that the other does not, and a quarter is enough for a median.
                count = max(given.requests // 4, 1) if first else given.requests
                print(json.dumps(measure(at, given.concurrency, count, stream, first)), flush=True)
    return 0
