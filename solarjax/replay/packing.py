"""A pytree of small arrays as one array of 32-bit words, inside a compiled program.

A call of a compiled program costs some three microseconds for each array that goes in or comes out, whatever its size.
The state of a policy is two dozen arrays of a few hundred numbers, so handing it over as one array is most of the price
of a step. Values are kept exactly: numbers of 32 bits are reinterpreted, smaller integers and booleans widened.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax


class Layout(NamedTuple):
    """Where each leaf lies.

    tree: structure.   shapes, dtypes: of the leaves.   begins: first word of each leaf.   size: words in all.
    """

    tree: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]
    begins: tuple[int, ...]
    size: int


def layout_of(tree: Any) -> Layout:
    """The layout of a pytree of arrays (or of what `jax.eval_shape` gives).

    Raises:
      TypeError: for a leaf of more than 32 bits, or of half precision.
    """
    leaves, structure = jax.tree.flatten(tree)
    begins, size = [], 0
    for leaf in leaves:
        if leaf.dtype.itemsize != 4 and not _widened(leaf.dtype):
            raise TypeError(
                f"a leaf of type {leaf.dtype} cannot be packed; allowed are types of 32 bits, bool, integers"
            )
        begins.append(size)
        size += math.prod(leaf.shape)
    shapes, dtypes = (tuple(getattr(leaf, name) for leaf in leaves) for name in ("shape", "dtype"))
    return Layout(structure, shapes, dtypes, tuple(begins), size)


def pack(layout: Layout, tree: Any) -> Array:
    """`[size] u32` words of a pytree of this layout."""
    return jnp.concatenate([_to_words(leaf) for leaf in jax.tree.leaves(tree)])


def unpack(layout: Layout, words: Array) -> Any:
    """The pytree behind `[size] u32` words."""
    parts = zip(layout.shapes, layout.dtypes, layout.begins, strict=True)
    leaves = [_from_words(words[begin : begin + math.prod(shape)], dtype, shape) for shape, dtype, begin in parts]
    return jax.tree.unflatten(layout.tree, leaves)


def _to_words(leaf: Array) -> Array:
    flat = leaf.reshape(-1)
    return flat.astype(jnp.uint32) if _widened(flat.dtype) else lax.bitcast_convert_type(flat, jnp.uint32)


def _from_words(part: Array, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
    values = part.astype(dtype) if _widened(dtype) else lax.bitcast_convert_type(part, dtype)
    return values.reshape(shape)


def _widened(dtype: np.dtype) -> bool:
    return dtype.itemsize < 4 and dtype.kind in "bui"
