"""The event stream over a real socket: going on after a break, writes of other processes, and too many subscribers."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager

import httpx2
import pytest

from solarjax.plane.api.app import create_app
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.commit import Intent
from solarjax.plane.services import build
from solarjax.plane.settings import Settings
from tests.plane.helpers import draft
from tests.plane.http import API, bearer
from tests.plane.standin import Served

STREAMS = 2


class Plane:
    def __init__(self, url, services, server):
        self.url, self.services = url, services
        services.catalogue.add_tenant("one")
        self.token = services.access.issue("one", "reader")
        self.http = httpx2.Client(base_url=server.url, timeout=30.0, trust_env=False)

    def write(self, catalogue, *names):
        for name in names:
            catalogue.create(Intent("one", "writer"), draft(name, "text"))

    @contextmanager
    def events(self, query="", **headers):
        """Events of a stream, as they come; the subscription ends with the block."""
        with self.http.stream("GET", f"{API}/stream{query}", headers=bearer(self.token, **headers)) as answer:
            assert answer.status_code == 200, answer.read()
            yield self._read(answer)

    def _read(self, answer):
        fields = {}
        for line in answer.iter_lines():
            name, _, value = line.partition(":")
            if name:
                fields[name] = value.strip()
            elif fields.get("data"):
                event = json.loads(fields["data"])
                assert fields["id"] == str(event["epoch"]), "what a browser sends when it reconnects"
                yield event
                fields = {}


@pytest.fixture
def plane(new_url):
    url = new_url()
    services = build(Settings(database=url, max_streams=STREAMS))
    server = Served(create_app(services))
    made = Plane(url, services, server)
    yield made
    made.http.close()
    server.close()


def test_a_reconnecting_subscriber_goes_on_after_what_it_saw(plane):
    """The browser repeats the first address and names the last id in a header, which therefore counts."""
    plane.write(plane.services.catalogue, "a", "b", "c")
    with plane.events("?after=0") as events:
        seen = [next(events)["epoch"], next(events)["epoch"]]
    plane.write(plane.services.catalogue, "d")
    with plane.events("?after=0", **{"Last-Event-ID": str(seen[-1])}) as events:
        seen += [next(events)["epoch"], next(events)["epoch"]]
    assert seen == [1, 2, 3, 4], "nothing skipped, nothing twice"


def test_writes_of_another_catalogue_on_the_same_database_are_seen(plane):
    """No bell rings for them in this one."""
    other, seen, begun = Catalogue(plane.url), [], threading.Event()

    def read():
        with plane.events("?after=0") as events:
            for event in events:
                seen.append((event["epoch"], event["capsule"]))
                begun.set()
                if len(seen) == 4:
                    return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        plane.write(plane.services.catalogue, "mine")
        assert begun.wait(timeout=30)
        plane.write(other, "x", "y", "z")
        reader.join(timeout=30)
    finally:
        other.close()
    assert seen == [(1, "mine"), (2, "x"), (3, "y"), (4, "z")]


def test_subscribers_beyond_the_limit_are_refused_and_a_place_becomes_free(plane):
    plane.write(plane.services.catalogue, "a")
    with plane.events("?after=0") as first:
        next(first)
        with plane.events("?after=0") as second:
            next(second)
            refused = plane.http.get(f"{API}/stream?after=0", headers=bearer(plane.token))
            assert refused.status_code == 503 and "2 event streams" in refused.json()["error"]["message"]
    for _ in range(600):
        if plane.services.metrics.streams._value.get() == 0:
            break
        threading.Event().wait(0.05)
    with plane.events("?after=0") as events:
        assert next(events)["epoch"] == 1
