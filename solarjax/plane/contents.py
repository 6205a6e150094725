"""A version's content in the forms that are stored beside its text: digest, search document, JSON."""

from __future__ import annotations

import hashlib
import json

from solarjax.plane.capsules import Capsule, CapsuleContent


def content_sha256(content: CapsuleContent) -> str:
    """Of kind, text and summary: what a prompt built from the version depends on."""
    parts = json.dumps([content.kind, content.text, content.summary], ensure_ascii=False)
    return hashlib.sha256(parts.encode()).hexdigest()


def document(content: CapsuleContent | Capsule) -> str:
    """What text search looks at: text, summary, entities and facts."""
    facts = (f"{f.subject} {f.predicate} {f.object}" for f in content.facts)
    return "\n".join([content.text, content.summary or "", *content.entities, *facts])


def detail(content: CapsuleContent) -> str:
    """JSON of what has no column of its own: entities, facts, provenance, stability."""
    included = {"entities", "facts", "provenance", "stability"}
    return json.dumps(content.model_dump(mode="json", include=included, exclude_none=True), separators=(",", ":"))
