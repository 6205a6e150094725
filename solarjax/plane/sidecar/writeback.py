"""Writes what was learnt back into the catalogue, after the answer and never in its way.

An answer that is kept becomes a capsule derived from the versions it was given; a computed prompt becomes the locator
of a KV segment made from them. If one of them has ended meanwhile the catalogue refuses, which is right: what is stale
already must not become reusable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from prometheus_client import Counter
from starlette.concurrency import run_in_threadpool

from solarjax.plane.access import Principal
from solarjax.plane.artifacts import ArtifactDraft
from solarjax.plane.capsules import MAX_TEXT, CapsuleContent, CapsuleDraft, Provenance, VersionRef, storable
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.commit import Intent
from solarjax.plane.errors import NotFound, PlaneError

_WAITING = 1000
_LOG = logging.getLogger("solarjax.plane.sidecar")


class Writeback:
    """A queue and the task that empties it; use it as an async context manager.

    Args:
      catalogue: to write to.
      events: counter with a label for what became of each write.
      drain_seconds: how long the end waits for what is queued.
    """

    def __init__(self, catalogue: Catalogue, events: Counter, drain_seconds: float):
        self._catalogue = catalogue
        self._events = events
        self._drain = drain_seconds
        self._queue: asyncio.Queue[Callable[[], object]] = asyncio.Queue(_WAITING)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Writeback:
        self._task = asyncio.create_task(self._work(), name="writeback")
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            async with asyncio.timeout(self._drain):
                await self._queue.join()
        except TimeoutError:
            _LOG.warning("%d writebacks were not done in time", self._queue.qsize())
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def settled(self) -> None:
        """Waits until all that was queued is done."""
        await self._queue.join()

    def answer(self, caller: Principal, target: str, text: str, sources: tuple[VersionRef, ...], request: str) -> None:
        """Keeps an answer as a capsule: a new one for `auto`, else a version of the named one."""
        self._put(lambda: self._keep(caller, target, text, sources, request))

    def segment(self, caller: Principal, draft: ArtifactDraft) -> None:
        """Records a KV segment."""
        intent = Intent(caller.tenant, caller.actor, "computed by an engine")
        self._put(lambda: self._catalogue.attach(intent, draft))

    def _keep(self, caller: Principal, target: str, text: str, sources: tuple[VersionRef, ...], request: str) -> None:
        content = {
            "kind": "turn", "text": storable(text[:MAX_TEXT]), "depends_on": sources,
            "provenance": Provenance(source="answer", uri=f"request:{request}"), "stability": "volatile",
        }  # fmt: skip
        intent = Intent(caller.tenant, caller.actor, "answer kept")
        if target != "auto":
            try:
                current = self._catalogue.get(caller.tenant, target).ref
            except NotFound:
                pass
            else:
                self._catalogue.supersede(intent, current, CapsuleContent.model_validate(content))
                return
        draft = CapsuleDraft.model_validate({**content, "id": None if target == "auto" else target})
        self._catalogue.create(intent, draft)

    def _put(self, work: Callable[[], object]) -> None:
        try:
            self._queue.put_nowait(work)
        except asyncio.QueueFull:
            self._events.labels("writeback_dropped").inc()

    async def _work(self) -> None:
        while True:
            work = await self._queue.get()
            outcome = "writeback_failed"
            try:
                await run_in_threadpool(work)
                outcome = "writeback_done"
            except (PlaneError, ValueError) as error:
                outcome = "writeback_refused"
                _LOG.info("a writeback was refused: %s", error)
            except Exception:
                _LOG.exception("a writeback failed")
            finally:
                self._events.labels(outcome).inc()
                self._queue.task_done()
