"""Address of a model server, from what people type: with or without the scheme's default port, `/v1`, or a slash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from solarjax.replay.errors import BadOption


@dataclass(frozen=True)
class Address:
    """Where a server is. base: its URL without the trailing `/v1`, `http://127.0.0.1:8000` say."""

    base: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises BadOption unless `url` is an http or https URL without user, query or fragment."""
        try:
            parts = urlsplit(url.strip())
            port_is_fine = parts.port is None or parts.port > 0
        except ValueError:
            raise BadOption(f"{url!r} is not a URL; expected something like http://127.0.0.1:8000") from None
        if parts.username or parts.password:
            # Not repeated in the message: it holds a secret, which would end up in logs and provenance.
            raise BadOption("the server's URL holds a user or password; put a key into SOLARJAX_API_KEY instead")
        if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
            raise BadOption(f"{url!r} is not an http(s) URL; expected something like http://127.0.0.1:8000")
        if parts.query or parts.fragment:
            raise BadOption(f"{url!r} has a query or fragment; expected something like http://127.0.0.1:8000")
        path = parts.path.rstrip("/").removesuffix("/v1")
        return cls(f"{parts.scheme}://{parts.netloc}{path}")

    def __str__(self) -> str:
        return self.base

    def api(self, path: str) -> str:
        """URL of a path of the protocol, `chat/completions` say."""
        return f"{self.base}/v1/{path}"

    def root(self, path: str) -> str:
        """URL of a path beside the protocol, `health` say."""
        return f"{self.base}/{path}"
