"""KV events as vLLM publishes them: msgpack `[timestamp, [event, ...], data-parallel rank]`.

Events are maps with a `type`; fields that the plane does not use are left undecoded. Block hashes are 64-bit integers,
or whole digests as bytes on engines that are configured so: their last 8 bytes are the same number.
"""

from __future__ import annotations

from typing import Any

import msgspec

from solarjax.plane.errors import Invalid


def _names(blocks: list[int | bytes]) -> list[int]:
    return [int.from_bytes(b[-8:], "big") if isinstance(b, bytes) else b & 0xFFFF_FFFF_FFFF_FFFF for b in blocks]


class BlockStored(msgspec.Struct, tag_field="type", tag="BlockStored"):
    """Blocks became reusable. `token_ids` are deliberately not decoded: the plane has no use for prompts."""

    block_hashes: list[int | bytes]
    medium: str | None = None
    group_idx: int | None = None

    def names(self) -> list[int]:
        """64-bit names of the blocks."""
        return _names(self.block_hashes)


class BlockRemoved(msgspec.Struct, tag_field="type", tag="BlockRemoved"):
    """Blocks were evicted."""

    block_hashes: list[int | bytes]
    medium: str | None = None
    group_idx: int | None = None

    def names(self) -> list[int]:
        """64-bit names of the blocks."""
        return _names(self.block_hashes)


class Cleared(msgspec.Struct, tag_field="type", tag="AllBlocksCleared"):
    """The whole cache was dropped."""


Event = BlockStored | BlockRemoved | Cleared


class Batch(msgspec.Struct, array_like=True):
    """What one message carries. `rank` is missing on engines without data parallelism."""

    timestamp: float
    events: list[msgspec.Raw]
    rank: int | None = None


_BATCH = msgspec.msgpack.Decoder(Batch)
_EVENT = msgspec.msgpack.Decoder(Event)
_TYPE = msgspec.msgpack.Decoder(dict[str, Any])
_KNOWN = frozenset({"BlockStored", "BlockRemoved", "AllBlocksCleared"})


def timestamp(payload: bytes) -> float:
    """When the engine made a message, in its own seconds; raises as `decode`."""
    try:
        return _BATCH.decode(payload).timestamp
    except msgspec.MsgspecError as error:
        raise Invalid(f"not a batch of KV events: {error}") from None


def decode(payload: bytes) -> list[Event]:
    """The events of a message. Kinds of events that later engines may add are passed over.

    Raises:
      Invalid: if it is not such a message.
    """
    try:
        found: list[Event] = []
        for raw in _BATCH.decode(payload).events:
            try:
                found.append(_EVENT.decode(raw))
            except msgspec.ValidationError:
                if _TYPE.decode(raw).get("type") in _KNOWN:
                    raise
        return found
    except msgspec.MsgspecError as error:
        raise Invalid(f"not a batch of KV events: {error}") from None
