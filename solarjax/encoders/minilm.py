"""all-MiniLM-L6-v2: the sentence encoder of the SOLAR experiments, in JAX.

Reference: the model card of sentence-transformers/all-MiniLM-L6-v2 (Reimers and Gurevych, EMNLP 2019; Wang et
al., "MiniLM", NeurIPS 2020): WordPiece, lower case, 256 tokens at most, mean pooling over the attention mask,
unit length.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solarjax.encoders.cache import EmbeddingCache, default_folder, text_key
from solarjax.encoders.weights import EncoderError, fingerprint, load_bert, locate

if TYPE_CHECKING:
    from jax import Array

MAX_TOKENS = 256
"""Longest text in tokens, [CLS] and [SEP] included; the rest of a text is cut off."""
_LENGTHS = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, 256)
"""Padded lengths: each costs one compilation, coarser ones cost padding."""
_TEXTS_PER_WRITE = 1024
_ROWS = 16
"""Rows per device call on a CPU: larger batches fall out of its caches and are slower."""
_ROWS_ACCELERATOR = 128
_PIPELINE = "mean-pooling unit-length v1"


@dataclass(frozen=True)
class MiniLM:
    """A loaded encoder.

    fingerprint: SHA-256 of its files and of everything that decides its output.
    dimensions: D of an embedding.
    """

    fingerprint: str
    dimensions: int
    _tokenizer: Any
    _forward: Callable[[np.ndarray, np.ndarray], Array]

    @classmethod
    def load(cls, source: str | Path | None = None) -> MiniLM:
        """Loads tokenizer and weights.

        Args:
          source: a folder, a model name of the Hugging Face hub, or None for the installed or downloaded
            all-MiniLM-L6-v2 (see `weights.locate`).

        Raises:
          EncoderError: if the files are missing or do not fit, or an optional dependency is not installed.
        """
        return cls._load(locate(source))

    @classmethod
    def _load(cls, folder: Path) -> MiniLM:
        try:
            import jax
            from flax import nnx
            from tokenizers import Tokenizer
        except ImportError as error:
            raise EncoderError(f"the encoder needs {error.name}: pip install solarjax[encoder]") from None
        bert = load_bert(folder)
        graph, state = nnx.split(bert)
        # The weights are an argument: as a constant they would be compiled into the program of every shape.
        apply = jax.jit(lambda state, ids, mask: nnx.merge(graph, state)(ids, mask))
        try:
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the tokenizer library raises bare Exception
            raise EncoderError(f"{folder / 'tokenizer.json'}: not a readable tokenizer: {error}") from None
        # Indexing past the end of a table would silently give some other row.
        for what, needed, rows in (
            ("token ids", tokenizer.get_vocab_size(), bert.words.num_embeddings),
            ("positions", MAX_TOKENS, bert.positions.num_embeddings),
        ):
            if needed > rows:
                raise EncoderError(f"{folder}: the model has {rows} {what}, the tokenizer needs {needed}")
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length=MAX_TOKENS)
        return cls(
            fingerprint=_identity(folder),
            dimensions=bert.words.features,
            _tokenizer=tokenizer,
            _forward=lambda ids, mask: apply(state, ids, mask),
        )

    def encode(self, texts: Sequence[str], batch_size: int | None = None) -> np.ndarray:
        """Embeds texts, without any cache.

        Texts are sorted by length and padded to one of a few lengths, so that there are few compilations and
        little padding. A text's embedding does not depend on its batch beyond float32 rounding (about 1e-6).

        Args:
          texts: n texts; empty ones are allowed.
          batch_size: rows per device call; None for 16 on a CPU and 128 elsewhere.

        Returns:
          `[n, D] f32`, unit rows, in the order of `texts`.

        Raises:
          ValueError: if `batch_size` is less than 1.
          TypeError: if `texts` is a single string or holds anything else.
        """
        _check(texts, batch_size)
        batch_size = batch_size or _default_rows()
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch([_valid(text) for text in texts])]
        result = np.empty((len(texts), self.dimensions), np.float32)
        for rows, size, length in _batches([len(ids) for ids in tokens], batch_size):
            ids = np.zeros((size, length), np.int32)
            mask = np.zeros((size, length), bool)
            for i, row in enumerate(rows):
                ids[i, : len(tokens[row])] = tokens[row]
                mask[i, : len(tokens[row])] = True
            result[rows] = np.asarray(self._forward(ids, mask))[: len(rows)]
        return result


def encode(
    texts: Sequence[str],
    *,
    model: str | Path | None = None,
    batch_size: int | None = None,
    cache: str | Path | bool | None = None,
) -> np.ndarray:
    """Embeds texts, with the embeddings kept on disk between calls.

    Only texts that are not in the cache are encoded, each distinct one once; the network is not even loaded
    if all are there. New embeddings are stored as they come, so that an interrupted run is not lost.

    Args:
      texts: n texts.
      model: see `MiniLM.load`.
      batch_size: rows per device call.
      cache: folder of the cache; None (or True) for `$SOLARJAX_CACHE`, else `~/.cache/solarjax`; False for no
        cache.

    Returns:
      `[n, D] f32`, unit rows (n = 0 gives `[0, D]`).

    Raises:
      EncoderError: if the model cannot be loaded.
      OSError: if the cache folder cannot be used.
      ValueError, TypeError: as `MiniLM.encode`.
    """
    _check(texts, batch_size)
    folder = locate(model)
    identity = _identity(folder)
    if cache is False or not texts:
        return _resident(folder, identity).encode(texts, batch_size)
    store = EmbeddingCache(default_folder() if cache is None or cache is True else Path(cache))
    by_key = {text_key(text): text for text in texts}
    found = store.get(identity, list(by_key))
    # Sorted by length, so that each portion that is stored makes full batches.
    missing = sorted((key for key in by_key if key not in found), key=lambda key: len(by_key[key]))
    for begin in range(0, len(missing), _TEXTS_PER_WRITE):
        keys = missing[begin : begin + _TEXTS_PER_WRITE]
        rows = _resident(folder, identity).encode([by_key[key] for key in keys], batch_size)
        new = dict(zip(keys, rows, strict=True))
        store.put(identity, new)
        found |= new
    return np.stack([found[text_key(text)] for text in texts])


@lru_cache(maxsize=2)
def _resident(folder: Path, identity: str) -> MiniLM:
    """The loaded encoder of a folder, kept: loading and compiling take seconds."""
    del identity  # so that a folder whose files were replaced is loaded anew
    return MiniLM._load(folder)


def _identity(folder: Path) -> str:
    """Fingerprint of a folder's model, recomputed only if a file changed."""
    stamps = []
    for file in sorted(folder.iterdir()):
        if file.is_file():
            status = file.stat()
            stamps.append((file.name, status.st_size, status.st_mtime_ns))
    return _fingerprint(folder, json.dumps(stamps))


