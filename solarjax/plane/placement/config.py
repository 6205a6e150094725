"""The part of the configuration that is about nodes: data only, so that reading it needs none of their libraries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from solarjax.plane.capsules import Strict

Endpoint = Annotated[str, Field(pattern=r"^(ipc|tcp|inproc)://.+", max_length=500)]
Weight = Annotated[float, Field(ge=0, le=1000)]
Rule = Literal["utility", "shortest_ttft", "consistent_hash", "session", "round_robin", "least_loaded"]


class NodeConfig(Strict):
    """One `[[nodes]]` table of the configuration.

    Attributes:
      name: shown in headers and pages.
      url: of the OpenAI-compatible server, without `/v1`.
      model: name under which requests ask for it.
      tokenizer: folder with the model's tokenizer.json and chat template; without it cached tokens are not predicted.
      events, replay: ZeroMQ endpoints of the engine's KV events; without `events` residency is unknown.
      topic: of those events; empty takes all.
      hash_algorithm: the engine's `--prefix-caching-hash-algo`.
      hash_seed: PYTHONHASHSEED of the engine, if it is set there.
      block_size: tokens per KV block; by default read from the node's metrics.
      api_key_env: environment variable with the bearer token that the engine expects.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._\-]{0,63}$")]
    url: Annotated[str, Field(pattern=r"^https?://[^\s/]+$", max_length=500)]
    model: Annotated[str, Field(min_length=1, max_length=200)]
    tokenizer: str | None = None
    events: Endpoint | None = None
    replay: Endpoint | None = None
    topic: Annotated[str, Field(max_length=200)] = ""
    hash_algorithm: Literal["sha256_cbor", "sha256"] = "sha256_cbor"
    hash_seed: str | None = None
    block_size: Annotated[int, Field(ge=1, le=4096)] | None = None
    api_key_env: str | None = None


class Weights(Strict):
    """Weights of the six terms, and the value of relevance in milliseconds. See utility.py."""

    reuse: Weight = 1.0
    saved: Weight = 1.0
    semantic: Weight = 1.0
    stale: Weight = 1.0
    remote: Weight = 1.0
    load: Weight = 1.0
    semantic_ms: Annotated[float, Field(ge=0, le=1e6)] = 100.0
