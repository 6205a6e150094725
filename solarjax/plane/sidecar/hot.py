"""The hot capsules of each tenant, learnt beside the requests and never in their way.

A request that was answered leaves its question and its capsules in a queue, and that is all it does. One thread takes
them out, asks the encoder for vectors, and runs the policy (bridge.py), at most once in `PAUSE_SECONDS`; what comes
faster than it can learn is left out. A correction takes its capsules out at once, in the thread that commits it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
from prometheus_client import Counter

from solarjax.plane.audit import Audit
from solarjax.plane.bridge import HotSet, policy_case
from solarjax.plane.capsules import Capsule, VersionRef
from solarjax.plane.encoding import Encoder
from solarjax.plane.errors import Invalid, PlaneError
from solarjax.plane.settings import HotConfig

PAUSE_SECONDS = 1.0
_WAITING = 256
_VECTORS = 4096
_LOOK_SECONDS = 0.2
_LAST_SECONDS = 5.0
_LOG = logging.getLogger("solarjax.plane.sidecar")


class _Used(NamedTuple):
    tenant: str
    question: str
    capsules: tuple[Capsule, ...]


class HotSets:
    """Use it as a context manager; the thread runs inside its block.

    Args:
      config: the `[hot]` table.
      encoder: makes vectors of questions and capsules.
      audit: of the catalogue.
      events: counter with a label for what became of a use.
      pause: seconds between two runs of the policies.

    Raises:
      Invalid: without an encoder or jax, and for a policy that cannot be one.
    """

    def __init__(
        self,
        config: HotConfig,
        encoder: Encoder | None,
        audit: Audit,
        events: Counter,
        pause: float = PAUSE_SECONDS,
    ):
        if encoder is None:
            raise Invalid("a hot set compares questions by meaning: [hot] needs an encoder", "hot")
        policy_case(config.policy)
        self.config = config
        self._encoder = encoder
        self._audit = audit
        self._events = events
        self._pause = pause
        self._sets: dict[str, HotSet] = {}
        self._vectors: OrderedDict[tuple[str, VersionRef], np.ndarray] = OrderedDict()
        self._queue: queue.Queue[_Used] = queue.Queue(_WAITING)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> HotSets:
        self._thread = threading.Thread(target=self._work, name="hot sets", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """What was not learnt is lost; a policy that is running is waited for, but not for ever."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)

    def used(self, tenant: str, question: str, capsules: tuple[Capsule, ...]) -> None:
        """A question was answered with these; returns at once."""
        if not capsules or not question.strip():
            return
        try:
            self._queue.put_nowait(_Used(tenant, question, capsules))
        except queue.Full:
            self._events.labels("hot_left_out").inc()

    def ended(self, tenant: str, refs: Collection[VersionRef]) -> None:
        """These have ended; called from the thread that wrote."""
        found = self._sets.get(tenant)
        if found is not None:
            found.forget(refs)
        for ref in refs:
            self._vectors.pop((tenant, ref), None)

    def residents(self, tenant: str) -> Collection[VersionRef]:
        """The tenant's hot capsules as of the latest run, less what has ended since."""
        found = self._sets.get(tenant)
        return () if found is None else found.latest

    def settled(self) -> None:
        """Waits until all that was used is learnt."""
        self._queue.join()

    def _work(self) -> None:
        while not self._stopped.is_set():
            uses = self._taken()
            for use in uses:
                self._guarded(self._learn, use)
            for tenant in {use.tenant for use in uses} & self._sets.keys():
                self._guarded(self._sets[tenant].residents)
            for _ in uses:
                self._queue.task_done()
            if uses:
                self._stopped.wait(self._pause)

    def _taken(self) -> list[_Used]:
        """All that waits; nothing if nothing comes for a while."""
        uses: list[_Used] = []
        try:
            uses.append(self._queue.get(timeout=_LOOK_SECONDS))
            while True:
                uses.append(self._queue.get_nowait())
        except queue.Empty:
            return uses

    def _guarded(self, work: Callable[..., object], *args: object) -> None:
        """One use that cannot be learnt must not be the last."""
        outcome = "hot_failed"
        try:
            work(*args)
            outcome = "hot_learnt"
        except PlaneError as error:
            _LOG.info("a use was not learnt: %s", error)
        except Exception:
            _LOG.exception("a hot set could not be kept")
        finally:
            self._events.labels(outcome).inc()

    def _learn(self, use: _Used) -> None:
        found = self._sets.get(use.tenant)
        if found is None:
            made = HotSet(
                use.tenant, self._audit, self.config.capacity, self.config.policy, history=self.config.history
            )
            # Under its name before anything is in it: from here on `ended` finds it.
            found = self._sets[use.tenant] = made
        new = [c for c in use.capsules if (use.tenant, c.ref) not in self._vectors]
        question, *made_now = self._encoder.embed([use.question, *(capsule.text for capsule in new)])
        vectors = {capsule.ref: row.values for capsule, row in zip(new, made_now, strict=True)}
        for capsule in use.capsules:
            key = (use.tenant, capsule.ref)
            vector = vectors.get(capsule.ref)
            if vector is None:
                vector = self._vectors.get(key)
            if vector is None:
                continue  # it has ended since we looked
            self._vectors.pop(key, None)  # so that it comes last
            self._vectors[key] = vector
            if not found.used(capsule.ref, question.values, vector):
                self._vectors.pop(key, None)
        while len(self._vectors) > _VECTORS:
            self._vectors.popitem(last=False)
