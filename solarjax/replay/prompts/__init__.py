"""Prompt templates: named, versioned text files, and what fits into a context of so many tokens.

A template file is jinja2 in sections `[system]` and `[user]`; it sees `corpus` and `experiences` (lists of texts, best
first as given) and `question`. A changed wording is a new file with a new number, never an edit: results carry the
name and the sha256 of what was used. Order is deliberate: what does not depend on the policy comes first, so that the
server's prefix cache serves every policy that asks the same question.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from solarjax.replay.errors import BadOption

DEFAULT, EXPERIENCE = "locomo_v1", "experience_v1"
_SECTION = re.compile(r"^\[(system|user|text)\]\n", re.MULTILINE)


@dataclass(frozen=True)
class Template:
    """One template. name: without ending.   source: the file's text.   sha256: of it, hex."""

    name: str
    source: str

    @property
    def sha256(self) -> str:
        """Hash of the source."""
        return hashlib.sha256(self.source.encode("utf-8")).hexdigest()

    @cached_property
    def sections(self) -> dict[str, Any]:
        """Section name -> compiled jinja2 template, in file order.

        Raises:
          BadOption: no section, text before the first, a section twice, or not jinja2.
        """
        import jinja2
        from jinja2.sandbox import SandboxedEnvironment

        parts = _SECTION.split(self.source)
        names = parts[1::2]
        if not names or parts[0].strip() or len(set(names)) < len(names):
            raise BadOption(
                f"template {self.name!r} needs each of its sections [system], [user] once, and no more text"
            )
        # Sandboxed: a template may be a user's file from anywhere.
        environment = SandboxedEnvironment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        try:
            return {name: environment.from_string(text.strip()) for name, text in zip(names, parts[2::2], strict=True)}
        except jinja2.TemplateError as error:
            raise BadOption(f"template {self.name!r} is not valid: {error}") from None

    def render(self, **values: Any) -> list[dict[str, str]]:
        """Chat messages, one per section.

        Raises:
          BadOption: the template uses a name it is not given.
        """
        import jinja2

        try:
            rendered = [(name, section.render(values).strip()) for name, section in self.sections.items()]
        except jinja2.TemplateError as error:
            raise BadOption(f"template {self.name!r}: {error}") from None
        return [{"role": "user" if name == "text" else name, "content": text} for name, text in rendered]


def names() -> list[str]:
    """Templates of this package."""
    found = [entry.name for entry in resources.files(__package__).iterdir() if entry.name.endswith(".txt")]
    return sorted(name.removesuffix(".txt") for name in found)


@lru_cache(maxsize=32)
def load(name: str) -> Template:
    """A template of this package by name, or the file of that path.

    Raises:
      BadOption: there is neither.
    """
    try:
        if name in names():
            text = resources.files(__package__).joinpath(f"{name}.txt").read_text(encoding="utf-8")
            return Template(name, text)
        path = Path(name)
        return Template(path.stem, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(
            f"template {name!r} is neither one of {', '.join(names())} nor a readable file ({error})"
        ) from None


def experience(question: str, answer: str, liked: bool, correct: str) -> str:
    """Text of the exchange that is offered to the cache; on dislike with the correct answer (spec 5)."""
    values = {"question": question, "answer": answer, "liked": liked, "correct": correct}
    return " ".join(load(EXPERIENCE).render(**values)[0]["content"].split())


@dataclass(frozen=True)
class Built:
    """A prompt that fits.

    messages: for the chat endpoint.   text: the same through the model's chat template, for the completion endpoint.
    tokens: length, generation prompt included.   dropped: (kind, rank, tokens saved) of each text left out, in order.
    """

    messages: tuple[dict[str, str], ...]
    text: str
    tokens: int
    dropped: tuple[tuple[str, int, int], ...]

    @property
    def sha256(self) -> str:
        """Identity of the prompt."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


class Prompter:
    """Builds prompts within a budget.

    Args:
      template: see `load`.   tokenizer: a `transformers` tokenizer, see `tokenizer.load`.
      budget: most tokens of a prompt, i.e. the model's context less the answer.
    """

    def __init__(self, template: Template, tokenizer: Any, budget: int):
        if budget < 1:
            raise BadOption(f"context budget of {budget} tokens is out of range; the context must exceed the answer")
        self.template, self.tokenizer, self.budget = template, tokenizer, budget

    def build(self, corpus: Sequence[tuple[int, str]], experiences: Sequence[str], question: str) -> Built:
        """The prompt, with as much of the memory as fits.

        What does not fit goes in this order: corpus texts from the least similar on, then experiences from the least
        similar on. Experiences are what a policy decides, so they stay longest.

        Args:
          corpus: (rank, text) in the order in which they are shown.   experiences: best first.

        Raises:
          BadOption: not even the question alone fits.
        """
        shown, kept = list(corpus), list(experiences)
        dropped: list[tuple[str, int, int]] = []
        messages, text, tokens = self._render(shown, kept, question)
        while tokens > self.budget:
            before = tokens
            if shown:
                worst = max(shown)
                shown.remove(worst)
                kind, rank = "corpus", worst[0]
            elif kept:
                kept.pop()
                kind, rank = "experience", len(kept)
            else:
                raise BadOption(
                    f"the question alone takes {tokens} tokens, the budget is {self.budget}: {question!r:.60}"
                )
            messages, text, tokens = self._render(shown, kept, question)
            dropped.append((kind, rank, before - tokens))
        return Built(tuple(messages), text, tokens, tuple(dropped))

    def _render(
        self, corpus: Sequence[tuple[int, str]], experiences: Sequence[str], question: str
    ) -> tuple[list[dict[str, str]], str, int]:
        shown = [text for _, text in corpus]
        messages = self.template.render(corpus=shown, experiences=list(experiences), question=question)
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return messages, text, len(self.tokenizer(text, add_special_tokens=False)["input_ids"])
