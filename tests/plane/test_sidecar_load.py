"""What keeps the sidecar cheap and upright under load: connections, bursts, its own lateness, spans, sessions."""

import asyncio
import math
import socket
import time

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from scripts.plane.site import Connection, question
from solarjax.plane.placement.upstream import Upstream, UpstreamError
from solarjax.plane.server import BoundedProtocol
from solarjax.plane.tracing import Spans
from tests.plane.front import front
from tests.plane.standin import Served

USED = {"X-PlaceMem-Capsules": "fact"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with front(tmp_path_factory.mktemp("load"), routing="session", first_byte_seconds=60.0, chunk_seconds=60.0) as made:
        made.create("fact", "The code is 17. " * 6)
        yield made


def test_connections_to_engines_are_used_again(plane):
    for engine in plane.engines:
        engine.ports.clear()
    for _ in range(6):
        assert "[DONE]" in plane.ask("x", stream=True, headers=USED).text
        plane.last()
    ports = [port for engine in plane.engines for port in engine.ports]
    # One that lay idle while the plane was slow may have been closed; a new one for every request is what must not be.
    assert len(ports) == 6 and len(set(ports)) <= 3


def test_a_burst_of_streams_loses_none(plane):
    async def ask(number):
        headers = {"Authorization": f"Bearer {plane.tokens['one']}", **USED}
        connection = Connection(plane.url, headers)
        told = await connection.ask(question(number, True))
        await connection.close()
        return told.status, told.body.count(b'"content"'), b"data: [DONE]" in told.body

    async def burst():
        return await asyncio.gather(*(ask(number) for number in range(100)))

    assert set(asyncio.run(burst())) == {(200, 5, True)}  # the role, three pieces, the end
    plane.wait(lambda: all(node.in_flight == 0 for node in plane.serving.nodes))


def test_spans_tell_the_phases_and_the_engine_joins_the_trace(plane):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    plane.serving.spans = Spans(provider)
    try:
        plane.ask("x", stream=True, headers=USED)
        record = plane.last()
    finally:
        plane.serving.spans = Spans()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert list(spans) == ["sidecar.admit", "sidecar.lay_out", "sidecar.first_byte", "sidecar.pass_on"]
    asked = spans["sidecar.first_byte"]
    engine = next(e for e in plane.engines if e.name == record.node)
    expected = f"00-{asked.context.trace_id:032x}-{asked.context.span_id:016x}-"
    assert engine.headers[-1]["traceparent"].startswith(expected)
    assert asked.attributes["placemem.node"] == record.node
    assert spans["sidecar.admit"].attributes["placemem.capsules"] == ("fact@1",)
    assert spans["sidecar.pass_on"].attributes["placemem.outcome"] == "ok"
    plane.ask("x", headers=USED)
    assert len(exporter.get_finished_spans()) == 4 and "traceparent" not in engine.headers[-1]


def test_a_session_is_the_header_or_the_users_name(plane):
    def node(**options):
        return plane.ask("x", headers=options.pop("headers", None), **options).headers["x-placemem-node"]

    by_user = {user: node(user=user) for user in (f"user{i}" for i in range(12))}
    assert set(by_user.values()) == {"a", "b"}, "sessions are spread"
    for user, chosen in list(by_user.items())[:4]:
        assert node(user=user) == chosen
        assert node(user="somebody else", headers={"X-PlaceMem-Session": user}) == chosen, "the header decides"


def test_forecasts_of_reuse_are_scored(plane):
    plane.ask("x", headers=USED)
    plane.last()
    before = plane.serving.forecasts.brier.count
    plane.ask("y", headers=USED)
    plane.last()
    assert plane.serving.forecasts.brier.count == before + 1
    text = plane.http.get("/metrics").text
    assert f"sidecar_reuse_brier_forecasts {before + 1:.1f}" in text and "sidecar_reuse_brier_score" in text


async def _engine(answers):
    """A server that gives each connection so many answers and then closes it when it is asked once more."""
    asked = []

    async def serve(reader, writer):
        for _ in range(answers):
            await reader.readuntil(b"\r\n\r\n")
            asked.append(1)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
        await reader.readuntil(b"\r\n\r\n")
        asked.append(1)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", asked


@pytest.mark.parametrize(("answers", "works"), [(1, True), (0, False)])
def test_a_kept_connection_that_was_closed_is_tried_once_more(answers, works):
    async def body():
        server, url, asked = await _engine(answers)
        async with server, Upstream(4, 1.0, 1.0) as http:
            got = 0
            for _ in range(2):
                try:
                    response = await http.post(url)
                    assert await response.read() == b"ok"
                    got += 1
                except UpstreamError:
                    pass
            return got, len(asked)

    # With one answer a connection, the second request meets a closed one and gets a new one; an engine that never
    # answers is asked twice for each request and no more.
    assert asyncio.run(body()) == ((2, 3) if works else (0, 4))


def test_its_own_lateness_is_noticed():
    async def body():
        async with asyncio.timeout(30), Upstream(4, 1.0, 1.0) as http:
            while http._beat_at == math.inf:  # it has not begun to watch
                await asyncio.sleep(0.01)
            time.sleep(0.6)
            assert http.behind(0.0), "the heartbeat has not had its turn yet"
            while http.behind(0.0):
                await asyncio.sleep(0.01)
            assert http.behind(60.0)

    asyncio.run(body())


def test_a_header_without_end_is_cut_off():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    served = Served(app, http=BoundedProtocol, h11_max_incomplete_event_size=8_000, lifespan="off", log_config=None)
    try:
        for size, status in ((6_000, b"204"), (200_000, b"400")):
            with socket.create_connection(("127.0.0.1", served.port), timeout=20) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
                try:
                    for _ in range(size // 1_000):
                        client.sendall(b"a" * 1_000)
                    client.sendall(b"\r\n\r\n")
                except ConnectionError:
                    pass  # it was closed while we wrote
                try:
                    answer = client.recv(1_000)
                except ConnectionError:
                    answer = b"HTTP/1.1 400 "
                assert answer.split(b" ")[1] == status
    finally:
        served.close()
