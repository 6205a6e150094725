"""Short ways to say what the tests of the plane say often."""

from __future__ import annotations

import itertools
import uuid

from solarjax.plane.admission import Gate
from solarjax.plane.artifact_store import Artifacts
from solarjax.plane.artifacts import ArtifactDraft, KvSegmentLocator
from solarjax.plane.audit import Audit
from solarjax.plane.capsules import CapsuleContent, CapsuleDraft, Provenance, VersionRef
from solarjax.plane.clock import to_datetime
from solarjax.plane.commit import Intent
from solarjax.plane.listing import Listing
from solarjax.plane.vectors import Embedded

START = 1_700_000_000_000_000
HOUR = 3_600_000_000
SOURCE = Provenance(source="test")


class Ticker:
    """A clock that moves by one microsecond a look, and by hand."""

    def __init__(self, now=START):
        self.now = now

    def __call__(self):
        self.now += 1
        return self.now


def ref(text):
    return VersionRef.parse(text)


def content(text, *sources, begin=None, end=None, **fields):
    return CapsuleContent(text=text, **_common(sources, begin, end), **fields)


def draft(name, text, *sources, begin=None, end=None, **fields):
    return CapsuleDraft(id=name, text=text, **_common(sources, begin, end), **fields)


def _common(sources, begin, end):
    return {
        "provenance": SOURCE,
        "depends_on": tuple(map(ref, sources)),
        "valid_from": None if begin is None else to_datetime(begin),
        "valid_to": None if end is None else to_datetime(end),
    }


def kv(*made_from, salt="s"):
    locator = KvSegmentLocator(model="m", tokenizer="t", block_size=32, salt=salt, block_hashes=("00112233445566aa",))
    return ArtifactDraft(locator=locator, made_from=tuple(map(ref, made_from)))


def vector(*values, model="model"):
    return Embedded.unit(model, values)


class World:
    """One tenant."""

    _numbers = itertools.count()

    def __init__(self, catalogue):
        self.catalogue = catalogue
        self.clock = catalogue.clock
        self.tenant = f"tenant-{uuid.uuid4().hex[:8]}"
        catalogue.add_tenant(self.tenant)
        self.intent = Intent(self.tenant, "tester", "because")
        self.audit = Audit(catalogue.database)
        self.gate = Gate(catalogue.database, catalogue.clock)
        self.listing = Listing(catalogue.database, catalogue.clock)
        self.artifacts = Artifacts(catalogue.database, catalogue.clock)

    def create(self, name, *sources, text=None, vector=None, **fields):
        return self.catalogue.create(self.intent, draft(name, text or f"text of {name}", *sources, **fields), vector)

    def correct(self, target, *sources, text="right", **fields):
        return self.catalogue.correct(self.intent, ref(target), content(text, *sources, **fields))

    def supersede(self, target, *sources, text="next", **fields):
        return self.catalogue.supersede(self.intent, ref(target), content(text, *sources, **fields))

    def expire(self, target, at=None):
        return self.catalogue.expire(self.intent, ref(target), at)

    def delete(self, name, **options):
        return self.catalogue.delete(self.intent, name, **options)

    def restore(self, target):
        return self.catalogue.restore(self.intent, ref(target))

    def get(self, name, **options):
        return self.catalogue.get(self.tenant, name, **options)

    def in_force(self, at=None, epoch=None):
        return {str(c.ref) for c in self.listing.capsules(self.tenant, at=at, epoch=epoch, limit=1000)}

    def ended_by(self, epoch):
        return {str(impact.ref) for impact in self.audit.ended_by(self.tenant, epoch, limit=10_000)}


def refs(items):
    return [str(item) for item in items]
