"""Locators of reusable compute: what was computed from which versions, and where an engine finds it.

An artifact is safe to reuse while every version it was made from holds. That is never stored as a flag: it is read from
the versions, so no cascade can forget one.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from solarjax.plane.capsules import Hash64, Label, Strict, Text, VersionRef

Dtype = Literal["float32", "float16", "bfloat16", "float8"]


class EmbeddingLocator(Strict):
    """An embedding kept outside the catalogue. Those made by the plane's own encoder need no locator."""

    kind: Literal["embedding"] = "embedding"
    model: Label
    dimensions: Annotated[int, Field(ge=1, le=65_536)]
    uri: Annotated[Text, Field(min_length=1, max_length=2000)]


class KvSegmentLocator(Strict):
    """A prefix of KV blocks in the address space of one kind of engine.

    Blocks are content-addressed: each hash covers the salt and all tokens up to its block, so the chain names the
    segment on every node with the same model, tokenizer, block size, hash algorithm and salt. Which node holds it is
    not stored
    here: residency is a routing hint that belongs to the node registry.
    """

    kind: Literal["kv_segment"] = "kv_segment"
    model: Label
    tokenizer: Label
    block_size: Annotated[int, Field(ge=1, le=4096)]
    hash_algorithm: Label = "sha256_cbor"
    salt: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:\-]{0,128}$")] = ""
    block_hashes: Annotated[tuple[Hash64, ...], Field(min_length=1, max_length=8192)]

    @property
    def tokens(self) -> int:
        """Prompt tokens covered: whole blocks only."""
        return len(self.block_hashes) * self.block_size

    @property
    def compatibility(self) -> tuple[str, str, int, str, str]:
        """What must be equal on a node for the hashes to mean the same."""
        return self.model, self.tokenizer, self.block_size, self.hash_algorithm, self.salt


class LayerCheckpointLocator(Strict):
    """Hidden states at a layer frontier. A contract for engines to come: it is stored and invalidated like the others,
    and replaying it is refused, never silently downgraded."""

    kind: Literal["layer_checkpoint"] = "layer_checkpoint"
    model: Label
    layer: Annotated[int, Field(ge=0, le=10_000)]
    dtype: Dtype
    tokens: Annotated[int, Field(ge=1, le=10_000_000)]
    uri: Annotated[Text, Field(min_length=1, max_length=2000)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


Locator = Annotated[EmbeddingLocator | KvSegmentLocator | LayerCheckpointLocator, Field(discriminator="kind")]


class ArtifactDraft(Strict):
    """A locator and the versions it was computed from; at least one."""

    locator: Locator
    made_from: Annotated[tuple[VersionRef, ...], Field(min_length=1, max_length=256)]


class Artifact(BaseModel):
    """A stored artifact. `reusable` is derived from the versions at the time of reading."""

    id: int
    locator: Locator
    made_from: tuple[VersionRef, ...]
    recorded_epoch: int
    reusable: bool
