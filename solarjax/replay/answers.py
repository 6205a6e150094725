"""Reads a server's answers: a completion stream into a `Completion`, an error status into an exception."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from solarjax.replay import errors
from solarjax.replay.completion import Completion
from solarjax.replay.retry import parse_retry_after
from solarjax.replay.sse import DONE, data_events, parsed

# Servers say "too long" in words; the fields that name it differ between them.
_TOO_LONG = re.compile(
    r"maximum context length|context[_ ](length|window|size)[_ ]?(exceed|limit)?|exceeds?( the)?( available)? context"
    r"|max(imum)?[_ ]model[_ ]len|too many (input )?tokens|prompt (is )?too long|input_tokens",
    re.IGNORECASE,
)


async def read_stream(chunks: AsyncIterator[bytes], sent: float, clock: Callable[[], float]) -> Completion:
    """Reads a stream of chat or text completion chunks to its end.

    The answer is complete when its finish reason and the usage have come; `[DONE]` alone proves nothing, since a server
    whose engine died sends an error object and then `[DONE]` all the same.

    Args:
      chunks: the body, as it arrives.
      sent: time at which the request was sent.
      clock: what `sent` was read from, in seconds.

    Raises:
      ServerBroken: the stream carried an error object.  CutStream: it ended early.  MalformedStream, BadResponse.
    """
    pieces: list[str] = []
    times: list[float] = []
    finish: str | None = None
    usage: dict[str, Any] | None = None
    async with aclosing(data_events(chunks)) as events:
        async for event in events:
            if event == DONE:
                break
            chunk = parsed(event)
            if chunk.get("error"):
                kind, message = _error_fields(chunk)
                raise errors.ServerBroken(f"the server broke off the answer with an error: {message} ({kind})")
            usage = chunk.get("usage") or usage
            try:
                for choice in chunk["choices"]:
                    text = choice["delta"].get("content") if "delta" in choice else choice["text"]
                    finish = choice.get("finish_reason") or finish
                    if text:
                        times.append(clock())
                        pieces.append(text)
            except (KeyError, TypeError, AttributeError):
                raise errors.MalformedStream(f"the server sent an unknown kind of chunk: {event[:80]!r}") from None
    end = clock()
    if finish is None:
        raise errors.CutStream(f"the stream ended after {len(pieces)} pieces of text, before the answer was complete")
    if usage is None:
        raise errors.BadResponse(
            "the server sent no token counts; it must support stream_options.include_usage of the completions protocol"
        )
    try:
        details = usage.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens")
        return Completion(
            text="".join(pieces),
            finish_reason=str(finish),
            prompt_tokens=int(usage["prompt_tokens"]),
            cached_tokens=None if cached is None else int(cached),
            completion_tokens=int(usage["completion_tokens"]),
            ttft_s=(times[0] if times else end) - sent,
            itl_s=tuple(later - earlier for earlier, later in zip(times, times[1:], strict=False)),
            total_s=end - sent,
            attempts=1,
            from_cache=False,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise errors.BadResponse(f"the server's token counts are not understood: {str(usage)[:120]}") from None


def status_error(status: int, headers: Any, body: bytes, *, url: str, model: str) -> errors.ReplayError:
    """The exception for an answer whose status is not 200.

    A 404 becomes ModelNotFound without the list of served models; the client, which can ask, adds it.
    """
    code, said = _error_fields(_loads(body))
    said = said or body[:200].decode("utf-8", "replace").strip() or "no explanation"
    wait = parse_retry_after(headers.get("retry-after"))
    if status in (429, 503):
        what = "asks to slow down" if status == 429 else "is overloaded or not ready"
        return errors.RateLimited(f"{url} {what} ({status}): {said}", retry_after_s=wait)
    if status in (401, 403):
        return errors.Unauthorized(
            f"{url} refused the API key ({status}): {said}; set SOLARJAX_API_KEY or OPENAI_API_KEY to one that it knows"
        )
    if status == 404 and (code is not None or "model" in said.lower()):
        return errors.ModelNotFound(f"{url} does not serve the model {model!r}: {said}")
    if status in (400, 413, 422):
        if _TOO_LONG.search(f"{code} {said}"):
            return errors.ContextTooLong(f"prompt and answer do not fit the context of {model!r}: {said}")
        return errors.Refused(f"{url} refused the request ({status}): {said}")
    if status >= 500 or status == 408:
        return errors.ServerBroken(f"{url} failed ({status}): {said}", retry_after_s=wait)
    return errors.BadResponse(
        f"{url} answered with status {status}: {said}; is this the address of an OpenAI-compatible server?"
    )


def _loads(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _error_fields(value: Any) -> tuple[Any, str]:
    """(code or type, message) of the error object in any of the shapes in use; (None, "") if there is none."""
    if not isinstance(value, dict):
        return None, ""
    error = value.get("error", value)
    if isinstance(error, str):
        return None, error
    if not isinstance(error, dict):
        return None, ""
    message = error.get("message") or error.get("detail") or ""
    kinds = [str(error[name]) for name in ("param", "type", "code") if error.get(name)]
    return (" ".join(kinds) or None), message if isinstance(message, str) else json.dumps(message)[:200]
