"""Requests that no client library would send, byte for byte over a socket: none gets a header or a second request past
the sidecar. An engine is told what the sidecar says, and nothing else of what the client wrote."""

import json
import re
import socket

import pytest

from tests.plane.front import MODEL, front

BODY = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x"}]}).encode()
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
EVIL = b"X-Evil: 1\r\nCookie: evil=1\r\nAuthorization: Bearer evil\r\n"
TOLD = {"host", "content-type", "content-length", "x-request-id", "accept-encoding", "accept"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with front(tmp_path_factory.mktemp("injection"), engines=1) as made:
        yield made


def sent(plane, rest, method=b"POST", version=b"1.1"):
    """Sends a head that is in order, and these bytes after it; returns the status of each answer, until the end."""
    plane.fresh()
    line = method + b" /v1/chat/completions HTTP/" + version + b"\r\nHost: x\r\nConnection: close\r\n"
    head = line + b"Authorization: Bearer %s\r\n" % plane.tokens["one"].encode()
    answer = b""
    with socket.create_connection(("127.0.0.1", plane.server.port), timeout=30) as client:
        try:
            client.sendall(head + rest)
            while part := client.recv(65_536):
                answer += part
        except ConnectionError:
            pass  # it was closed while we wrote, or with bytes of ours unread
    plane.caught_up()
    assert b"evil" not in answer.lower()
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


def told(plane):
    """What the engine was told, of each request that reached it."""
    (engine,) = plane.engines
    for headers in engine.headers:
        assert set(headers) <= TOLD, headers
        assert re.fullmatch(r"[A-Za-z0-9._\-]{1,128}", headers["x-request-id"]) and "evil" not in str(headers).lower()
    assert [body["messages"] for body in engine.seen] == [json.loads(BODY)["messages"]] * len(engine.seen)
    return len(engine.seen)


@pytest.mark.parametrize("field", [b"X-Request-Id", b"X-PlaceMem-Session", b"Accept"])
@pytest.mark.parametrize("cut", [b"\r", b"\n", b"\0", b"\r\n ", b"\r\n\t", b"\x0b", b"\x0c", b"\x01", b"\x7f\r"])
def test_a_value_that_would_break_out_of_its_line_is_refused(plane, field, cut):
    assert sent(plane, LENGTH + field + b": a" + cut + EVIL + b"\r\n" + BODY) in ([400], []) and told(plane) == 0


@pytest.mark.parametrize("cut", [b"%0d%0a", b"\\r\\n", "\u560d\u560a".encode(), b"\xe9", b" "])
def test_what_only_looks_like_a_break_goes_no_further(plane, cut):
    """An id that is not of its form is replaced, so nothing is left that someone behind us could decode once more."""
    assert sent(plane, LENGTH + b"X-Request-Id: a" + cut + b"X-Evil: 1\r\n\r\n" + BODY) == [200] and told(plane) == 1


@pytest.mark.parametrize("rest", [LENGTH, CHUNKED])
def test_what_is_in_order_is_answered_and_headers_of_the_clients_stay_here(plane, rest):
    """The counterpart: the same way of sending works."""
    body = BODY if rest == LENGTH else CHUNKS
    assert sent(plane, rest + b"X-Evil: 1\r\nCookie: evil=1\r\nTE: trailers\r\n\r\n" + body) == [200]
    assert told(plane) == 1


@pytest.mark.parametrize(
    "lines",
    [
        LENGTH + LENGTH, LENGTH + b"Content-Length: 5\r\n", b"Content-Length: 5\r\n" + LENGTH,
        b"Content-Length: -1\r\n",
        b"Content-Length: +5\r\n", b"Content-Length: 0x10\r\n", b"Content-Length: 5, 5\r\n", b"Content-Length: 5 5\r\n",
        b"Content-Length: 99999999999999999999999\r\n", b"Content-Length:\r\n",
    ],
)  # fmt: skip
def test_a_length_that_can_be_read_in_two_ways_is_refused(plane, lines):
    assert sent(plane, lines + b"\r\n" + BODY) == [400] and told(plane) == 0


SECOND = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + EVIL + LENGTH + b"\r\n" + BODY


@pytest.mark.parametrize(
    "lines",
    [
        CHUNKED + LENGTH, LENGTH + CHUNKED, LENGTH + b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: chunked, identity\r\n",
        CHUNKED + b"Transfer-Encoding: identity\r\n", b"Transfer-Encoding:\x0bchunked\r\n",
        b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding\r\n : chunked\r\n" + LENGTH,
        b"Transfer-Encoding:\r\n chunked\r\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", [CHUNKS, BODY, b"0\r\n\r\n"])
def test_no_second_request_is_smuggled_in_the_body(plane, lines, body):
    assert sent(plane, lines + b"\r\n" + body + SECOND) == [400] and told(plane) == 0


@pytest.mark.parametrize("chunks", [b"zz\r\n", b"-1\r\n", b"f" * 17 + b"\r\n", b"5;a\n=b\r\n", b"5\n", b"5 5\r\n"])
def test_chunks_that_are_none_are_refused(plane, chunks):
    assert sent(plane, CHUNKED + b"\r\n" + chunks + BODY + b"\r\n0\r\n\r\n" + SECOND) == [400] and told(plane) == 0


@pytest.mark.parametrize("trailer", [EVIL, b"X-PlaceMem-Mode: layer\r\n", b"X-Request-Id: evil\r\n"])
def test_a_trailer_is_no_header(plane, trailer):
    """Whoever stands before this server has not judged it."""
    assert sent(plane, CHUNKED + b"Trailer: X-Evil\r\n\r\n" + CHUNKS[:-2] + trailer + b"\r\n") == [200]
    assert told(plane) == 1


@pytest.mark.parametrize("begin", [CHUNKS[:-2] + b"X-Evil: ", b"5;a="])
def test_trailers_and_chunk_extensions_without_end_are_cut_off(plane, begin):
    """They belong neither to the headers nor to the body, whose limits would not see them."""
    with socket.create_connection(("127.0.0.1", plane.server.port), timeout=30) as client:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {plane.tokens['one']}\r\n"
        client.sendall(head.encode() + CHUNKED + b"\r\n" + begin)
        with pytest.raises(ConnectionError):
            for _ in range(3_000):  # more than the sockets' buffers take
                client.sendall(b"a" * 10_000)


def test_a_request_behind_another_is_judged_by_itself(plane):
    """Both are whole: the second has no valid token of its own, and does not get that of the first."""
    kept = LENGTH + b"Connection: keep-alive\r\n\r\n" + BODY
    assert set(sent(plane, kept + SECOND)) <= {200, 401} and told(plane) == 1


@pytest.mark.parametrize(
    "lines",
    [b"X-Long: " + b"a" * 17_000 + b"\r\n", b"X-Long: " + b"a" * 60_000 + b"\r\n", b"X-" + b"a" * 30_000 + b": x\r\n",
     b"X-Many: a\r\n" * 5_000],
)  # fmt: skip
def test_lines_that_are_too_long_are_refused(plane, lines):
    assert sent(plane, LENGTH + lines + b"\r\n" + BODY) in ([431], [400]) and told(plane) == 0


@pytest.mark.parametrize("line", [b"X-Evil : 1", b"X-Evil", b": evil", b"X-Ev\0il: 1", b"X Evil: 1", b"X-Evil\x0b: 1"])
def test_a_line_that_is_no_header_is_refused(plane, line):
    assert sent(plane, LENGTH + line + b"\r\n\r\n" + BODY) == [400] and told(plane) == 0


def test_no_other_protocol_is_begun(plane):
    for upgrade in (b"h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__", b"websocket\r\nSec-WebSocket-Version: 13"):
        statuses = sent(plane, b"Upgrade: " + upgrade + b"\r\nConnection: Upgrade\r\n" + LENGTH + b"\r\n" + BODY)
        assert statuses and not {101} & set(statuses) and max(statuses) < 500
    assert told(plane) <= 1
