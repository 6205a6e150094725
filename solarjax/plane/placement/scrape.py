"""What a node says about itself at `/metrics`."""

from __future__ import annotations

from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from solarjax.plane.errors import Invalid


class Sample(NamedTuple):
    """One reading. Fields that the node does not report are None, never 0.

    incarnation: start time of the process in seconds; another one means that the node was restarted and is empty.
    running, waiting: requests. usage: share of KV blocks in use by requests (0 when idle, so not residency).
    blocks, block_size: size of the cache. queries, hits: prompt tokens looked up in the prefix cache, and found.
    """

    incarnation: float | None = None
    running: int | None = None
    waiting: int | None = None
    usage: float | None = None
    blocks: int | None = None
    block_size: int | None = None
    queries: float | None = None
    hits: float | None = None


_NAMES = {
    "process_start_time_seconds": "incarnation",
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "usage",
    "vllm:prefix_cache_queries_total": "queries",
    "vllm:prefix_cache_hits_total": "hits",
}
_COUNTS = ("running", "waiting")


def parse(text: str) -> Sample:
    """Reads a page of metrics; several engines of one server are added up.

    Raises:
      Invalid: if it is not in Prometheus' text format.
    """
    values: dict[str, float] = {}
    config: dict[str, str] = {}
    # Only the lines that matter: a full parse of a vLLM page costs milliseconds of every second.
    wanted = [line for line in text.splitlines() if line.startswith((*_NAMES, "vllm:cache_config_info"))]
    try:
        for family in text_string_to_metric_families("\n".join(wanted) + "\n"):
            for sample in family.samples:
                if sample.name == "vllm:cache_config_info":
                    config = sample.labels
                elif field := _NAMES.get(sample.name):
                    known = field == "incarnation" and field in values
                    values[field] = sample.value if known else values.get(field, 0.0) + sample.value
    except ValueError as error:
        raise Invalid(f"not a page of metrics: {error}") from None
    fields: dict[str, Any] = {name: int(value) if name in _COUNTS else value for name, value in values.items()}
    return Sample(
        **fields, blocks=_whole(config.get("num_gpu_blocks")), block_size=_whole(config.get("block_size"))
    )  # fmt: skip


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
