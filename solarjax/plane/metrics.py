"""Prometheus metrics, by decorating what is measured: the database, the catalogue's results, and the HTTP application.

No label holds a tenant or a capsule: the page is open to whoever can reach the port.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from sqlalchemy import Connection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from solarjax.plane.database import Database, Synchronous
from solarjax.plane.results import WriteResult

T = TypeVar("T")
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_COUNTS = (0, 1, 2, 5, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


class Metrics:
    """All metrics of one plane, in a registry of its own: two planes in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "plane_http_requests", "Requests answered", ["method", "route", "status"], registry=self.registry
        )
        self.request_seconds = Histogram(
            "plane_http_request_seconds", "Time to the end of the answer", ["method", "route"], buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.in_flight = Gauge("plane_http_in_flight", "Requests being answered", registry=self.registry)
        self.transaction_seconds = Histogram(
            "plane_transaction_seconds", "Time of a transaction, waiting included", ["kind", "outcome"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self.writes = Counter("plane_writes", "Committed writes", ["operation"], registry=self.registry)
        self.ended = Histogram(
            "plane_versions_ended", "Versions that one write ended", ["operation"], buckets=_COUNTS,
            registry=self.registry,
        )  # fmt: skip
        self.artifacts_ended = Counter(
            "plane_artifacts_ended", "Reusable artifacts that lost a source", ["kind"], registry=self.registry
        )
        self.fences = Counter("plane_fences", "Fences answered", ["passed"], registry=self.registry)
        self.streams = Gauge("plane_event_streams", "Subscribers of the event stream", registry=self.registry)

    def written(self, _tenant: str, result: WriteResult) -> None:
        """Listener for `Catalogue.listeners`."""
        self.writes.labels(result.operation).inc()
        if result.ended:
            self.ended.labels(result.operation).observe(result.ended)
        for kind, count in result.artifacts_ended.items():
            self.artifacts_ended.labels(kind).inc(count)


class MeasuredDatabase(Database):
    """A database whose transactions are timed."""

    def __init__(self, url: str, metrics: Metrics, *, busy_seconds: float = 30.0, synchronous: Synchronous = "full"):
        super().__init__(url, busy_seconds=busy_seconds, synchronous=synchronous)
        self._seconds = metrics.transaction_seconds

    def read(self, work: Callable[[Connection], T]) -> T:
        """See `Database.read`."""
        return self._timed("read", super().read, work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """See `Database.write`."""
        return self._timed("write", super().write, work)

    def _timed(self, kind: str, run: Callable[[Callable[[Connection], T]], T], work: Callable[[Connection], T]) -> T:
        begin, outcome = time.monotonic(), "failed"
        try:
            result = run(work)
            outcome = "committed"
            return result
        finally:
            self._seconds.labels(kind, outcome).observe(time.monotonic() - begin)


class MeasuredApp:
    """ASGI middleware: counts and times requests by route template. Streams are in flight until they end."""

    def __init__(self, app: ASGIApp, metrics: Metrics):
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on; counts in `finally`, so that a request that the client gave up is counted too."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = "aborted"

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        begin = time.monotonic()
        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, counted)
        finally:
            self._metrics.in_flight.dec()
            # The template, not the path: one series a route. What matched none is one series together.
            route = getattr(scope.get("route"), "path", "unmatched")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.requests.labels(method, route, status).inc()
            self._metrics.request_seconds.labels(method, route).observe(time.monotonic() - begin)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
