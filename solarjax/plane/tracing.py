"""OpenTelemetry traces, if the extra `trace` is installed and an endpoint is configured; nothing otherwise."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from solarjax.plane.errors import Invalid


def provider_for(endpoint: str) -> Any:
    """A tracer provider that sends batches of spans to an OTLP/HTTP endpoint.

    Raises:
      Invalid: if OpenTelemetry is not installed.
    """
    try:
        resources = importlib.import_module("opentelemetry.sdk.resources")
        trace = importlib.import_module("opentelemetry.sdk.trace")
        export = importlib.import_module("opentelemetry.sdk.trace.export")
        otlp = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ModuleNotFoundError as error:
        raise Invalid(f"traces need {error.name}: pip install solarjax[trace]") from None
    provider = trace.TracerProvider(resource=resources.Resource.create({"service.name": "solarjax-plane"}))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter(endpoint=endpoint)))
    return provider


class Spans:
    """Spans of the sidecar's phases, inside the request's own span; without a provider they cost nothing.

    Args:
      provider: of OpenTelemetry, or None.

    Raises:
      Invalid: if there is a provider and OpenTelemetry is not installed.
    """

    def __init__(self, provider: Any = None):
        self._tracer: Any = None
        if provider is None:
            return
        try:
            self._propagate = importlib.import_module("opentelemetry.propagate")
        except ModuleNotFoundError as error:
            raise Invalid(f"traces need {error.name}: pip install solarjax[trace]") from None
        self._tracer = provider.get_tracer("solarjax.plane.sidecar")

    def span(self, name: str) -> AbstractContextManager[Any]:
        """A span while the block runs. `as` gives None without a provider, else what `set_attribute` works on."""
        return _NOTHING if self._tracer is None else self._tracer.start_as_current_span(name)

    def headers(self) -> dict[str, str]:
        """`traceparent` of the current span, so that an engine's spans join the trace; empty without a provider."""
        carrier: dict[str, str] = {}
        if self._tracer is not None:
            self._propagate.inject(carrier)
        return carrier


_NOTHING: AbstractContextManager[Any] = nullcontext()


def instrument(app: Any, provider: Any) -> None:
    """One span a request, child of the caller's `traceparent`, named by the route.

    Raises:
      Invalid: if the instrumentation is not installed.
    """
    try:
        fastapi = importlib.import_module("opentelemetry.instrumentation.fastapi")
    except ModuleNotFoundError as error:
        raise Invalid(f"traces need {error.name}: pip install solarjax[trace]") from None
    # Spans for each ASGI message would make a stream one span a chunk.
    fastapi.FastAPIInstrumentor.instrument_app(
        app, tracer_provider=provider, excluded_urls="healthz,readyz,metrics", exclude_spans=["receive", "send"]
    )
