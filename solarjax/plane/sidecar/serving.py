"""Everything the sidecar works with, built from settings, and its background tasks."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

from solarjax.plane.capsules import Capsule
from solarjax.plane.errors import Invalid
from solarjax.plane.hotpath import HotPath
from solarjax.plane.placement.experience import Experience
from solarjax.plane.placement.monitor import Monitor
from solarjax.plane.placement.nodes import Node, unique
from solarjax.plane.placement.planner import Planner
from solarjax.plane.placement.prompts import PromptModel
from solarjax.plane.placement.rates import Forecasts
from solarjax.plane.placement.segments import Segments
from solarjax.plane.placement.upstream import Upstream
from solarjax.plane.results import WriteResult
from solarjax.plane.services import Services
from solarjax.plane.sidecar.attempt import Timeouts
from solarjax.plane.sidecar.hot import HotSets
from solarjax.plane.sidecar.records import Records, Reuse
from solarjax.plane.sidecar.writeback import Writeback
from solarjax.plane.tracing import Spans

_PREPARED_AT_ONCE = 16


class Serving:
    """The sidecar's parts. Build one for each application; `running` starts and ends what runs beside requests.

    Args:
      services: of the plane.

    Raises:
      Invalid: for two nodes of one name, a tokenizer that cannot be read, a salt file that is not safe, or hot sets
        that cannot be kept (see `HotSets`).
    """

    def __init__(self, services: Services):
        settings = services.settings
        unique(settings.nodes)
        self.settings = settings
        self.services = services
        self.clock = services.catalogue.clock
        self.salt_secret = salt_secret(Path(settings.salt_secret_file))
        self.timeouts = Timeouts(
            settings.connect_seconds, settings.first_byte_seconds, settings.chunk_seconds, settings.answer_seconds
        )
        models = {folder: PromptModel(Path(folder)) for folder in {n.tokenizer for n in settings.nodes if n.tokenizer}}
        self.nodes = tuple(
            Node(config, time.monotonic, models[config.tokenizer].fingerprint if config.tokenizer else "")
            for config in settings.nodes
        )
        self._by_name = {node.name: node for node in self.nodes}
        self.experience = Experience()
        self.segments = Segments()
        self.hot = HotPath(services.catalogue.database, self.clock, services.gate, services.retriever)
        log = Path(settings.request_log) if settings.request_log else None
        self.records = Records(services.metrics.registry, log)
        self.hot_sets: HotSets | None = None
        if settings.hot is not None:
            self.hot_sets = HotSets(settings.hot, services.encoder, services.audit, self.records.meters.events)
        self.planner = Planner(
            self.nodes, models, self.experience, self.clock, weights=settings.weights, rule=settings.routing,
            residents=None if self.hot_sets is None else self.hot_sets.residents,
        )  # fmt: skip
        self.writeback = Writeback(services.catalogue, self.records.meters.events, settings.shutdown_seconds)
        self.in_flight = 0
        # The rest of a burst waits in a queue: shared out among a thousand at once, a second of work would delay each
        # of them by that second, and their connections to nodes too.
        self.preparing = asyncio.Semaphore(_PREPARED_AT_ONCE)
        self.http = Upstream(settings.max_in_flight + 16, settings.connect_seconds, settings.first_byte_seconds)
        self.spans = Spans()
        self.forecasts = Forecasts()
        Reuse(services.metrics.registry, self.forecasts)
        self.monitor = Monitor(self.nodes, self.http)

    def node(self, name: str) -> Node:
        """The node of a name that the planner gave."""
        return self._by_name[name]

    def forecast_reuse(self, tenant: str, capsules: Sequence[Capsule], node: Node) -> None:
        """Scores the last forecasts that these capsules are used again on a node, and makes new ones."""
        now, seconds = time.monotonic(), node.residency_seconds()
        for capsule in capsules:
            key = (tenant, capsule.id, capsule.version, node.name)
            self.forecasts.used(key, now)
            self.forecasts.make(key, self.experience.p_reuse(tenant, (capsule,), seconds), now + seconds)

    def _written(self, tenant: str, result: WriteResult) -> None:
        """Listener for `Catalogue.listeners`; called from the thread that wrote."""
        if result.ended:
            ended = self.services.audit.all_ended(tenant, result)
            self.experience.ended(tenant, ended)
            self.segments.ended(tenant, ended)
            if self.hot_sets is not None:
                self.hot_sets.ended(tenant, ended)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Events, metrics and writebacks while the block runs."""
        listeners = self.services.catalogue.listeners
        listeners.append(self._written)
        try:
            with self.hot_sets or nullcontext():
                async with self.writeback, self.http, self.monitor:
                    yield
        finally:
            listeners.remove(self._written)
            self.records.close()


def salt_secret(path: Path) -> bytes:
    """The deployment's secret behind cache salts; made on first use, readable by its owner only.

    Raises:
      Invalid: if the file cannot be used, or others may read it.
    """
    try:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if path.stat().st_mode & 0o077:
                raise Invalid(f"{path} may be read by others; chmod 600 it", "salt_secret_file") from None
            # Another process may be about to write what it has just created.
            for _ in range(100):
                if found := path.read_bytes():
                    return bytes.fromhex(found.decode("ascii").strip())
                time.sleep(0.01)
            raise Invalid(f"{path} is empty", "salt_secret_file") from None
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            secret = secrets.token_hex(32)
            file.write(secret + "\n")
        return bytes.fromhex(secret)
    except (OSError, ValueError) as error:
        if isinstance(error, Invalid):
            raise
        raise Invalid(f"{path}: {error}", "salt_secret_file") from None