@lru_cache(maxsize=8)
def _fingerprint(folder: Path, stamps: str) -> str:
    del stamps  # only tells two states of the folder apart
    return fingerprint(folder, f"tokens={MAX_TOKENS}", _PIPELINE)


def _batches(lengths: Sequence[int], batch_size: int) -> Iterator[tuple[np.ndarray, int, int]]:
    """Row indices of each batch, shortest texts first, with its padded number of rows and padded length."""
    order = np.argsort(lengths, kind="stable")
    for begin in range(0, len(order), batch_size):
        rows = order[begin : begin + batch_size]
        longest = lengths[rows[-1]]
        # A short last batch is padded to a power of two, so that few shapes are compiled.
        size = min(batch_size, 1 << (len(rows) - 1).bit_length())
        yield rows, size, next(length for length in _LENGTHS if length >= longest)


def _valid(text: str) -> str:
    """The text with lone surrogates, which the tokenizer cannot take, replaced by `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _default_rows() -> int:
    import jax

    return _ROWS if jax.default_backend() == "cpu" else _ROWS_ACCELERATOR


def _check(texts: Sequence[str], batch_size: int | None) -> None:
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts must be a sequence of strings, got one {type(texts).__name__}")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts[{i}] must be a string, got {type(text).__name__}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be 1 or more, got {batch_size}")
