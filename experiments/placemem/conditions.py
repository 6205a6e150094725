"""The conditions of the comparison: how memory gets into a request, and what a correction reaches.

    prompt_only      no memory: a header with the turn's number, the documents, and all that was said on the subject in
                     order, corrections after what they correct. The engine's prefix cache is on; the header, at the
                     front as in chat logs, leaves it little to find. Round robin.
    text_no_cache    the current texts are retrieved and put in the prompt; no KV block is ever met again (a cache salt
                     for each request). Round robin. This is the published text-only baseline.
    text_cache       the same, with the engine's prefix cache on.
    text_hash        the same, and requests with the same last document go to the same node: consistent hashing.
    no_invalidation  the plane with KV-aware placement, but what was admitted once stays admitted.
    full             the plane.

All go through one sidecar, use the same documents in the same order and ask the same question. Text stores replace a
text that is corrected. What was derived from it they do not know, which is what text stores are like: that is the
derived texts' only source of staleness, and turns that use them are reported apart.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.placemem import workload as w
from experiments.placemem.frontend import Answer, Frontend
from solarjax.plane.capsules import CapsuleContent, CapsuleDraft, Provenance, VersionRef
from solarjax.plane.commit import Intent
from solarjax.plane.errors import NotFound
from solarjax.plane.placement import layout
from solarjax.plane.placement.config import Rule

MAX_TOKENS = 14
"""Enough for an identifier in the sentence in which the small model puts it; with 10 it is cut off."""
CHOICE_TOKENS = 16
"""More than an identifier has."""
_SOURCE = Provenance(source="benchmark")


@dataclass(frozen=True)
class Given:
    """One answered turn: the answer, and every text that decided it."""

    answer: Answer
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Cost:
    """What a correction took, milliseconds: wall, CPU of this process; and versions that it ended."""

    wall_ms: float
    cpu_ms: float
    ended: int


class Condition(ABC):
    """A way to remember. `learn` documents, `correct` them, `ask`, `choose`.

    Args:
      name: of the condition.  front: to ask.  tenant: its own.
    """

    rule: Rule = "round_robin"

    def __init__(self, name: str, front: Frontend, tenant: str):
        self.name, self.front, self.tenant = name, front, tenant
        front.tenant(tenant)

    @abstractmethod
    def learn(self, document: w.Document) -> None:
        """A document is written."""

    @abstractmethod
    def correct(self, correction: w.Correction) -> Cost | None:
        """A fact was wrong; None where there is nothing to be timed."""

    @abstractmethod
    def ask(self, turn: w.Turn, max_tokens: int) -> Given:
        """One turn."""

    @abstractmethod
    def request(self, turn: w.Turn) -> dict[str, Any]:
        """How `Frontend.ask` is to be called for a turn, but for the tenant."""

    def choose(self, turn: w.Turn, node: str) -> str:
        """The same question once more, on the node that answered it, with the old and the new value to choose from.

        A small model sometimes copies badly, or copies what stands beside; this tells which of the two its prompt made
        likelier. It comes after the turn, whose blocks it finds: what is measured of turns does not change.
        """
        between = tuple(sorted((turn.expected, turn.old)))  # the order may not tell
        request = self.request(turn) | {"rule": self.rule, "choice": between, "node": node, "reuse": True}
        return self.front.ask(self.tenant, **request, max_tokens=CHOICE_TOKENS).text


class PromptOnly(Condition):
    """See the module."""

    def __init__(self, name: str, front: Frontend, tenant: str):
        super().__init__(name, front, tenant)
        self._documents: dict[str, w.Document] = {}
        self._said: dict[str, list[str]] = {}

    def learn(self, document: w.Document) -> None:
        """Kept as it was said."""
        self._documents[document.id] = document
        if document.subject and not document.source:
            self._said[document.subject] = [document.text]

    def correct(self, correction: w.Correction) -> None:
        """Said after what it corrects."""
        self._said[correction.subject].append(f"Correction: {correction.text}")

    def ask(self, turn: w.Turn, max_tokens: int) -> Given:
        """Everything in one prompt."""
        answer = self.front.ask(self.tenant, **self.request(turn), max_tokens=max_tokens)
        # Corrected statements stand beside their corrections by design.
        return Given(answer, tuple(self._documents[name].text for name in turn.capsules[:-1]))

    def request(self, turn: w.Turn) -> dict[str, Any]:
        """See the module."""
        header = f"Turn {turn.number} of {turn.family}, {turn.session}, minute {7 * turn.number + 3}."
        texts = [self._documents[name].text for name in turn.capsules[:-1]]
        last = self._documents[turn.capsules[-1]]
        said = self._said[turn.subject]
        if last.source:
            said = [last.text, *said[1:]]
        content = "\n".join([header, layout.HEADING, *texts, *said]) + f"\n\n{turn.question}"
        return {"content": content, "rule": self.rule}


class Text(Condition):
    """A store of texts that keeps the current one of each document; see the module."""

    reuse = True

    def __init__(self, name: str, front: Frontend, tenant: str):
        super().__init__(name, front, tenant)
        self._texts: dict[str, tuple[int, str]] = {}

    def learn(self, document: w.Document) -> None:
        """Version 1."""
        self._texts[document.id] = (1, document.text)

    def correct(self, correction: w.Correction) -> None:
        """The text is replaced."""
        version, _ = self._texts[correction.document]
        self._texts[correction.document] = (version + 1, correction.text)

    def ask(self, turn: w.Turn, max_tokens: int) -> Given:
        """The texts as the plane would write them, by the client."""
        answer = self.front.ask(self.tenant, **self.request(turn), max_tokens=max_tokens)
        return Given(answer, tuple(self._texts[name][1] for name in turn.capsules))

    def request(self, turn: w.Turn) -> dict[str, Any]:
        """See the module."""
        chosen = [(name, *self._texts[name]) for name in turn.capsules]
        memory = "".join(f"\n[{name} v{version}] {text}" for name, version, text in chosen)
        content = f"{layout.HEADING}{memory}\n\n{turn.question}"
        return {"content": content, "rule": self.rule, "reuse": self.reuse, "session": turn.capsules[-1]}


class TextNoCache(Text):
    """See the module."""

    reuse = False


class TextHash(Text):
    """See the module."""

    rule: Rule = "session"


class Plane(Condition):
    """The memory plane; see the module."""

    rule: Rule = "utility"
    invalidation = True

    def __init__(self, name: str, front: Frontend, tenant: str):
        super().__init__(name, front, tenant)
        self._catalogue = front.services.catalogue
        self._intent = Intent(tenant, "benchmark", "workload")
        self._documents: dict[str, w.Document] = {}
        self._derived: dict[str, str] = {}

    def learn(self, document: w.Document) -> None:
        """A capsule, derived from its source if it has one."""
        self._documents[document.id] = document
        sources = (self._catalogue.get(self.tenant, document.source).ref,) if document.source else ()
        draft = CapsuleDraft(
            id=document.id, text=document.text, kind=document.kind, stability=document.stability, provenance=_SOURCE,
            depends_on=sources,
        )  # fmt: skip
        self._catalogue.create(self._intent, draft)

    def correct(self, correction: w.Correction) -> Cost:
        """One transaction, cascade included."""
        found = self._catalogue.get(self.tenant, correction.document)
        content = CapsuleContent(
            text=correction.text, kind=found.kind, stability=found.stability, provenance=_SOURCE
        )  # fmt: skip
        wall, cpu = time.perf_counter(), time.thread_time()
        result = self._catalogue.correct(self._intent, found.ref, content)
        cost = Cost((time.perf_counter() - wall) * 1e3, (time.thread_time() - cpu) * 1e3, result.ended)
        self._derived.update(correction.derived)
        return cost

    def ask(self, turn: w.Turn, max_tokens: int) -> Given:
        """By name; the plane puts the texts in."""
        if self.invalidation:
            self._derive_again(turn.capsules[-1])
        answer = self.front.ask(self.tenant, **self.request(turn), max_tokens=max_tokens)
        return Given(answer, tuple(self._text(name) for name in answer.capsules))

    def request(self, turn: w.Turn) -> dict[str, Any]:
        """See the module."""
        return {
            "content": turn.question, "rule": self.rule, "capsules": turn.capsules, "invalidation": self.invalidation,
        }  # fmt: skip

    def _derive_again(self, name: str) -> None:
        """What ended with its source is derived from the new one when it is next needed."""
        document = self._documents[name]
        if not document.source:
            return
        try:
            self._catalogue.get(self.tenant, name)
        except NotFound:
            source = self._catalogue.get(self.tenant, document.source).ref
            draft = CapsuleDraft(
                id=name, text=self._derived[name], kind=document.kind, stability=document.stability,
                provenance=_SOURCE, depends_on=(source,),
            )  # fmt: skip
            self._catalogue.create(self._intent, draft)

    def _text(self, name: str) -> str:
        ref = VersionRef.parse(name)
        return self._catalogue.get(self.tenant, ref.id, version=ref.version).text


class NoInvalidation(Plane):
    """See the module."""

    invalidation = False

    def learn(self, document: w.Document) -> None:
        """Also admitted at once: this is what it will be given for ever."""
        super().learn(document)
        self.front.admit_for_ever(self.tenant, document.id)


CONDITIONS: Mapping[str, type[Condition]] = {
    "prompt_only": PromptOnly,
    "text_no_cache": TextNoCache,
    "text_cache": Text,
    "text_hash": TextHash,
    "no_invalidation": NoInvalidation,
    "full": Plane,
}


def is_stale(texts: tuple[str, ...], wrong: Mapping[str, str]) -> bool:
    """Whether any text that was used carries an identifier that was corrected.

    wrong: every corrected identifier and its subject; identifiers are never drawn twice.
    """
    return any(found in wrong for text in texts for found in w.identifiers(text))
