"""Rebuilding what is derived from the versions' content: the text index, and embeddings under a new model."""

from __future__ import annotations

from sqlalchemy import Connection, select, text

from solarjax.plane import tables as t
from solarjax.plane import vectors, versions
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.clock import ALWAYS
from solarjax.plane.encoding import Encoder
from solarjax.plane.textindex import text_index

_PART = 256
_UNINDEXED = text(
    "SELECT v.vid FROM version v WHERE v.vid > :after AND v.tid = :tid AND v.erased_epoch IS NULL AND NOT EXISTS "
    "(SELECT 1 FROM embedding m WHERE m.vid = v.vid AND m.model = :model) ORDER BY v.vid LIMIT :limit"
)


def rebuild_text(connection: Connection) -> None:
    """Fills an empty text index from the versions, in the caller's transaction."""
    index = text_index(connection)
    tids = list(connection.execute(select(t.tenant.c.tid).order_by(t.tenant.c.tid)).scalars())
    for tid in tids:
        index.add_tenant(connection, tid)
        kept = select(t.version.c.vid).where(t.version.c.tid == tid, t.version.c.erased_epoch.is_(None))
        vids = list(connection.execute(kept.order_by(t.version.c.vid)).scalars())
        for part in versions.chunks(vids):
            for vid, capsule in zip(part, versions.load(connection, part, ALWAYS), strict=True):
                index.add(connection, tid, vid, versions.document(capsule))


def embed_missing(catalogue: Catalogue, tenant: str, encoder: Encoder) -> int:
    """Embeds the versions of a tenant that have no vector of the encoder's model, some at a time; returns how many.

    May be stopped and started again: what is done is kept.
    """
    (probe,) = encoder.embed(["model"])
    done, after = 0, 0
    while True:

        def missing(connection: Connection, after: int = after) -> list[tuple[int, str]]:
            state = versions.tenant_state(connection, tenant)
            values = {"tid": state.tid, "after": after, "model": probe.model, "limit": _PART}
            vids = list(connection.execute(_UNINDEXED, values).scalars())
            return [(vid, c.text) for vid, c in zip(vids, versions.load(connection, vids, ALWAYS), strict=True)]

        part = catalogue.database.read(missing)
        if not part:
            return done
        embedded = encoder.embed([content for _, content in part])

        def store(connection: Connection, part=part, embedded=embedded) -> None:
            state = versions.tenant_state(connection, tenant)
            values = {"tid": state.tid, "after": 0, "model": probe.model, "limit": 2**31}
            # Somebody may have embedded, or erased, some of them since they were read.
            still = set(connection.execute(_UNINDEXED, values).scalars())
            for (vid, _), vector in zip(part, embedded, strict=True):
                if vid in still:
                    vectors.put(connection, state.tid, vid, vector)

        catalogue.database.write(store)
        done, after = done + len(part), part[-1][0]
