"""The whole plane with its sidecar in front of scripted engines, on real sockets."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from contextlib import contextmanager

import httpx2
import openai

from solarjax.plane.api.app import create_app
from solarjax.plane.capsules import CapsuleDraft, VersionRef
from solarjax.plane.commit import Intent
from solarjax.plane.server import BoundedProtocol
from solarjax.plane.services import build
from solarjax.plane.settings import Settings
from tests.plane.helpers import SOURCE, content
from tests.plane.http import API, bearer
from tests.plane.standin import Engine, Served

MODEL = "tiny"


class Front:
    def __init__(self, services, app, engines):
        self.services, self.app, self.engines = services, app, engines
        self.serving = app.state.serving
        self._timeouts = self.serving.timeouts
        for node in self.serving.nodes:
            # Which node is chosen must not depend on how busy this machine is; test_nodes.py tests the learning.
            node.latency.observe = lambda uncached, ttft_ms: None
        self.tokens = {}
        self._numbers = itertools.count()
        for tenant in ("one", "two"):
            services.catalogue.add_tenant(tenant)
            self.tokens[tenant] = services.access.issue(tenant, f"{tenant}-actor")
        bound = services.settings.max_header_bytes + 4096
        self.server = Served(app, http=BoundedProtocol, h11_max_incomplete_event_size=bound)  # as make_server has it
        self.loop = self.server.loop
        self.url = self.server.url
        self.http = httpx2.Client(base_url=self.url, timeout=30.0, trust_env=False)
        self.settle()

    def settle(self):
        """Until every node's metrics have been read, and its events arrive."""
        self.wait(lambda: all(n.health == "up" and n.log.known for n in self.serving.nodes))
        # A subscription takes a moment to reach its publisher. What is published until then is missed, and missed
        # unnoticed until something more comes; so something more comes, until it arrives.
        self.wait(lambda: not self.engines or self._all_read() or self._more())

    def _more(self):
        for engine in self.engines:
            asyncio.run_coroutine_threadsafe(engine.publish(), engine.server.loop).result(timeout=30)
        time.sleep(0.05)

    def caught_up(self):
        """Until the plane is done with all requests and has read all that the engines published."""
        self.wait(lambda: self.idle() and self._all_read())

    def idle(self):
        """True if no request runs, neither here nor in an engine."""
        nodes = self.serving.nodes
        return not (self.serving.in_flight or any(n.in_flight for n in nodes) or any(e.running for e in self.engines))

    def _all_read(self):
        pairs = zip(self.serving.nodes, self.engines, strict=True)
        return all(node.log.known and node.log.position == engine.number for node, engine in pairs)

    def fresh(self):
        """Between two tests on one plane: nothing of the one runs into the other."""
        for engine in self.engines:
            engine.script.clear()
        self.wait(lambda: [engine.release_all() for engine in self.engines] and self.idle())
        self.caught_up()
        for engine in self.engines:
            engine.forget()
        for node in self.serving.nodes:
            node.breaker.succeeded()
        self.serving.timeouts = self._timeouts
        self.wait(lambda: all(node.health == "up" for node in self.serving.nodes))

    def limits(self, **seconds):
        """Other limits for the tries that begin from now on; see attempt.Timeouts."""
        self.serving.timeouts = self.serving.timeouts._replace(**seconds)

    def held(self):
        """The next request that an engine holds back; see standin.Held."""
        self.wait(lambda: any(engine.held for engine in self.engines))
        return next(engine.held.popleft() for engine in self.engines if engine.held)

    def asking(self, *args, **options):
        """A request asked from a thread of its own; call what is returned to have its answer."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.ask(*args, **options)))
        thread.start()

        def answer():
            thread.join(timeout=30)
            assert answers, "there is no answer"
            return answers[0]

        return answer

    def wait(self, done, seconds=30.0):
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, "it did not come about"
            time.sleep(0.005)

    def client(self, tenant="one", **options):
        return openai.OpenAI(
            api_key=self.tokens[tenant], base_url=f"{self.url}/v1", max_retries=0, timeout=30.0, **options
        )  # fmt: skip

    def create(self, name, text, tenant="one", **fields):
        draft = CapsuleDraft(id=name, text=text, provenance=SOURCE, **fields)
        return self.services.catalogue.create(Intent(tenant, "tester"), draft)

    def correct(self, ref, text, tenant="one"):
        return self.services.catalogue.correct(Intent(tenant, "tester"), VersionRef.parse(ref), content(text))

    def ask(self, question="what?", tenant="one", stream=False, headers=None, path="/v1/chat/completions", **body):
        given = {"model": MODEL, "messages": [{"role": "user", "content": question}], "stream": stream, **body}
        given = {name: value for name, value in given.items() if value is not None}
        # Named by us, because an error does not say which request it answers.
        named = {"X-Request-Id": f"test-{next(self._numbers)}", **(headers or {})}
        answer = self.http.post(path, json=given, headers=bearer(self.tokens[tenant], **named))
        self.asked = answer.headers.get("x-request-id") or named["X-Request-Id"]
        return answer

    def get(self, path, tenant="one"):
        return self.http.get(f"{API}{path}", headers=bearer(self.tokens[tenant]))

    def last(self, tenant="one"):
        """The record of the latest request; it is written when the connection is done with."""
        return self.record(self.asked, tenant)

    def record(self, name, tenant="one"):
        found = []
        self.wait(lambda: found.extend(r for r in self.serving.records.latest(tenant, 50) if r.id == name) or found)
        return found[0]

    def on_loop(self, work):
        """Runs a coroutine in the server's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=30)

    def close(self):
        self.http.close()
        self.server.close()


@contextmanager
def front(folder, engines=2, database=None, others=(), encoder=None, **options):
    """engines: how many to start in this process; others: that run elsewhere, each with name, url, model (a folder) and
    endpoints. database: URL of an empty one; default an SQLite file in the folder. encoder: instead of the
    configured one. options: settings.

    Limits of time are far away unless a test is about them, so that a slow machine does not come upon one.
    """
    started = [Engine(folder, name) for name in "abcdef"[:engines]]
    nodes = [
        {"name": e.name, "url": e.url, "model": MODEL, "tokenizer": str(e.model), "events": e.endpoints[0],
         "replay": e.endpoints[1], "topic": "kv"} for e in (*started, *others)
    ]  # fmt: skip
    settings = Settings.model_validate(
        {"database": database or str(folder / "plane.db"), "nodes": nodes,
         "salt_secret_file": str(folder / "plane.salt"),
         "shutdown_seconds": 2.0, "first_byte_seconds": 30.0, "chunk_seconds": 30.0, **options}
    )  # fmt: skip
    services = build(settings, encoder=encoder)
    plane = None
    try:
        plane = Front(services, create_app(services), started)
        yield plane
    finally:
        if plane is not None:
            plane.close()
        for engine in started:
            engine.close()
