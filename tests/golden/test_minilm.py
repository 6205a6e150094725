"""all-MiniLM-L6-v2 against the embeddings of sentence-transformers (PyTorch), text by text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from solarjax.encoders.minilm import MiniLM

pytestmark = pytest.mark.golden


@pytest.fixture(scope="module")
def texts(shared_golden: Path) -> list[str]:
    return json.loads((shared_golden / "minilm_texts.json").read_text(encoding="utf-8"))["texts"]


@pytest.fixture(scope="module")
def reference(shared_golden: Path) -> np.ndarray:
    with np.load(shared_golden / "minilm_reference.npz") as file:
        return file["embeddings"]


@pytest.fixture(scope="module")
def encoder() -> MiniLM:
    return MiniLM.load()


@pytest.fixture(scope="module")
def found(encoder: MiniLM, texts: list[str]) -> np.ndarray:
    return encoder.encode(texts)


def test_every_embedding_agrees_with_sentence_transformers(
    found: np.ndarray, reference: np.ndarray, texts: list[str]
) -> None:
    assert found.shape == reference.shape == (149, 384) and found.dtype == np.float32
    cosine = np.sum(found.astype(np.float64) * reference, axis=1) / np.linalg.norm(reference, axis=1)
    worst = int(np.argmin(cosine))
    assert cosine[worst] > 0.99999, (texts[worst], cosine[worst])
    np.testing.assert_allclose(found, reference, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    # Not because all are alike: different texts lie far apart.
    others = np.sort(found @ reference.T, axis=1)[:, : len(texts) // 2]
    assert np.median(others) < 0.3


def test_embedding_does_not_depend_on_the_batch(encoder: MiniLM, found: np.ndarray, texts: list[str]) -> None:
    """Other neighbours, another batch size, another padded length: the same vectors to 1e-5."""
    short = sorted(range(len(texts)), key=lambda i: len(texts[i]))[::8]
    longest = max(range(len(texts)), key=lambda i: len(texts[i]))
    rows = [longest, *short[::-1]]
    again = encoder.encode([texts[i] for i in rows], batch_size=32)
    np.testing.assert_allclose(again, found[rows], atol=1e-5)
