"""What became of each request: for the log, the page, the metrics, and whoever checks the fence afterwards."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from solarjax.plane.placement.rates import Forecasts

_KEPT = 1000
_MS = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 120_000)


@dataclass
class Record:
    """One request.

    Attributes:
      at: wall-clock microseconds at which its last admission was made; epoch: that it was admitted at.
      capsules: versions used, `id@version`, in the order of the prompt.
      fenced_at: microseconds of the fence before the first content byte; None if there was none to pass on.
      overlapped: versions used that ended while the answer was being passed on. The stream is not torn off, and this
        is not hidden.
      readmitted: how often a fence failed and the request was admitted anew.
      attempts: nodes tried, the one that answered last.
      predicted, cached, prompt_tokens: prompt tokens that were to be cached, were, and of the prompt.
      ttft_ms: from arrival to the first content byte passed on. plane_ms: of that, spent before the engine was asked.
      outcome: ok, refused (4xx), failed, broken (after the first byte), or cancelled (by the client).
    """

    id: str
    tenant: str
    model: str
    stream: bool
    at: int = 0
    epoch: int | None = None
    capsules: tuple[str, ...] = ()
    mode: str | None = None
    node: str | None = None
    attempts: tuple[str, ...] = ()
    readmitted: int = 0
    fenced_at: int | None = None
    overlapped: tuple[str, ...] = ()
    predicted: int | None = None
    cached: int | None = None
    prompt_tokens: int | None = None
    ttft_ms: float | None = None
    plane_ms: float | None = None
    total_ms: float = 0.0
    status: int = 0
    outcome: str = "failed"


@dataclass
class Meters:
    """Prometheus metrics of the sidecar."""

    registry: CollectorRegistry
    requests: Counter = field(init=False)
    ttft: Histogram = field(init=False)
    tokens: Counter = field(init=False)
    events: Counter = field(init=False)

    def __post_init__(self) -> None:
        into = self.registry
        self.requests = Counter("sidecar_requests", "Requests", ["node", "mode", "outcome"], registry=into)
        self.ttft = Histogram(
            "sidecar_ttft_ms", "Time to the first content byte", ["node"], buckets=_MS, registry=into
        )  # fmt: skip
        self.tokens = Counter("sidecar_prompt_tokens", "All, predicted cached, cached", ["kind"], registry=into)
        self.events = Counter("sidecar_events", "Failovers, overlaps, writebacks ...", ["kind"], registry=into)


class Reuse:
    """How good the forecasts behind P_reuse are, as metrics: Brier score, that of the base rate alone, and how many."""

    def __init__(self, registry: CollectorRegistry, forecasts: Forecasts):
        def read(name: str) -> float:
            forecasts.expire(time.monotonic())
            value = getattr(forecasts.brier, name)
            return math.nan if value is None else float(value)

        for name, field_, text in (
            ("score", "score", "Mean squared error of P(used again)"), ("base", "base", "The same of the base rate"),
            ("forecasts", "count", "Forecasts that have come due"),
        ):  # fmt: skip
            gauge = Gauge(f"sidecar_reuse_brier_{name}", text, registry=registry)
            gauge.set_function(partial(read, field_))


class Records:
    """Keeps the latest requests, counts all, and appends them to a file if there is one.

    Args:
      registry: for the metrics.
      log: file for one JSON line a request; None for none.
    """

    def __init__(self, registry: CollectorRegistry, log: Path | None = None):
        self.meters = Meters(registry)
        self._latest: deque[Record] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()
        self._file: TextIO | None = log.open("a", encoding="utf-8") if log is not None else None

    def add(self, record: Record) -> None:
        """A request that has ended."""
        meters = self.meters
        meters.requests.labels(record.node or "none", record.mode or "none", record.outcome).inc()
        if record.ttft_ms is not None:
            meters.ttft.labels(record.node).observe(record.ttft_ms)
        tokens = {"prompt": record.prompt_tokens, "predicted": record.predicted, "cached": record.cached}
        for kind, count in tokens.items():
            if count:
                meters.tokens.labels(kind).inc(count)
        happened: dict[str, int] = {
            "failover": len(record.attempts) - 1 - record.readmitted, "readmission": record.readmitted,
            "overlap": bool(record.overlapped),
            "prediction_wrong": None not in (record.predicted, record.cached) and record.predicted != record.cached,
        }  # fmt: skip
        for kind, count in happened.items():
            if count > 0:
                meters.events.labels(kind).inc(count)
        with self._lock:
            self._latest.append(record)
            if self._file is not None:
                self._file.write(json.dumps(asdict(record), separators=(",", ":")) + "\n")
                self._file.flush()

    def latest(self, tenant: str, limit: int) -> list[Record]:
        """A tenant's latest requests, newest first."""
        with self._lock:
            return [r for r in reversed(self._latest) if r.tenant == tenant][:limit]

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
