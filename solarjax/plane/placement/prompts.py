"""A chat or completion request as the token ids that an engine will see, computed here: 0.5 ms instead of a round trip.

The model's own chat template (Jinja, in a sandbox) and its own tokenizer file are used, as the engine does: a rendered
conversation is encoded without adding special tokens, a plain prompt with. Requests whose rendering the plane does not
follow exactly (images, tools, templates brought along) are not guessed at: their tokens are unknown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from solarjax.plane.errors import Invalid
from solarjax.plane.placement.tokens import Ends, SharedBeginnings

_CHANGES_RENDERING = (
    "tools", "documents", "chat_template", "chat_template_kwargs", "continue_final_message", "add_generation_prompt",
    "add_special_tokens", "truncate_prompt_tokens", "media_io_kwargs", "mm_processor_kwargs", "reasoning_effort",
    "structural_tag", "prompt_embeds", "suffix",
)  # fmt: skip


class Prompt(NamedTuple):
    """A rendered prompt. `ends` are character offsets into `text` where token i ends."""

    text: str
    tokens: list[int]
    ends: Sequence[int]


class PromptModel:
    """Template and tokenizer of one model.

    Args:
      folder: with `tokenizer.json`, and for chats a template in `chat_template.jinja` or `tokenizer_config.json`.

    Attributes:
      fingerprint: first 16 hex digits of the SHA-256 over both files; nodes with the same one tokenise alike.

    Raises:
      Invalid: if a file is missing or cannot be read.
    """

    def __init__(self, folder: Path):
        try:
            raw = (folder / "tokenizer.json").read_bytes()
            config_file = folder / "tokenizer_config.json"
            config = json.loads(config_file.read_text(encoding="utf-8")) if config_file.exists() else {}
            template_file = folder / "chat_template.jinja"
            template = template_file.read_text(encoding="utf-8") if template_file.exists() else None
            self._tokenizer = Tokenizer.from_buffer(raw)
        except (OSError, ValueError) as error:
            raise Invalid(f"tokenizer {str(folder)!r}: {error}", "tokenizer") from None
        template = template or _default_template(config.get("chat_template"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._beginnings = SharedBeginnings(self._tokenizer)
        self._special = {
            name: value["content"] if isinstance(value, dict) else value
            for name, value in config.items()
            if name.endswith("_token") and value is not None
        }
        self._template = None if template is None else _environment().from_string(template)
        self.fingerprint = hashlib.sha256(raw + (template or "").encode()).hexdigest()[:16]

    def prompt(self, body: Mapping[str, Any]) -> Prompt | None:
        """The prompt of a request body, None if it cannot be known exactly."""
        if any(body.get(name) is not None for name in _CHANGES_RENDERING):
            return None
        if "messages" in body:
            text = self._render(body["messages"])
            return None if text is None else self._encode(text, special=False)
        plain = body.get("prompt")
        return self._encode(plain, special=True) if isinstance(plain, str) else None

    def _encode(self, text: str, *, special: bool) -> Prompt:
        if special:
            found = self._tokenizer.encode(text, add_special_tokens=True)
            return Prompt(text, found.ids, Ends(found))
        return Prompt(text, *self._beginnings.encode(text))

    def _render(self, messages: Any) -> str | None:
        if self._template is None or not isinstance(messages, list):
            return None
        plain = []
        for message in messages:
            text = text_of(message.get("content")) if isinstance(message, dict) else None
            if text is None or set(message) - {"role", "content", "name"}:
                return None
            plain.append({**message, "content": text})
        try:
            return self._template.render(messages=plain, add_generation_prompt=True, **self._special)
        except TemplateError:
            return None  # the engine will refuse it too, with its own words


def text_of(content: Any) -> str | None:
    """The text of a message's content: a string, or parts that are all text (engines join those with newlines)."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str) for part in content
    ):
        return "\n".join(part["text"] for part in content)
    return None


def _default_template(found: Any) -> str | None:
    if isinstance(found, list):  # several named ones
        found = next((entry.get("template") for entry in found if entry.get("name") == "default"), None)
    return found if isinstance(found, str) else None


def _environment() -> ImmutableSandboxedEnvironment:
    def refuse(message: str) -> None:
        raise TemplateError(message)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )  # fmt: skip
    made.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made
