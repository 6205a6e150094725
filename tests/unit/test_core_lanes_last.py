"""The lane-last `vmap` against `jax.vmap`: same values, whatever meets what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from solarjax.core.lanes_last import lanes_last

B, N = 6, 5


def operands(seed: int = 0) -> tuple[jax.Array, ...]:
    """Per slot f32 and i32, per lane f32, i32 and bool; lane axis last."""
    rng = np.random.default_rng(seed)
    return (
        jnp.asarray(rng.normal(size=(N, B)), jnp.float32),
        jnp.asarray(rng.integers(-9, 9, (N, B)), jnp.int32),
        jnp.asarray(rng.normal(size=B), jnp.float32),
        jnp.asarray(rng.integers(0, N, B), jnp.int32),
        jnp.asarray(rng.random(B) < 0.5),
    )


SLOT = jnp.arange(N, dtype=jnp.int32)


def halve_until_small(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda c: c[1] > 0.1, lambda c: (c[0] + 1, c[1] / 2), (jnp.int32(0), jnp.abs(x)))[0]


def countdown(x: jax.Array) -> jax.Array:
    """A loop whose condition no lane takes part in."""
    return lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[1] + x), (jnp.int32(3), jnp.zeros(N)))[1]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "scalar selector": lambda a, i, s, j, b: jnp.where(b, a, -a),
    "scalar case": lambda a, i, s, j, b: jnp.where(a > 0, s, a),
    "scalar cases": lambda a, i, s, j, b: jnp.where(a > 0, s, jnp.float32(2)),
    "selector without lanes": lambda a, i, s, j, b: jnp.where(SLOT < 2, a, s),
    "constant meets scalar": lambda a, i, s, j, b: (SLOT == j, SLOT + j, jnp.float32(2) * s),
    "reductions": lambda a, i, s, j, b: (a.sum(), a.max(), i.min(), (a > 0).any(), (i > 0).all(), jnp.argmin(a)),
    "scans along the slots": lambda a, i, s, j, b: (jnp.cumsum(a), lax.cummax(i)),
    "clip": lambda a, i, s, j, b: (jnp.clip(a, s, 1), jnp.clip(a, 0, 1)),
    "outer": lambda a, i, s, j, b: (a[:, None] * a[None] + s, (a[:, None] < a[None]).sum(axis=1)),
    "shapes": lambda a, i, s, j, b: (a.reshape(1, N).T, jnp.stack([s, s]), jnp.concatenate([a, a[1:3]]), a[::2]),
    "gather": lambda a, i, s, j, b: (a[j], SLOT[j], jnp.take(a, i % N)),
    "scatter": lambda a, i, s, j, b: a.at[j].set(s),
    "sort": lambda a, i, s, j, b: (jnp.sort(a), lax.top_k(a, 2)),
    "rank": lambda a, i, s, j, b: jnp.flip(a),
    "product": lambda a, i, s, j, b: jnp.dot(a, a),
    "bits": lambda a, i, s, j, b: ((i << 2) ^ j, i % 3, i // 2, ~b, b & (a > 0)),
    "smooth": lambda a, i, s, j, b: (jnp.exp(-jnp.abs(a) / 3), jnp.sqrt(s * s), a**2, jax.nn.sigmoid(s)),
    "loop": lambda a, i, s, j, b: halve_until_small(s),
    "loop over slots": lambda a, i, s, j, b: jax.vmap(halve_until_small)(a),
    "loop without lanes": lambda a, i, s, j, b: countdown(s),
    "branch": lambda a, i, s, j, b: lax.cond(b, lambda: a + s, lambda: a * 2),
    "nothing per lane": lambda a, i, s, j, b: (SLOT, jnp.float32(1)),
    "jit inside": lambda a, i, s, j, b: jax.jit(lambda x, y: jnp.where(x > y, x, y))(a, s),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_vmap(name: str) -> None:
    args = operands()
    ours = jax.jit(lanes_last(FUNCTIONS[name], B))(*args)
    theirs = jax.jit(jax.vmap(FUNCTIONS[name], in_axes=-1, out_axes=-1, axis_size=B))(*args)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)


def test_lanes_differ() -> None:
    """The comparison above has power: neighbouring lanes have different answers."""
    args = operands()
    for name in ("scalar selector", "reductions", "loop"):
        leaf = jax.tree.leaves(lanes_last(FUNCTIONS[name], B)(*args))[0]
        rows = np.asarray(leaf).reshape(-1, B).T
        assert len(np.unique(rows, axis=0)) > 1, name


def test_lane_axis_stays_behind() -> None:
    """No transposition is left in what policies do all the time."""
    text = str(jax.make_jaxpr(lanes_last(FUNCTIONS["scalar case"], B))(*operands()))
    assert "transpose" not in text
    assert "transpose" in str(jax.make_jaxpr(jax.vmap(FUNCTIONS["scalar case"], in_axes=-1, out_axes=-1))(*operands()))


def test_pytrees_without_leaves() -> None:
    out = lanes_last(lambda state, x: ((), {"a": x}), B)((), jnp.zeros(B))
    assert out[0] == () and out[1]["a"].shape == (B,)
