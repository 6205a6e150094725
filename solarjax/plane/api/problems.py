"""One shape for every error, the one that OpenAI-compatible clients know:

{"error": {"message": "...", "type": "conflict", "param": null, "code": 409}}
"""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from solarjax.plane.errors import PlaneError, Unauthorized, Unavailable, UpstreamBusy

_LOG = logging.getLogger("solarjax.plane")
_TYPES = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}


class Problem(BaseModel):
    """What is inside `error`. `code` is the HTTP status."""

    message: str
    type: str
    param: str | None
    code: int


class ProblemBody(BaseModel):
    """The body of every answer that is not a success."""

    error: Problem


def problem(status: int, kind: str, message: str, param: str | None = None, headers: Any = None) -> Response:
    """An error answer."""
    body = ProblemBody(error=Problem(message=message, type=kind, param=param, code=status))
    return JSONResponse(body.model_dump(), status, headers)


def of(error: PlaneError) -> Response:
    """The answer to one of the plane's own errors."""
    headers = {}
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Unavailable | UpstreamBusy):
        headers["Retry-After"] = "1"
    return problem(error.status, error.type, str(error), error.param, headers)


def of_framework(error: HTTPException) -> Response:
    """The answer to one of the framework's own errors."""
    kind = _TYPES.get(error.status_code, "invalid_request")
    return problem(error.status_code, kind, str(error.detail), None, error.headers)


def of_unexpected(method: str, path: str, error: Exception) -> Response:
    """The answer to anything else. The message may hold what the caller must not see; the log has it."""
    _LOG.error("%s %s failed", method, path, exc_info=error)
    return problem(500, "internal", "the server failed to answer this request")


def install(app: FastAPI) -> None:
    """Routes every exception into the one shape."""

    @app.exception_handler(PlaneError)
    async def plane(_request: Request, error: PlaneError) -> Response:
        return of(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem(422, "invalid_request", f"{where}: {first['msg']}", where)

    @app.exception_handler(HTTPException)
    async def framework(_request: Request, error: HTTPException) -> Response:
        return of_framework(error)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return of_unexpected(request.method, request.url.path, error)
