"""BERT encoder in Flax nnx, for inference: token ids to sentence embeddings.

Reference: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", NAACL 2019; sentence
embedding by mean pooling as Reimers and Gurevych, "Sentence-BERT", EMNLP 2019. No dropout and no pooler
layer: neither takes part.

Axes: B texts, L padded length, H hidden size, A heads, I intermediate size.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

PRECISION = jax.lax.Precision.HIGHEST
"""Full float32 products on every device: on accelerators the default would round to fewer bits."""


@dataclass(frozen=True)
class BertConfig:
    """Sizes of a BERT encoder; the names are those of a Hugging Face `config.json`."""

    vocab_size: int = 30522
    hidden_size: int = 384
    num_hidden_layers: int = 6
    num_attention_heads: int = 12
    intermediate_size: int = 1536
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12


class SelfAttention(nnx.Module):
    """Multi-head attention of each text over its own tokens."""

    def __init__(self, config: BertConfig, rngs: nnx.Rngs):
        self.heads = config.num_attention_heads
        self.query = _linear(config.hidden_size, config.hidden_size, rngs)
        self.key = _linear(config.hidden_size, config.hidden_size, rngs)
        self.value = _linear(config.hidden_size, config.hidden_size, rngs)
        self.output = _linear(config.hidden_size, config.hidden_size, rngs)

    def __call__(self, x: Array, mask: Array) -> Array:
        """`[B, L, H] f32` and `[B, L] bool` (True for tokens) to `[B, L, H] f32`."""
        shape = (*x.shape[:2], self.heads, x.shape[2] // self.heads)
        query, key, value = (f(x).reshape(shape) for f in (self.query, self.key, self.value))
        scores = jnp.einsum("bqad,bkad->baqk", query, key, precision=PRECISION) / shape[3] ** 0.5
        # The lowest float instead of -inf keeps a row without any token finite.
        scores = jnp.where(mask[:, None, None, :], scores, jnp.finfo(scores.dtype).min)
        weights = jax.nn.softmax(scores, axis=-1)
        mixed = jnp.einsum("baqk,bkad->bqad", weights, value, precision=PRECISION)
        return self.output(mixed.reshape(x.shape))


class Layer(nnx.Module):
    """One transformer layer: attention, then a perceptron with exact GELU; LayerNorm after each sum."""

    def __init__(self, config: BertConfig, rngs: nnx.Rngs):
        self.attention = SelfAttention(config, rngs)
        self.attention_norm = _norm(config, rngs)
        self.intermediate = _linear(config.hidden_size, config.intermediate_size, rngs)
        self.output = _linear(config.intermediate_size, config.hidden_size, rngs)
        self.output_norm = _norm(config, rngs)

    def __call__(self, x: Array, mask: Array) -> Array:
        """`[B, L, H] f32` to `[B, L, H] f32`."""
        x = self.attention_norm(x + self.attention(x, mask))
        return self.output_norm(x + self.output(_gelu(self.intermediate(x))))


class Bert(nnx.Module):
    """Embeddings and layers; a call returns one unit vector per text."""

    def __init__(self, config: BertConfig, rngs: nnx.Rngs):
        size = config.hidden_size
        self.words = nnx.Embed(config.vocab_size, size, rngs=rngs)
        self.positions = nnx.Embed(config.max_position_embeddings, size, rngs=rngs)
        self.segments = nnx.Embed(config.type_vocab_size, size, rngs=rngs)
        self.norm = _norm(config, rngs)
        self.layers = _stack(config, rngs)

    def __call__(self, ids: Array, mask: Array) -> Array:
        """Embeds texts.

        Args:
          ids: `[B, L] i32` token ids, 0-padded at the end; a text is one segment.
          mask: `[B, L] bool`, True for tokens, special tokens included. A row without any gives zeros.

        Returns:
          `[B, H] f32`, the mean of the last layer over the tokens, normalised to length 1.
        """
        place = self.positions(jnp.arange(ids.shape[1], dtype=jnp.int32))
        segment = self.segments(jnp.zeros(1, jnp.int32))
        x = self.norm(self.words(ids) + (place + segment)[None])
        x = _apply_stack(x, self.layers, mask)
        weight = mask.astype(x.dtype)[:, :, None]
        total = jnp.sum(x * weight, axis=1)
        mean = total / jnp.maximum(jnp.sum(weight, axis=1), 1)
        return mean / jnp.maximum(jnp.linalg.norm(mean, axis=1, keepdims=True), 1e-12)


def _stack(config: BertConfig, rngs: nnx.Rngs) -> Layer:
    """All layers as one module whose parameters have a leading layer axis.

    Applied by `_apply_stack` in a scan, so the program holds one layer and compiles several times faster: an
    encoder compiles once per padded length.
    """
    count = config.num_hidden_layers
    make = nnx.split_rngs(splits=count)(nnx.vmap(lambda keys: Layer(config, keys), in_axes=0, out_axes=0))
    return make(rngs)


@nnx.scan(in_axes=(nnx.Carry, 0, None), out_axes=nnx.Carry)
def _apply_stack(x: Array, layer: Layer, mask: Array) -> Array:
    return layer(x, mask)


def _gelu(x: Array) -> Array:
    """Exact GELU by erf, as BERT defines it; `jax.nn.gelu` takes erfc, which costs more on CPUs."""
    return 0.5 * x * (1 + jax.lax.erf(x * 0.5**0.5))


def _linear(inputs: int, outputs: int, rngs: nnx.Rngs) -> nnx.Linear:
    return nnx.Linear(inputs, outputs, precision=PRECISION, rngs=rngs)


def _norm(config: BertConfig, rngs: nnx.Rngs) -> nnx.LayerNorm:
    # Two-pass variance: the fast formula E[x^2] - E[x]^2 loses digits.
    return nnx.LayerNorm(config.hidden_size, epsilon=config.layer_norm_eps, use_fast_variance=False, rngs=rngs)
