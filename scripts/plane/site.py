"""A plane in front of stand-in engines, each in a process of its own, and a client that costs little."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from experiments.placemem.standin import write_model
from solarjax.plane.capsules import CapsuleDraft, Provenance
from solarjax.plane.commit import Intent
from solarjax.plane.services import build
from solarjax.plane.settings import load

TENANT, CAPSULES = "bench", 3
_TICK = os.sysconf("SC_CLK_TCK")


class Site(NamedTuple):
    """Addresses and a token; `pid` is the plane's process."""

    plane: str
    backend: str
    token: str
    pid: int

    def cpu_s(self) -> float:
        """CPU seconds of the plane so far, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def resident_bytes(self) -> int:
        """Resident memory of the plane."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stats(self) -> dict[str, int]:
        """What the stand-in counted."""
        return json.loads(_get(f"{self.backend}/stats"))

    def headers(self) -> dict[str, str]:
        """Of a request to the plane that uses three capsules."""
        return {
            "Authorization": f"Bearer {self.token}",
            "X-PlaceMem-Capsules": ",".join(f"fact{i}" for i in range(CAPSULES)),
        }


@contextmanager
def site(folder: Path, *, chunks: int = 4, interval: float = 0.0, first: float = 0.0) -> Iterator[Site]:
    """A plane with three capsules of some 40 words, on SQLite, before one stand-in engine."""
    command = [sys.executable, "-m", "scripts.plane.backend", "--chunks", str(chunks), "--interval", str(interval)]
    command += ["--first", str(first)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout is not None and engine.stdin is not None
        try:
            backend = engine.stdout.readline().strip()
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            config = folder / "plane.toml"
            node = {"name": "a", "url": backend, "model": "tiny", "tokenizer": str(write_model(folder / "model"))}
            lines = ['database = "plane.db"', f"port = {port}", "max_in_flight = 10000", "[[nodes]]"]
            config.write_text("\n".join(lines + [f'{name} = "{value}"' for name, value in node.items()]) + "\n")
            token = _fill(config)
            serve = [sys.executable, "-m", "solarjax.cli.main", "plane", "serve", "--config", str(config)]
            with subprocess.Popen(serve, stderr=subprocess.DEVNULL) as plane:
                try:
                    url = f"http://127.0.0.1:{port}"
                    _until_ready(url, plane)
                    yield Site(url, backend, token, plane.pid)
                finally:
                    plane.terminate()
        finally:
            engine.stdin.close()


def _fill(config: Path) -> str:
    services = build(load(config))
    try:
        services.catalogue.add_tenant(TENANT)
        for i in range(CAPSULES):
            text = " ".join(f"statement {i} says that part {j} holds." for j in range(6))
            draft = CapsuleDraft(id=f"fact{i}", text=text, provenance=Provenance(source="bench"))
            services.catalogue.create(Intent(TENANT, "bench"), draft)
        return services.access.issue(TENANT, "bench")
    finally:
        services.close()


def _until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 180  # a busy machine
    while True:
        try:
            _get(f"{url}/readyz")
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the plane did not start") from None
            time.sleep(0.05)


def _get(url: str) -> bytes:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
        return answer.read()


class Told(NamedTuple):
    """An answer: status, seconds to the first content, seconds in all, and the bytes of the body as they came."""

    status: int
    ttft_s: float
    total_s: float
    body: bytes


class Connection:
    """One HTTP/1.1 connection, kept open; understands just what uvicorn sends."""

    def __init__(self, url: str, headers: dict[str, str]):
        self._parts = urlsplit(url)
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, body: dict[str, Any]) -> Told:
        """One chat request."""
        content = json.dumps(body).encode()
        begin = time.perf_counter()
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        reader, writer = self._streams
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: {self._parts.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n{self._headers}\r\n"
        )
        writer.write(head.encode() + content)
        header = await reader.readuntil(b"\r\n\r\n")
        status = int(header.split(b" ", 2)[1])
        if b"chunked" not in header:
            length = int(header.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            received = await reader.readexactly(length)
            total = time.perf_counter() - begin
            return Told(status, total, total, received)
        ttft, received = None, b""
        while not received.endswith(b"\r\n0\r\n\r\n"):
            part = await reader.read(65_536)
            if not part:  # cut off: whoever asked sees that [DONE] is missing
                await self.close()
                break
            received += part
            if ttft is None and b'"content"' in received:
                ttft = time.perf_counter() - begin
        total = time.perf_counter() - begin
        return Told(status, total if ttft is None else ttft, total, received)

    async def close(self) -> None:
        """Ends it."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def question(number: int, stream: bool) -> dict[str, Any]:
    """A request body; no two are alike."""
    text = f"Question {number}: what does the memory say about part {number % 6}, and since when?"
    return {"model": "tiny", "messages": [{"role": "user", "content": text}], "stream": stream, "max_tokens": 8}
