"""What is asked of a model and what came back. Times: seconds of a monotonic clock; tokens: the server's count."""

from __future__ import annotations

import math
from dataclasses import dataclass

from solarjax.replay.errors import BadOption


@dataclass(frozen=True)
class Sampling:
    """How the answer is drawn.

    Attributes:
      max_tokens: most tokens of the answer, at least 1.
      temperature: 0 is greedy.
      seed: of the server's sampler; without meaning at temperature 0.
      stop: strings that end the answer, at most 4 (the protocol's limit), none empty.

    Raises:
      BadOption: one of them is outside its range.
    """

    max_tokens: int = 32
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise BadOption(f"max_tokens is {self.max_tokens}; it must be at least 1")
        if not (math.isfinite(self.temperature) and 0 <= self.temperature <= 2):
            raise BadOption(f"temperature is {self.temperature}; it must lie in [0, 2]")
        if isinstance(self.stop, str) or len(self.stop) > 4 or not all(self.stop):
            raise BadOption(f"stop is {self.stop!r}; it must be a tuple of at most 4 non-empty strings")


@dataclass(frozen=True)
class Completion:
    """One answer with its measurements.

    Attributes:
      text: the answer, possibly empty.
      finish_reason: `stop`, `length`, or another word of the server.
      prompt_tokens: length of the prompt after the chat template.
      cached_tokens: prompt tokens that the server took from its prefix cache; None where it does not say.
      completion_tokens: length of the answer.
      ttft_s: from sending the request to the first non-empty piece of text (to the end, where the text is empty).
      itl_s: gaps between pieces of text; a piece is nearly always one token, so `len(itl_s) + 1` may be less than
        `completion_tokens` where the server sent several at once.
      total_s: from sending the request to the end of the stream. Waiting for a free slot and failed tries are in none
        of the times; they are those of the try that succeeded.
      attempts: tries, the successful one included.
      from_cache: the answer was read from the response cache; then the measurements are those of the recorded call.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    cached_tokens: int | None
    completion_tokens: int
    ttft_s: float
    itl_s: tuple[float, ...]
    total_s: float
    attempts: int
    from_cache: bool
