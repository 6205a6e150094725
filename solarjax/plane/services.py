"""Everything the HTTP layer and the command line work with, built from settings: no globals."""

from __future__ import annotations

from dataclasses import dataclass

from solarjax.plane.access import Access
from solarjax.plane.admission import Gate
from solarjax.plane.artifact_store import Artifacts
from solarjax.plane.audit import Audit
from solarjax.plane.capsules import CapsuleContent
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.clock import Clock, NewId, random_id, system_clock
from solarjax.plane.encoding import Encoder, MiniLMEncoder
from solarjax.plane.listing import Listing
from solarjax.plane.metrics import MeasuredDatabase, Metrics
from solarjax.plane.retriever import Retriever
from solarjax.plane.settings import Settings
from solarjax.plane.vectors import Embedded


@dataclass(frozen=True)
class Services:
    """One plane. `close` may be called more than once."""

    settings: Settings
    metrics: Metrics
    catalogue: Catalogue
    audit: Audit
    artifacts: Artifacts
    gate: Gate
    listing: Listing
    retriever: Retriever
    access: Access
    encoder: Encoder | None

    def embed(self, content: CapsuleContent) -> Embedded | None:
        """The vector of a content's text; None without an encoder."""
        if self.encoder is None:
            return None
        return self.encoder.embed([content.text])[0]

    def close(self) -> None:
        """Closes the database."""
        self.catalogue.close()


def build(
    settings: Settings, *, clock: Clock = system_clock, new_id: NewId = random_id, encoder: Encoder | None = None
) -> Services:
    """Opens the database (and brings its schema up to date).

    Args:
      encoder: overrides the one that the settings name.

    Raises:
      Invalid, DatabaseError, Unavailable: as `Database` and `migrate`.
    """
    metrics = Metrics()
    database = MeasuredDatabase(
        settings.database, metrics, busy_seconds=settings.busy_seconds, synchronous=settings.synchronous
    )  # fmt: skip
    try:
        catalogue = Catalogue(database, clock=clock, new_id=new_id)
    except BaseException:
        database.close()
        raise
    catalogue.listeners.append(metrics.written)
    if encoder is None and settings.encoder == "minilm":
        encoder = MiniLMEncoder(settings.encoder_source)
    return Services(
        settings=settings, metrics=metrics, catalogue=catalogue, audit=Audit(database),
        artifacts=Artifacts(database, clock), gate=Gate(database, clock), listing=Listing(database, clock),
        retriever=Retriever(database, clock, encoder), access=Access(database, clock), encoder=encoder,
    )  # fmt: skip
