"""OpenTelemetry traces, if the extra `trace` is installed and an endpoint is configured; nothing otherwise."""

from __future__ import annotations

import importlib
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
