"""The whole plane with its sidecar in front of some nodes, on real sockets, and a client that measures what it answers.

One plane serves every condition of a comparison: who asks is a tenant of its own, and what differs between conditions
(the routing rule, whether admissions follow the catalogue, whether a request may meet KV blocks of another) is set
before each request. So all of them pay for the same hop, and differ in what is compared only.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from experiments.placemem.ablation import To, Unaware
from experiments.placemem.engines import Nodes
from experiments.placemem.errors import BenchError
from experiments.placemem.served import Served
from solarjax.plane.api.app import create_app
from solarjax.plane.placement.config import Rule
from solarjax.plane.placement.routing import Router
from solarjax.plane.services import build
from solarjax.plane.settings import Settings
from solarjax.plane.sidecar import routes as _routes  # noqa: F401  (imported with this module, not minutes later)
from solarjax.plane.sidecar.records import Record

ANSWER_S = 600.0
_SETTLE_S = 10.0
_POLL_S = 0.004


@dataclass(frozen=True)
class Answer:
    """What one request gave.

    ttft_ms: from sending it to the first content.  engine_ms: CPU time of all nodes until then, None if not known.
    plane_ms: of the TTFT, spent in the plane before the engine was asked.  prompt_tokens, cached: the engine's counts.
    predicted: the plane's, None if it could not know.  capsules: `id@version` used, in the order of the prompt.
    """

    text: str
    ttft_ms: float
    engine_ms: float | None
    plane_ms: float | None
    prompt_tokens: int
    cached: int
    predicted: int | None
    node: str
    capsules: tuple[str, ...]


class Frontend:
    """See the module. Use it as a context manager.

    Args:
      nodes: that run.
      folder: for the database and the salt.
    """

    def __init__(self, nodes: Nodes, folder: Path):
        self.nodes = nodes
        settings = Settings.model_validate(
            {"database": str(folder / "plane.db"), "salt_secret_file": str(folder / "plane.salt"),
             "nodes": nodes.configs(), "first_byte_seconds": ANSWER_S, "chunk_seconds": ANSWER_S,
             "shutdown_seconds": 2.0, "tries": 1}
        )  # fmt: skip
        self.services = build(settings)
        try:
            app = create_app(self.services)
            self._server = Served(app)
        except BaseException:
            self.services.close()
            raise
        self.serving = app.state.serving
        if nodes.backend == "standin":
            self._without_time()
        self._secret = self.serving.salt_secret
        catalogue = self.services.catalogue
        self._aware = self.serving.hot
        parts = (catalogue.database, catalogue.clock, self.services.gate, self.services.retriever)
        self._unaware = Unaware(*parts)
        self._routers: dict[str, Router] = {}
        self._tokens: dict[str, str] = {}
        self._http = httpx2.Client(base_url=self._server.url, timeout=ANSWER_S, trust_env=False)

    def __enter__(self) -> Frontend:
        try:
            self._wait("the nodes' metrics and events were not read", self._ready, 60.0)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._server.close()

    def tenant(self, name: str) -> None:
        """Makes a tenant, unless it is there."""
        if name not in self._tokens:
            self.services.catalogue.add_tenant(name)
            self._tokens[name] = self.services.access.issue(name, "benchmark")

    def admit_for_ever(self, tenant: str, capsule: str) -> None:
        """The version in force now is what requests without invalidation will be given."""
        ticket = self._on_loop(self._unaware.authenticate(self._tokens[tenant]))
        self._on_loop(self._unaware.admit(ticket, [capsule]))

    def empty_caches(self) -> None:
        """Every node begins without a cached block."""
        for node in self.serving.nodes:
            deadline = time.monotonic() + ANSWER_S
            while not self._on_loop(self.serving.monitor.reset(node)):  # it refuses while a request is running
                if time.monotonic() > deadline:
                    raise BenchError(f"node {node.name} did not empty its prefix cache within {ANSWER_S:g} s")
                time.sleep(0.2)

    def ask(
        self,
        tenant: str,
        content: str,
        *,
        rule: Rule,
        capsules: Sequence[str] = (),
        session: str = "",
        max_tokens: int = 1,
        invalidation: bool = True,
        reuse: bool = True,
        choice: Sequence[str] = (),
        node: str = "",
    ) -> Answer:
        """Asks once, and waits until the plane knows what the engine did.

        Args:
          tenant: who asks.  content: of the user message.  capsules: for the plane to put before it.
          rule, session: of the routing.
          invalidation: False admits what was admitted first.
          reuse: False gives the request a cache salt of its own, as if the engine had no prefix cache.
          choice: the model can only answer with one of these.  node: goes there, whatever the rule, and does not count
            as a use of its capsules: a second look at what was asked, which must not change where the next turn goes.

        Raises:
          BenchError: it was not answered.
        """
        serving = self.serving
        kept = self._routers.setdefault(f"{tenant} {rule}", Router(rule))
        serving.planner.router = To(node, rule) if node else kept
        if node:
            serving.experience.used = lambda tenant, capsules: None
        else:
            serving.experience.__dict__.pop("used", None)
        serving.hot = self._aware if invalidation else self._unaware
        serving.salt_secret = self._secret if reuse else secrets.token_bytes(32)
        headers = {"Authorization": f"Bearer {self._tokens[tenant]}"}
        if capsules:
            headers["X-PlaceMem-Capsules"] = ",".join(capsules)
        if session:
            headers["X-PlaceMem-Session"] = session
        body = {"model": self.nodes.model, "messages": [{"role": "user", "content": content}], "stream": True,
                "max_tokens": max_tokens, "temperature": 0}  # fmt: skip
        if choice:
            body["structured_outputs"] = {"choice": list(choice)}
        try:
            ttft, cpu, text, request = self._stream(headers, body)
        except httpx2.HTTPError as problem:
            raise BenchError(f"a request was not answered: {type(problem).__name__}: {problem}") from None
        record = self._record(tenant, request)
        if record.outcome != "ok" or record.cached is None or record.prompt_tokens is None or record.node is None:
            raise BenchError(f"request {request} ended as {record.outcome} on node {record.node}")
        self._settle()
        return Answer(
            text, ttft, cpu, record.plane_ms, record.prompt_tokens, record.cached, record.predicted, record.node,
            record.capsules,
        )  # fmt: skip

    def _without_time(self) -> None:
        """What the plane learns from time must not decide where a request goes if engines only pretend to work.

        No speed is learnt, uses do not fade, and a block stays as many seconds as its node has blocks: as if each node
        computed one block a second. What is left are counts, so every run places every request alike.
        """
        self.serving.experience._clock = lambda: 0.0
        for node in self.serving.nodes:
            node.latency.observe = lambda uncached, ttft_ms: None
            node.residency_seconds = lambda node=node: float(node.free_blocks() or 0)

    def _stream(self, headers: dict[str, str], body: dict[str, Any]) -> tuple[float, float | None, str, str]:
        before = self.nodes.cpu_ms()
        begin = time.perf_counter()
        first: float | None = None
        cpu: float | None = None
        text = []
        with self._http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
            if response.status_code != 200:
                said = response.read().decode("utf-8", "replace")[:300]
                raise BenchError(f"a request was refused with {response.status_code}: {said}")
            request = response.headers["x-request-id"]
            for line in response.iter_lines():
                if not line.startswith("data: {"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    raise BenchError(f"a node failed: {str(event['error'].get('message'))[:300]}")
                said = "".join(c.get("delta", {}).get("content") or "" for c in event["choices"])
                if said and first is None:
                    first = (time.perf_counter() - begin) * 1e3
                    after = self.nodes.cpu_ms()
                    cpu = None if before is None or after is None else after - before
                text.append(said)
        if first is None:
            raise BenchError(f"request {request} was answered without any text")
        return first, cpu, "".join(text), request

    def _record(self, tenant: str, request: str) -> Record:
        found: list[Record] = []

        def look() -> bool:
            found.extend(r for r in self.serving.records.latest(tenant, 4) if r.id == request)
            return bool(found)

        self._wait(f"request {request} left no record", look, _SETTLE_S)
        return found[0]

    def _settle(self) -> None:
        """Until the events of the last step have been read: they follow the answer by some milliseconds."""
        self._wait("the nodes' events were not read", lambda: all(n.log.known for n in self.serving.nodes), _SETTLE_S)
        if self.nodes.published is not None:
            wanted = self.nodes.published
            self._wait(
                "the nodes' events were not read", lambda: [n.log.position for n in self.serving.nodes] == wanted(),
                _SETTLE_S,
            )  # fmt: skip
            return
        at, seen = self._positions(), time.monotonic()
        while time.monotonic() - seen < 5 * _POLL_S:
            time.sleep(_POLL_S)
            if (now := self._positions()) != at:
                at, seen = now, time.monotonic()

    def _positions(self) -> list[int]:
        return [node.log.position for node in self.serving.nodes]

    def _ready(self) -> bool:
        return all(node.health == "up" and node.log.known for node in self.serving.nodes)

    def _wait(self, problem: str, done: Any, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise BenchError(f"{problem} within {seconds:g} s")
            time.sleep(_POLL_S)

    def _on_loop(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._server.loop).result(timeout=60)
