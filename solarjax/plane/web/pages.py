"""Serves the page, which asks for a token and talks to the control plane like any other client."""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

_TYPES = {
    "index.html": "text/html",
    "plane.css": "text/css",
    "plane.js": "text/javascript",
    "graph.js": "text/javascript",
}
# No inline script or style, nothing from elsewhere, in no frame: a capsule's text is data wherever it is shown.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def routes() -> list[Route]:
    """`/` and `/page/...`."""
    contents = {name: (files(__package__) / name).read_bytes() for name in _TYPES}

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in contents:
            return Response("no such file\n", 404, media_type="text/plain")
        return Response(contents[name], media_type=_TYPES[name], headers=_HEADERS)

    async def root(_request: Request) -> Response:
        return RedirectResponse("/page/index.html")

    return [Route("/", root, include_in_schema=False), Route("/page/{name}", page, include_in_schema=False)]
