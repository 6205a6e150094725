"""The application: routes under /plane/v1, health, metrics, limits, and the one error shape."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

import solarjax
from solarjax.plane import tracing
from solarjax.plane.api import capsules, parts, problems, serving, use
from solarjax.plane.api.doorbell import Doorbell
from solarjax.plane.api.limits import Limits
from solarjax.plane.api.shortcut import Shortcut
from solarjax.plane.errors import Invalid
from solarjax.plane.metrics import MeasuredApp
from solarjax.plane.services import Services
from solarjax.plane.web import pages

PREFIX = "/plane/v1"
_health = APIRouter(tags=["health"])


class Health(BaseModel):
    """`status` is always ok: not being ok is an error answer."""

    status: str = "ok"


@_health.get("/healthz")
async def healthz() -> Health:
    """The process answers."""
    return Health()


@_health.get("/readyz", responses={503: parts.ERRORS[503]})
def readyz(plane: parts.Plane) -> Health:
    """The database answers."""
    plane.catalogue.database.ping()
    return Health()


@_health.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(plane: parts.Plane) -> Response:
    """Prometheus metrics."""
    return Response(generate_latest(plane.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def create_app(services: Services, *, tracer_provider: Any = None) -> FastAPI:
    """The control plane over some services, with the sidecar if nodes are configured; closes them when it shuts down.

    Args:
      tracer_provider: of OpenTelemetry; None takes the endpoint in the settings, if there is one.

    Raises:
      Invalid: if traces are asked for and OpenTelemetry is not installed, for hot sets without nodes, and as `Serving`.
    """
    settings = services.settings
    doorbell = Doorbell(services.metrics, settings.max_streams)
    if settings.hot is not None and not settings.nodes:
        raise Invalid("a hot set is learnt from requests: [hot] needs [[nodes]]", "hot")
    front = _sidecar(services) if settings.nodes else None

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        services.catalogue.listeners.append(doorbell.written)
        try:
            async with front.running() if front is not None else nullcontext():
                yield
        finally:
            doorbell.close()
            services.catalogue.listeners.remove(doorbell.written)
            services.close()
            if provider is not None and tracer_provider is None:
                provider.shutdown()

    app = Shortcut(
        title="solarjax memory plane", version=solarjax.__version__, lifespan=lifespan,
        generate_unique_id_function=_operation, docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.services = services
    app.state.doorbell = doorbell
    app.state.serving = front
    app.include_router(_health)
    for router in (capsules.router, use.router, serving.router):
        app.include_router(router, prefix=PREFIX)
    app.router.routes.extend(pages.routes())
    if front is not None:
        from solarjax.plane.sidecar.routes import routes

        # In front: a router tries its routes in order, and these are asked most.
        app.router.routes[:0] = routes(front)
    problems.install(app)
    limits = {"max_body_bytes": settings.max_body_bytes, "max_header_bytes": settings.max_header_bytes}
    app.add_middleware(Limits, **limits)
    app.add_middleware(MeasuredApp, metrics=services.metrics)
    provider = tracer_provider
    if provider is None and settings.otlp_endpoint:
        provider = tracing.provider_for(settings.otlp_endpoint)
    if provider is not None:
        tracing.instrument(app, provider)
        if front is not None:
            front.spans = tracing.Spans(provider)
    elif front is not None:  # without traces: those are made by the framework's middleware
        app.posts = {
            route.path: MeasuredApp(Limits(route.app, **limits), services.metrics)
            for route in app.router.routes
            if isinstance(route, Route) and "POST" in (route.methods or ()) and route.path.startswith("/v1/")
        }
    return app


def _sidecar(services: Services) -> Any:
    """Imported here: a plane without nodes needs none of the sidecar's libraries.

    Raises:
      Invalid: if one of them is missing, and as `Serving`.
    """
    try:
        from solarjax.plane.sidecar.serving import Serving
    except ModuleNotFoundError as error:
        raise Invalid(f"nodes need {error.name}: pip install solarjax[plane]") from None
    return Serving(services)


def _operation(route: APIRoute) -> str:
    """Operation ids are the functions' names: clients made from the specification read well."""
    return route.name
