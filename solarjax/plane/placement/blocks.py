"""Names of KV blocks, computed as the engine does it, so that a prompt's blocks are known before it is sent.

vLLM names a full block of tokens by a digest that covers everything before it:

    none  = H(seed)                                  seed "vllm-none-hash" unless PYTHONHASHSEED is set on the server
    h_i   = H((h_{i-1}, tokens of block i, extra))   extra = (("cache_salt", salt),) for the first block, else None

H is SHA-256 over canonical CBOR (`--prefix-caching-hash-algo sha256_cbor`) or over a pickle (`sha256`, its default).
KV events carry the low 64 bits. Source: behaviour of vLLM 0.32 (placemem-notes.md, section 2); tests/vllm compares
predictions with the `cached_tokens` a real engine reports.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cbor2

from solarjax.plane.errors import Invalid

SEED = "vllm-none-hash"
_LOW = (1 << 64) - 1
_KEPT = 256
"""Prompts remembered by how they begin. Prompts with the same capsules begin alike, and most of a chain is theirs."""


def _cbor(value: Any) -> bytes:
    return hashlib.sha256(cbor2.dumps(value, canonical=True)).digest()


def _pickle(value: Any) -> bytes:
    return hashlib.sha256(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)).digest()


ALGORITHMS: dict[str, Callable[[Any], bytes]] = {"sha256_cbor": _cbor, "sha256": _pickle}


class _Chained(NamedTuple):
    """A prompt whose blocks were named: its tokens, and name and whole digest of each block."""

    salt: str | None
    tokens: tuple[int, ...]
    names: list[int]
    parents: list[bytes]


class BlockHasher:
    """Hash chains for one kind of node.

    Args:
      algorithm: the engine's `--prefix-caching-hash-algo`: sha256_cbor or sha256.
      block_size: tokens per block.
      seed: the engine's PYTHONHASHSEED, if it is set there.

    Raises:
      Invalid: for an algorithm that a client cannot compute, or a block size below 1.
    """

    def __init__(self, algorithm: str, block_size: int, seed: str = SEED):
        if algorithm not in ALGORITHMS:
            raise Invalid(f"hash algorithm {algorithm!r}; allowed are {', '.join(ALGORITHMS)}", "hash_algorithm")
        if block_size < 1:
            raise Invalid(f"block size {block_size}; it must be at least 1", "block_size")
        self.algorithm = algorithm
        self.block_size = block_size
        self._digest = ALGORITHMS[algorithm]
        self._none = self._digest(seed)
        self._latest: OrderedDict[tuple[Any, ...], _Chained] = OrderedDict()

    def chain(self, tokens: Sequence[int], salt: str | None) -> list[int]:
        """64-bit names of all full blocks of a prompt, first block first.

        Args:
          tokens: ids of the whole prompt.
          salt: `cache_salt` of the request; None if it has none.
        """
        size, blocks = self.block_size, len(tokens) // self.block_size
        known, same = self._like(tokens, salt)
        names = known.names[:same] if known is not None else []
        parents = known.parents[:same] if known is not None else []
        parent = parents[-1] if parents else self._none
        for begin in range(same * size, blocks * size, size):
            extra = (("cache_salt", salt),) if begin == 0 and salt is not None else None
            parent = self._digest((parent, tuple(tokens[begin : begin + size]), extra))
            parents.append(parent)
            names.append(int.from_bytes(parent[-8:], "big"))
        if blocks:
            self._keep(_Chained(salt, tuple(tokens[: blocks * size]), names, parents))
        return list(names)

    def _like(self, tokens: Sequence[int], salt: str | None) -> tuple[_Chained | None, int]:
        """The latest prompt with the same beginning, and how many leading blocks it shares with this one."""
        size = self.block_size
        known = self._latest.get((salt, tuple(tokens[:size])))
        if known is None:
            return None, 0
        # A name covers all before it, so it may be taken over as far as every token is the same, and no further.
        low, high = 0, min(len(tokens), len(known.tokens)) // size
        whole = tuple(tokens[: high * size])
        while low < high:
            middle = (low + high + 1) // 2
            if whole[: middle * size] == known.tokens[: middle * size]:
                low = middle
            else:
                high = middle - 1
        return known, low

    def _keep(self, chained: _Chained) -> None:
        key = (chained.salt, chained.tokens[: self.block_size])
        self._latest[key] = chained
        self._latest.move_to_end(key)
        if len(self._latest) > _KEPT:
            self._latest.popitem(last=False)

    def reusable(self, prompt_tokens: int) -> int:
        """Blocks of a prompt that a hit may cover: the engine always computes the last token itself."""
        return max(prompt_tokens - 1, 0) // self.block_size
