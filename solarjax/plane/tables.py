"""The schema. A table that has shipped is changed only by a new migration (migrations.py).

Axes of time: `epoch` counts the committed writes of one tenant and orders everything; `valid_*` and `ends_from` are
instants in microseconds (clock.py) and say when a statement holds in the world.

Versions are never updated (but for erasure of their content). What ends one is a row in `ending`: "from this epoch on,
`vid` does not hold at instants >= ends_from". A version may have several, each stronger (earlier) than the last.
Every reference carries the tenant, so an edge between two tenants cannot be written at all.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData()
# SQLite numbers rows only in a column declared exactly INTEGER.
Key = BigInteger().with_variant(Integer, "sqlite")

tenant = Table(
    "tenant",
    METADATA,
    Column("tid", Key, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, unique=True),
    Column("epoch", BigInteger, nullable=False),
    Column("floor_epoch", BigInteger, nullable=False),  # admissions before it are void: a backup was restored
    Column("purge_epoch", BigInteger, nullable=False),  # counts erasures; part of the tenant's cache salt
    Column("created_at", BigInteger, nullable=False),
)
version = Table(
    "version",
    METADATA,
    Column("vid", Key, primary_key=True, autoincrement=True),
    Column("tid", BigInteger, nullable=False),
    Column("capsule", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("summary", Text),
    Column("detail", Text, nullable=False),  # JSON: entities, facts, provenance, stability
    Column("sha256", Text, nullable=False),
    Column("valid_from", BigInteger, nullable=False),
    Column("valid_to", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("erased_epoch", BigInteger),
    UniqueConstraint("tid", "capsule", "number"),
    UniqueConstraint("tid", "vid"),
    ForeignKeyConstraint(["tid"], ["tenant.tid"]),
    # Covering: what decides about a window is read without touching the rows, which hold the texts.
    Index("version_windows", "tid", "capsule", "number", "valid_from", "valid_to", "epoch", "vid"),
    sqlite_autoincrement=True,
)
ending = Table(
    "ending",
    METADATA,
    Column("vid", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("tid", BigInteger, nullable=False),
    Column("ends_from", BigInteger, nullable=False),
    Column("cause", Text, nullable=False),  # corrected, superseded, expired, deleted; derived = by cascade
    PrimaryKeyConstraint("vid", "epoch"),
    ForeignKeyConstraint(["tid", "vid"], ["version.tid", "version.vid"]),
    Index("ending_by_epoch", "tid", "epoch"),
)
edge = Table(
    "edge",
    METADATA,
    Column("source", BigInteger, nullable=False),
    Column("derived", BigInteger, nullable=False),
    Column("tid", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    PrimaryKeyConstraint("source", "derived"),
    ForeignKeyConstraint(["tid", "source"], ["version.tid", "version.vid"]),
    ForeignKeyConstraint(["tid", "derived"], ["version.tid", "version.vid"]),
    Index("edge_by_derived", "derived"),
)
entity = Table(
    "entity",
    METADATA,
    Column("tid", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("vid", BigInteger, nullable=False),
    PrimaryKeyConstraint("tid", "name", "vid"),
    ForeignKeyConstraint(["tid", "vid"], ["version.tid", "version.vid"]),
    Index("entity_by_version", "vid"),
)
artifact = Table(
    "artifact",
    METADATA,
    Column("aid", Key, primary_key=True, autoincrement=True),
    Column("tid", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("locator", Text, nullable=False),  # JSON, see artifacts.py
    Column("epoch", BigInteger, nullable=False),
    UniqueConstraint("tid", "aid"),
    ForeignKeyConstraint(["tid"], ["tenant.tid"]),
    sqlite_autoincrement=True,
)
artifact_source = Table(
    "artifact_source",
    METADATA,
    Column("vid", BigInteger, nullable=False),
    Column("aid", BigInteger, nullable=False),
    Column("tid", BigInteger, nullable=False),
    PrimaryKeyConstraint("vid", "aid"),
    ForeignKeyConstraint(["tid", "vid"], ["version.tid", "version.vid"]),
    ForeignKeyConstraint(["tid", "aid"], ["artifact.tid", "artifact.aid"]),
    Index("artifact_source_by_artifact", "aid"),
)
embedding = Table(
    "embedding",
    METADATA,
    Column("eid", Key, primary_key=True, autoincrement=True),
    Column("tid", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("vid", BigInteger, nullable=False),
    Column("vector", LargeBinary, nullable=False),  # little-endian float32, unit length
    UniqueConstraint("vid", "model"),
    ForeignKeyConstraint(["tid", "vid"], ["version.tid", "version.vid"]),
    Index("embedding_by_model", "tid", "model", "eid"),
    sqlite_autoincrement=True,
)
event = Table(
    "event",
    METADATA,
    Column("tid", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("operation", Text, nullable=False),
    Column("capsule", Text),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("result", Text, nullable=False),  # JSON, see results.py
    PrimaryKeyConstraint("tid", "epoch"),
    ForeignKeyConstraint(["tid"], ["tenant.tid"]),
    Index("event_by_capsule", "tid", "capsule", "epoch"),
)
idempotency = Table(
    "idempotency",
    METADATA,
    Column("tid", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("request_sha256", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    PrimaryKeyConstraint("tid", "key"),
    ForeignKeyConstraint(["tid", "epoch"], ["event.tid", "event.epoch"]),
)
token = Table(
    "token",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tid", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 of the secret
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
    ForeignKeyConstraint(["tid"], ["tenant.tid"]),
)
