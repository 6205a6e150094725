"""What the DialSim corpora hold without their questions: sizes, sessions, repeats. No embedding, no policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from solarjax.traces import dialsim

ROOT = Path(__file__).resolve().parents[2]

COUNTS = ("sessions", "utterances", "speakers", "empty_utterances", "repeated_texts", "words_per_utterance")


def measure(config: Mapping[str, Any]) -> xr.Dataset:
    """Counts per corpus, `[corpus]` each.

    Args:
      config: `files`, a list of `{"path", "sha256"}`, paths from the checkout.

    Raises:
      TraceError: a file is no DialSim corpus.
    """
    names, lines = [], []
    for file in config["files"]:
        for conversation in dialsim.load(ROOT / file["path"]):
            texts = [turn.text.strip() for turn in conversation.turns]
            full = [text for text in texts if text]
            names.append(conversation.name)
            lines.append(
                [
                    len(conversation.sessions),
                    len(texts),
                    len({turn.speaker for turn in conversation.turns}),
                    len(texts) - len(full),
                    len(full) - len(set(full)),
                    float(np.mean([len(text.split()) for text in full])),
                ]
            )
    values = np.asarray(lines, np.float64)
    return xr.Dataset({n: ("corpus", values[:, i]) for i, n in enumerate(COUNTS)}, {"corpus": names})
