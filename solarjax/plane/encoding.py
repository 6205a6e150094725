"""The seam to a text encoder. The plane works without one; then search is by words only.

`MiniLMEncoder` is solarjax's own all-MiniLM-L6-v2. It runs on jax, which is imported when the first text is encoded and
not before.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from solarjax.plane.vectors import Embedded

MAX_CHARACTERS = 4000
"""What the encoder reads of a text is at most 256 tokens; more characters than this cannot matter to it."""


class Encoder(Protocol):
    """Texts to unit vectors of one model."""

    def embed(self, texts: Sequence[str]) -> list[Embedded]:
        """One vector a text; may be called from several threads."""
        ...


class MiniLMEncoder:
    """all-MiniLM-L6-v2 through `solarjax.encoders.minilm`.

    Args:
      source: folder or model name; None for the installed one.
    """

    def __init__(self, source: str | Path | None = None):
        self._source = source
        self._lock = threading.Lock()
        self._model: Any = None

    def embed(self, texts: Sequence[str]) -> list[Embedded]:
        """Loads the model on first use.

        Raises:
          EncoderError: if the model or what it needs is not installed.
        """
        # One at a time: compilation is not thread-safe to race for, and a second core gains nothing on short texts.
        with self._lock:
            if self._model is None:
                module = importlib.import_module("solarjax.encoders.minilm")
                self._model = module.MiniLM.load(self._source)
            rows: np.ndarray = self._model.encode([text[:MAX_CHARACTERS] for text in texts])
        return [Embedded(self._model.fingerprint, row) for row in rows]
