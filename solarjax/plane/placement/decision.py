"""What a placement answers with: data only, so that clients need none of the sidecar's libraries."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from solarjax.plane.placement.config import Rule

Mode = Literal["text", "kv"]
AskedMode = Literal["auto", "text", "kv", "layer"]


class Terms(BaseModel):
    """One candidate. All `*_ms` are milliseconds, before weights; `utility` is their weighted sum.

    cached_tokens: predicted; None if the node's cache is not known. ttft_ms: predicted without waiting.
    p_reuse, p_stale: the probabilities behind two of the terms. measured: False while the curve rests on its prior.
    """

    node: str
    mode: Mode
    utility: float
    cached_tokens: int | None
    ttft_ms: float
    reuse_ms: float
    saved_ms: float
    semantic_ms: float
    stale_ms: float
    remote_ms: float
    load_ms: float
    p_reuse: float
    p_stale: float
    measured: bool


class Decision(BaseModel):
    """Where a request goes, and why.

    Attributes:
      node: the chosen one; mode: kv if reuse of cached blocks was part of its value, text if not.
      rule: that chose.
      prompt_tokens: of the laid-out prompt; None if the plane cannot tokenise it exactly.
      cached_tokens: that the node will find in its cache; None if its cache or the prompt's tokens are not known.
      chosen: the terms of the choice. candidates: of all, the chosen one among them.
    """

    node: str
    mode: Mode
    rule: Rule
    prompt_tokens: int | None
    cached_tokens: int | None
    chosen: Terms
    candidates: tuple[Terms, ...]
