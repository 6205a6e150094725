"""A way past the framework for the paths that are asked most.

Six layers of middleware and a router cost as much as all that the plane itself does to place a prompt. The sidecar's
routes are plain ASGI and answer their own errors, so they need none of them but the plane's own two: limits, metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send


class Shortcut(FastAPI):
    """A FastAPI application with such a way.

    Attributes:
      posts: path -> application for POST requests; whatever is not in it goes the usual way.
    """

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.posts: Mapping[str, ASGIApp] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            direct = self.posts.get(scope["path"])
            if direct is not None:
                await direct(scope, receive, send)
                return
        await super().__call__(scope, receive, send)
