"""Clients of the stress run: each admits, works a little, fences, and logs what it was given for the checker.

Two ways lead to an admission. `gate` asks the gate from a thread of its own, as the REST API does. `hot` is the way of
the sidecar: all clients of a process are coroutines of one event loop and share one `HotPath` with what it keeps, every
request brings its token, and one that the fence refuses is authenticated and admitted anew.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scripts.plane.controls import TtlCache, TwoReads
from solarjax.plane.access import Access
from solarjax.plane.admission import Admission, Gate
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.errors import NotFound
from solarjax.plane.hotpath import HotPath
from solarjax.plane.retriever import Retriever

TENANT, FACTS = "stress", 4
MODES = ("snapshot", "ttl", "two_reads")
PATHS = ("gate", "hot")
Log = list[dict[str, Any]]


def clients(url: str, mode: str, path: str, threads: int, stop: Any, seed: int, think: float, pause: float) -> Log:
    """`threads` clients of one process, until `stop()`, or until a time of the monotonic clock if it is a number."""
    stopped = stop if callable(stop) else lambda: time.monotonic_ns() > stop
    catalogue = Catalogue(url)
    try:
        if path == "hot":
            return asyncio.run(_hot_clients(catalogue, threads, stopped, seed, think, pause))
        with ThreadPoolExecutor(threads) as pool:
            parts = pool.map(lambda i: client(catalogue, mode, stopped, seed * 1000 + i, think, pause), range(threads))
            return [entry for part in parts for entry in part]
    finally:
        _TTL.pop(id(catalogue), None)
        catalogue.close()


def client(catalogue: Catalogue, mode: str, stopped: Callable[[], bool], seed: int, think: float, pause: float) -> Log:
    """One that asks the gate, or a control, until told to stop."""
    rng, log = random.Random(seed), []
    gate = Gate(catalogue.database, catalogue.clock)
    source: Any = {"snapshot": gate, "ttl": None, "two_reads": TwoReads(catalogue)}[mode] or _ttl(catalogue)
    while not stopped():
        time.sleep(rng.random() * pause)
        wanted = _wanted(rng)
        started = time.monotonic_ns()
        try:
            admission = source.admit(TENANT, wanted)
        except NotFound:
            continue  # between a correction and the new summary there is none
        entry = _entry(admission, started)
        time.sleep(rng.random() * think)  # the prompt is built, a node chosen
        if mode == "snapshot":
            entry["fence_started"] = time.monotonic_ns()
            entry["passed"] = gate.fence(TENANT, admission).passed
        log.append(entry)
    return log


async def _hot_clients(
    catalogue: Catalogue, count: int, stopped: Callable[[], bool], seed: int, think: float, pause: float
) -> Log:
    database, clock = catalogue.database, catalogue.clock
    hot = HotPath(database, clock, Gate(database, clock), Retriever(database, clock))
    token = Access(database, clock).issue(TENANT, f"client {seed}")
    latest: dict[tuple[str, ...], Admission] = {}
    every = [_hot_client(hot, token, latest, stopped, seed * 1000 + i, think, pause) for i in range(count)]
    return [entry for part in await asyncio.gather(*every) for entry in part]


async def _hot_client(
    hot: HotPath, token: str, latest: dict[tuple[str, ...], Admission], stopped: Callable[[], bool], seed: int,
    think: float, pause: float,
) -> Log:  # fmt: skip
    """latest: what was last admitted, by what was asked for; the same object again was kept, not read anew."""
    rng, log = random.Random(seed), []
    wanted, again = _wanted(rng), False
    while not stopped():
        if not again:
            await asyncio.sleep(rng.random() * pause)
            wanted = _wanted(rng)
        started = time.monotonic_ns()
        ticket = await hot.authenticate(token)
        try:
            admission = await hot.admit(ticket, wanted, again=again)
        except NotFound:
            again = False
            continue
        entry = {**_entry(admission, started), "kept": admission is latest.get(tuple(wanted)), "again": again}
        latest[tuple(wanted)] = admission
        await asyncio.sleep(rng.random() * think)
        entry["fence_started"] = time.monotonic_ns()
        entry["passed"] = (await hot.fence(ticket, admission)).passed
        again = not entry["passed"]
        log.append(entry)
    return log


def _wanted(rng: random.Random) -> list[str]:
    i = rng.randrange(FACTS)
    return rng.choice(([f"fact{i}"], [f"fact{i}", f"summary{i}"], [f"fact{i}", f"summary{i}", f"plan{i}"]))


def _entry(admission: Admission, started: int) -> dict[str, Any]:
    used = [[ref.id, ref.version] for ref in admission.refs]
    return {"type": "admission", "epoch": admission.epoch, "started": started, "used": used}


_TTL: dict[int, TtlCache] = {}


def _ttl(catalogue: Catalogue) -> TtlCache:
    return _TTL.setdefault(id(catalogue), TtlCache(catalogue))
