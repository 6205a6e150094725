"""Where capsules go in a prompt: before everything that changes from request to request, in one canonical order.

An engine reuses a prefix only, so the order decides what can be reused (placemem-notes.md, section 4: question first
reuses 19 % of the tokens, capsules first 88 %). Stable capsules come first, then hot ones, then those written earlier:
a version that was just written is cold and new, so it comes last, where it breaks least and is read best. Identity and
version are in the text, so a new version has other block names from its own place on and leaves the prefix before it
reusable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from solarjax.plane.capsules import Capsule
from solarjax.plane.errors import Invalid
from solarjax.plane.placement.prompts import text_of

_STABILITY = {"stable": 0, "normal": 1, "volatile": 2}
HEADING = "Memory:"


class Memory(NamedTuple):
    """The text of the capsules. `ends[i]` is where capsule i ends in `text`, in characters."""

    text: str
    ends: tuple[int, ...]


def ordered(capsules: Sequence[Capsule], heat: Callable[[Capsule], int]) -> list[Capsule]:
    """Stable before volatile, hot before cold, then in the order in which they were written."""
    return sorted(capsules, key=lambda c: (_STABILITY[c.stability], -heat(c), c.recorded_epoch, c.id))


def memory(capsules: Sequence[Capsule]) -> Memory:
    """The capsules as one text, in the order given."""
    text, ends = HEADING, []
    for capsule in capsules:
        text += f"\n[{capsule.id} v{capsule.version}] {capsule.text}"
        ends.append(len(text))
    return Memory(text, tuple(ends))


def with_memory(body: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The request with the memory put in: before the first user message of a chat, or before a plain prompt.

    Raises:
      Invalid: if there is no place for it.
    """
    if "messages" not in body:
        if not isinstance(body.get("prompt"), str):
            raise Invalid("capsules need `prompt` to be one string", "prompt")
        return {**body, "prompt": f"{text}\n\n{body['prompt']}"}
    messages = body["messages"]
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages) or not messages:
        raise Invalid("capsules need `messages` to be a list of messages", "messages")
    messages = list(messages)
    for i, message in enumerate(messages):
        if message.get("role") == "user":
            messages[i] = {**message, "content": _before(text, message.get("content"))}
            break
    else:
        lead = next((i for i, m in enumerate(messages) if m.get("role") != "system"), len(messages))
        messages.insert(lead, {"role": "user", "content": text})
    return {**body, "messages": messages}


def question_of(body: Mapping[str, Any]) -> str:
    """What retrieval should look for: the last user message, or the prompt; empty if it is not text."""
    if isinstance(body.get("prompt"), str):
        return body["prompt"]
    messages = body.get("messages")
    for message in reversed(messages) if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "user":
            return text_of(message.get("content")) or ""
    return ""


def _before(text: str, content: Any) -> Any:
    plain = text_of(content)
    if plain is not None:
        return f"{text}\n\n{plain}"
    if isinstance(content, list):
        return [{"type": "text", "text": text}, *content]
    raise Invalid("capsules need a user message with text", "messages")
