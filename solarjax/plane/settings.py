"""The configuration file of the plane, TOML; unknown keys and impossible values are errors that name the key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from solarjax.plane.capsules import Strict
from solarjax.plane.errors import Invalid

EXAMPLE = """\
# database = "postgresql://user:password@localhost/plane"
database = "plane.db"          # an SQLite file; relative to this file
host = "127.0.0.1"             # other machines cannot connect unless this is changed
port = 8765
max_body_bytes = 1000000
max_header_bytes = 16384
busy_seconds = 10.0            # a write waits this long for others before it answers 503
shutdown_seconds = 10.0        # running requests get this long when the server is stopped
max_streams = 500              # subscribers to the event stream
encoder = "none"               # "minilm" adds search by meaning (needs solarjax[encoder])
# otlp_endpoint = "http://localhost:4318/v1/traces"   # OpenTelemetry (needs solarjax[trace])
"""


class Settings(Strict):
    """See `EXAMPLE` for what each means; these are the defaults."""

    database: Annotated[str, Field(min_length=1)] = "plane.db"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8765
    max_body_bytes: Annotated[int, Field(ge=1_000, le=100_000_000)] = 1_000_000
    max_header_bytes: Annotated[int, Field(ge=1_000, le=1_000_000)] = 16_384
    busy_seconds: Annotated[float, Field(gt=0, le=600)] = 10.0
    shutdown_seconds: Annotated[float, Field(gt=0, le=600)] = 10.0
    max_streams: Annotated[int, Field(ge=1, le=100_000)] = 500
    encoder: Literal["none", "minilm"] = "none"
    encoder_source: str | None = None
    otlp_endpoint: str | None = None


def load(path: Path) -> Settings:
    """Reads a configuration file; a relative SQLite file is meant relative to it.

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
    if "://" not in settings.database:
        settings = settings.model_copy(update={"database": str(path.parent / settings.database)})
    return settings
