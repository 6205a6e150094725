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
from collections.abc import Callable, Sequence
from typing import Any

import cbor2

from solarjax.plane.errors import Invalid

SEED = "vllm-none-hash"
_LOW = (1 << 64) - 1


def _cbor(value: Any) -> bytes:
    return hashlib.sha256(cbor2.dumps(value, canonical=True)).digest()


def _pickle(value: Any) -> bytes:
    return hashlib.sha256(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)).digest()


ALGORITHMS: dict[str, Callable[[Any], bytes]] = {"sha256_cbor": _cbor, "sha256": _pickle}


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

    def chain(self, tokens: Sequence[int], salt: str | None) -> list[int]:
        """64-bit names of all full blocks of a prompt, first block first.

        Args:
          tokens: ids of the whole prompt.
          salt: `cache_salt` of the request; None if it has none.
        """
        names = []
        parent = self._none
        extra: tuple[tuple[str, str], ...] | None = None if salt is None else (("cache_salt", salt),)
        for begin in range(0, len(tokens) - self.block_size + 1, self.block_size):
            parent = self._digest((parent, tuple(tokens[begin : begin + self.block_size]), extra))
            names.append(int.from_bytes(parent[-8:], "big"))
            extra = None
        return names

    def reusable(self, prompt_tokens: int) -> int:
        """Blocks of a prompt that a hit may cover: the engine always computes the last token itself."""
        return max(prompt_tokens - 1, 0) // self.block_size
