"""The memory capsule: what it must say, what it may say, and how a version of it is named.

Source: PlaceMem (arXiv 2607.04089), sec. 3.1, table 1 in prose: tenant, surface text, timestamps and validity window
are required; summaries, entities, facts, dependencies and artifact locators are optional. Provenance is mandatory
here, as its ethics statement asks. The tenant is not a field: it comes from authentication and nothing else.

Deliberate differences: a version never changes once written (a correction is a new version of the same identity), and
artifact locators are kept beside the versions, because one KV segment usually covers several capsules.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

MAX_TEXT = 200_000
MAX_VERSION = 2**31 - 1
MAX_EPOCH = 2**62
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}$"
_REF = re.compile(r"([A-Za-z0-9][A-Za-z0-9._:\-]{0,127})@([1-9][0-9]{0,9})\Z")


def storable(text: str) -> str:
    """The text itself if both databases can hold it.

    Raises:
      ValueError: for NUL (PostgreSQL has none) and lone surrogates (UTF-8 has none).
    """
    if "\x00" in text:
        raise ValueError("must not contain NUL characters")
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError("must not contain lone surrogates")
    return text


Text = Annotated[str, AfterValidator(storable)]
Label = Annotated[Text, Field(min_length=1, max_length=200)]
CapsuleId = Annotated[str, Field(pattern=ID_PATTERN, description="Neither '@' nor ',': they separate ids in headers.")]
Version = Annotated[int, Field(ge=1, le=MAX_VERSION)]
Stability = Literal["stable", "normal", "volatile"]
Kind = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_\-]{0,31}$")]
Hash64 = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$", description="64-bit block hash, 16 hex digits.")]


class Strict(BaseModel):
    """Frozen, and unknown fields are errors: a misspelt `valid_to` must not be lost."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class VersionRef(Strict):
    """One version of one capsule; `str()` gives `id@version`, the form used in headers."""

    id: CapsuleId
    version: Version

    def __str__(self) -> str:
        return f"{self.id}@{self.version}"

    @classmethod
    def parse(cls, text: str) -> VersionRef:
        """Reads `id@version`.

        Raises:
          ValueError: naming the text.
        """
        match = _REF.match(text)
        if not match or int(match[2]) > MAX_VERSION:
            raise ValueError(f"{text[:160]!r} is not of the form id@version")
        return cls(id=match[1], version=int(match[2]))


class Provenance(Strict):
    """Where a statement comes from. `source` says what kind of place, `uri` which one, `author` who."""

    source: Label
    uri: Annotated[Text, Field(max_length=2000)] | None = None
    author: Label | None = None
    recorded_at: AwareDatetime | None = None


class Fact(Strict):
    """A subject-predicate-object statement that the text makes; it lives and dies with its version."""

    subject: Label
    predicate: Label
    object: Annotated[Text, Field(min_length=1, max_length=2000)]


class CapsuleContent(Strict):
    """All that a version says.

    Attributes:
      kind: free word for the sort of memory: fact, summary, plan, turn ...
      text: the surface text that goes into a prompt.
      stability: how often it is expected to change; prompts put stable capsules first so that a change breaks the least
        of a shared prefix.
      valid_from, valid_to: half-open window of validity. A missing start means now (for a correction: the start of what
        it replaces), a missing end means open. Of a derived capsule: cut to the windows of its sources.
      depends_on: the versions it was derived from; each must still hold.
    """

    kind: Kind = "fact"
    text: Annotated[Text, Field(min_length=1, max_length=MAX_TEXT)]
    summary: Annotated[Text, Field(min_length=1, max_length=MAX_TEXT)] | None = None
    entities: Annotated[tuple[Label, ...], Field(max_length=64)] = ()
    facts: Annotated[tuple[Fact, ...], Field(max_length=256)] = ()
    provenance: Provenance
    stability: Stability = "normal"
    valid_from: AwareDatetime | None = None
    valid_to: AwareDatetime | None = None
    depends_on: Annotated[tuple[VersionRef, ...], Field(max_length=256)] = ()

    @model_validator(mode="after")
    def _consistent(self) -> CapsuleContent:
        if self.valid_from and self.valid_to and self.valid_from >= self.valid_to:
            raise ValueError("valid_from must be before valid_to")
        if len(set(self.depends_on)) < len(self.depends_on):
            raise ValueError("depends_on names a version twice")
        return self


class CapsuleDraft(CapsuleContent):
    """A capsule to be created; without an id the catalogue invents one."""

    id: CapsuleId | None = None


class Capsule(BaseModel):
    """One stored version.

    Attributes:
      sha256: of kind, text and summary; what a prompt built from this version depends on.
      ends_at: end of the window in force, None if open. Earlier than `valid_to` once it was superseded or expired, and
        equal to `valid_from` if it holds at no time (corrected, deleted, or derived from such).
      recorded_epoch: the tenant's epoch at which it was written.
      ended_epoch: the epoch that first ended it, None while nothing did.
      erased: True if its content was wiped.
    """

    id: str
    version: int
    kind: str
    text: str
    summary: str | None
    entities: tuple[str, ...]
    facts: tuple[Fact, ...]
    provenance: Provenance
    stability: Stability
    valid_from: datetime | None
    valid_to: datetime | None
    ends_at: datetime | None
    depends_on: tuple[VersionRef, ...]
    sha256: str
    recorded_at: datetime
    recorded_epoch: int
    ended_epoch: int | None
    in_force: bool
    erased: bool

    @property
    def ref(self) -> VersionRef:
        """`id@version`."""
        return VersionRef(id=self.id, version=self.version)
