"""The configuration file of the plane, TOML; unknown keys and impossible values are errors that name the key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from solarjax.plane.capsules import Strict
from solarjax.plane.errors import Invalid
from solarjax.plane.placement.config import NodeConfig, Rule, Weights

EXAMPLE = """\
# database = "postgresql://user:password@localhost/plane"
database = "plane.db"          # an SQLite file; relative to this file
host = "127.0.0.1"             # other machines cannot connect unless this is changed
port = 8765
max_body_bytes = 1000000
max_header_bytes = 16384
busy_seconds = 10.0            # a write waits this long for others before it answers 503
synchronous = "full"           # SQLite: acknowledged writes survive power loss; "normal": the end of the process only
shutdown_seconds = 10.0        # running requests get this long when the server is stopped
max_streams = 500              # subscribers to the event stream
encoder = "none"               # "minilm" adds search by meaning (needs solarjax[encoder])
# otlp_endpoint = "http://localhost:4318/v1/traces"   # OpenTelemetry (needs solarjax[trace])

# With nodes, /v1/chat/completions, /v1/completions and /v1/models are served in front of them.
routing = "utility"            # or shortest_ttft, consistent_hash, session, round_robin, least_loaded
salt_secret_file = "plane.salt"   # made on first use; keeps tenants' KV blocks apart
connect_seconds = 10.0         # per try, to a node; a burst of requests delays this process too
first_byte_seconds = 120.0     # per try, to the first content byte: must exceed the longest prefill
chunk_seconds = 60.0           # between two chunks of a stream
answer_seconds = 600.0         # per try, for an answer that is not a stream
tries = 3                      # nodes asked for one request, all before the first byte
readmissions = 2               # if a capsule is corrected while a request is prepared
max_in_flight = 2000
record_segments = true         # write locators of computed KV prefixes into the catalogue
# request_log = "requests.jsonl"  # one JSON line a request

# [hot]                        # which capsules are hot, by a cache policy of solarjax (needs jax, and an encoder)
# policy = "lru"
# capacity = 64
# history = 1024               # uses remembered, a tenant

# [weights]                    # of the utility, see solarjax/plane/placement/utility.py
# reuse = 1.0

# [[nodes]]
# name = "a"
# url = "http://127.0.0.1:8000"
# model = "smollm2"
# tokenizer = "models/smollm2"          # folder with tokenizer.json and the chat template
# events = "ipc:///run/vllm/a.events"   # --kv-events-config: endpoint, and
# replay = "ipc:///run/vllm/a.replay"   # replay_endpoint
# hash_algorithm = "sha256_cbor"        # --prefix-caching-hash-algo
"""


class HotConfig(Strict):
    """The `[hot]` table: `policy` as on the command line, `capacity` in capsules, `history` in uses, both a tenant."""

    policy: Annotated[str, Field(min_length=1, max_length=200)]
    capacity: Annotated[int, Field(ge=1, le=100_000)]
    history: Annotated[int, Field(ge=1, le=100_000)] = 1024


class Settings(Strict):
    """See `EXAMPLE` for what each means; these are the defaults."""

    database: Annotated[str, Field(min_length=1)] = "plane.db"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8765
    max_body_bytes: Annotated[int, Field(ge=1_000, le=100_000_000)] = 1_000_000
    max_header_bytes: Annotated[int, Field(ge=1_000, le=1_000_000)] = 16_384
    busy_seconds: Annotated[float, Field(gt=0, le=600)] = 10.0
    synchronous: Literal["full", "normal"] = "full"
    shutdown_seconds: Annotated[float, Field(gt=0, le=600)] = 10.0
    max_streams: Annotated[int, Field(ge=1, le=100_000)] = 500
    encoder: Literal["none", "minilm"] = "none"
    encoder_source: str | None = None
    otlp_endpoint: str | None = None
    nodes: Annotated[tuple[NodeConfig, ...], Field(max_length=1000)] = ()
    routing: Rule = "utility"
    weights: Weights = Weights()
    salt_secret_file: Annotated[str, Field(min_length=1)] = "plane.salt"
    connect_seconds: Annotated[float, Field(gt=0, le=600)] = 10.0
    first_byte_seconds: Annotated[float, Field(gt=0, le=36_000)] = 120.0
    chunk_seconds: Annotated[float, Field(gt=0, le=36_000)] = 60.0
    answer_seconds: Annotated[float, Field(gt=0, le=36_000)] = 600.0
    tries: Annotated[int, Field(ge=1, le=100)] = 3
    readmissions: Annotated[int, Field(ge=0, le=20)] = 2
    max_in_flight: Annotated[int, Field(ge=1, le=100_000)] = 2000
    record_segments: bool = True
    request_log: str | None = None
    hot: HotConfig | None = None


def load(path: Path) -> Settings:
    """Reads a configuration file; relative files in it are meant relative to it.

    Raises:
      OSError: if it cannot be read. Invalid: naming the first key that is wrong, or the line that is not TOML.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        settings = Settings.model_validate(values)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise Invalid(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def beside(name: str | None) -> str | None:
        return None if name is None else str(path.parent / name)

    changed: dict[str, Any] = {name: beside(getattr(settings, name)) for name in ("salt_secret_file", "request_log")}
    if "://" not in settings.database:
        changed["database"] = beside(settings.database)
    changed["nodes"] = tuple(n.model_copy(update={"tokenizer": beside(n.tokenizer)}) for n in settings.nodes)
    return settings.model_copy(update=changed)
