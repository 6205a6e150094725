"""Wakes the event streams: at once for writes of this process, by and by for those of others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from solarjax.plane.errors import Unavailable
from solarjax.plane.metrics import Metrics
from solarjax.plane.results import WriteResult

POLL_SECONDS = 0.5
"""How soon writes of other processes are seen."""


class Subscription:
    """One stream's bell."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def clear(self) -> None:
        """Forgets rings so far; what they announced is about to be read."""
        self._event.clear()

    def ring(self) -> None:
        """Wakes the stream; call it in the event loop."""
        self._event.set()

    async def wait(self) -> None:
        """Until it rings, or `POLL_SECONDS` have passed."""
        try:
            await asyncio.wait_for(self._event.wait(), POLL_SECONDS)
        except TimeoutError:
            pass


class Doorbell:
    """All streams of one application.

    Args:
      metrics: counts the streams.
      max_streams: more at a time are refused.
    """

    def __init__(self, metrics: Metrics, max_streams: int):
        self.closed = False
        self._metrics = metrics
        self._max = max_streams
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscriptions: set[Subscription] = set()

    @contextmanager
    def subscribe(self) -> Iterator[Subscription]:
        """A bell while the block runs.

        Raises:
          Unavailable: if there are `max_streams` already.
        """
        if len(self._subscriptions) >= self._max:
            raise Unavailable(f"there are {self._max} event streams already")
        self._loop = asyncio.get_running_loop()
        subscription = Subscription()
        self._subscriptions.add(subscription)
        self._metrics.streams.inc()
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            self._metrics.streams.dec()

    def written(self, _tenant: str, _result: WriteResult) -> None:
        """Listener for `Catalogue.listeners`; called from any thread."""
        self._ring()

    def close(self) -> None:
        """Ends all streams; may be called from a signal handler and more than once."""
        self.closed = True
        self._ring()

    def _ring(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._ring_all)

    def _ring_all(self) -> None:
        for subscription in list(self._subscriptions):
            subscription.ring()
