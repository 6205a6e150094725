"""`vmap` that keeps the lane axis last.

`jax.vmap(..., in_axes=-1, out_axes=-1)` computes the right values, but whenever a per-lane scalar meets a per-slot
array (`jnp.where(retrieved, t, last_used)`) its batching rule moves the lane axis to the front. On a CPU every such
step then costs transposed copies and reductions along the short axis. Here the one-lane function is traced once and
its operations are replayed on `[..., B]` arrays; what has no rule below goes through `jax.vmap`. The values are those
of `jax.vmap`; sums of float32 may be added in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend import core as jex

ELEMENTWISE = frozenset(
    """abs add and atan2 clamp convert_element_type ceil cos div eq erf erf_inv exp exp2 floor ge gt integer_pow
    is_finite le log log1p logistic lt max min mul ne neg not or pow rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sqrt square stop_gradient sub tan tanh xor copy""".split()
)
"""Primitives that work element by element, with every operand of one shape or a scalar."""
ALONG_AXES = frozenset(
    """reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or argmin argmax
    cumsum cummax cummin cumprod""".split()
)
"""Primitives whose axis numbers, counted from the front, are the same with a lane axis behind."""
CALLS = frozenset("jit pjit closed_call core_call custom_jvp_call custom_vjp_call".split())


class Value(NamedTuple):
    """An operand: `array`, with a lane axis behind if `batched`."""

    array: Any
    batched: bool


def lanes_last(fn: Callable[..., Any], size: int) -> Callable[..., Any]:
    """`jax.vmap(fn, in_axes=-1, out_axes=-1, axis_size=size)`, lane axis last throughout.

    Args:
      fn: one-lane function of pytrees of arrays.
      size: B.

    Returns:
      A function of the same pytrees with a last axis of length B on every leaf.
    """

    def mapped(*args: Any) -> Any:
        leaves, tree = jax.tree.flatten(args)
        one = [jax.ShapeDtypeStruct(x.shape[:-1], x.dtype) for x in leaves]
        closed, shapes = jax.make_jaxpr(lambda *flat: fn(*jax.tree.unflatten(tree, flat)), return_shape=True)(*one)
        values = _run(closed.jaxpr, closed.consts, [Value(x, True) for x in leaves], size)
        return jax.tree.unflatten(jax.tree.structure(shapes), [_spread(v, size) for v in values])

    return mapped


def _spread(value: Value, size: int) -> Array:
    """The operand with its lane axis."""
    if value.batched:
        return value.array
    array = jnp.asarray(value.array)
    return lax.broadcast_in_dim(array, (*array.shape, size), tuple(range(array.ndim)))


def _run(jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Value], size: int) -> list[Value]:
    """Replays `jaxpr` on lane-last operands."""
    env: dict[Any, Value] = {}

    def read(atom: Any) -> Value:
        return Value(atom.val, False) if isinstance(atom, jex.Literal) else env[atom]

    env.update(zip(jaxpr.constvars, (Value(c, False) for c in consts), strict=True))
    env.update(zip(jaxpr.invars, inputs, strict=True))
    for eqn in jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        outputs = _apply(jaxpr, eqn, operands, size)
        env.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(jaxpr: Any, eqn: Any, operands: list[Value], size: int) -> list[Value]:
    name, params = eqn.primitive.name, eqn.params
    if name in CALLS:
        inner = params.get("jaxpr") or params.get("call_jaxpr")
        body, consts = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
        return _run(body, consts, operands, size)
    if not any(v.batched for v in operands):
        return _plain(jaxpr, eqn, operands)
    if name == "while":
        return _while(eqn, operands, size)
    own = eqn.outvars[0].aval.shape
    rank, first = len(own), operands[0].array
    if name in ELEMENTWISE:
        return [Value(eqn.primitive.bind(*_aligned(operands, own, name, size), **params), True)]
    if name in ALONG_AXES:
        return [Value(eqn.primitive.bind(first, **params), True)]
    if name == "broadcast_in_dim":
        shape, dims = params["shape"], params["broadcast_dimensions"]
        return [Value(lax.broadcast_in_dim(first, (*shape, size), (*dims, rank)), True)]
    if name == "reshape" and params.get("dimensions") is None:
        return [Value(lax.reshape(first, (*params["new_sizes"], size)), True)]
    if name == "squeeze":
        return [Value(lax.squeeze(first, params["dimensions"]), True)]
    if name == "transpose":
        return [Value(lax.transpose(first, (*params["permutation"], rank)), True)]
    if name == "slice":
        strides = params["strides"]
        start, limit = (*params["start_indices"], 0), (*params["limit_indices"], size)
        return [Value(lax.slice(first, start, limit, None if strides is None else (*strides, 1)), True)]
    if name == "concatenate":
        parts = [_spread(v, size) for v in operands]
        return [Value(lax.concatenate(parts, params["dimension"]), True)]
    return _vmapped(jaxpr, eqn, operands, size)


def _aligned(operands: list[Value], shape: tuple[int, ...], name: str, size: int) -> list[Any]:
    """Operands of one `shape` per lane; those without lanes stay scalars where the primitive allows it."""
    out = []
    for number, (array, batched) in enumerate(operands):
        # A selector must have the shape of the cases, or be one scalar for everything.
        if not batched and jnp.ndim(array) == 0 and not (name == "select_n" and number > 0):
            out.append(array)
        elif not batched:
            out.append(_spread(Value(jnp.broadcast_to(array, shape), False), size))
        elif array.ndim <= len(shape):
            out.append(lax.broadcast_in_dim(array, (*shape, size), (len(shape),)))
        else:
            out.append(array)
    return out


def _alone(jaxpr: Any, eqn: Any) -> tuple[Callable[..., Sequence[Array]], list[int], list[int]]:
    """The operation as a function, which operands it takes (literals are inside), which outputs it returns."""
    inputs = [i for i, atom in enumerate(eqn.invars) if not isinstance(atom, jex.Literal)]
    variables = list(dict.fromkeys(eqn.invars[i] for i in inputs))
    inputs = [next(i for i in inputs if eqn.invars[i] is v) for v in variables]
    outputs = [i for i, v in enumerate(eqn.outvars) if type(v).__name__ != "DropVar"]
    results = [eqn.outvars[i] for i in outputs]
    only = jaxpr.replace(constvars=[], invars=variables, outvars=results, eqns=[eqn], effects=eqn.effects)
    return jex.jaxpr_as_fun(jex.ClosedJaxpr(only, [])), inputs, outputs


def _plain(jaxpr: Any, eqn: Any, operands: list[Value]) -> list[Value]:
    """An operation that no lane takes part in."""
    fn, inputs, outputs = _alone(jaxpr, eqn)
    results = dict(zip(outputs, fn(*[operands[i].array for i in inputs]), strict=True))
    return [Value(results.get(i), False) for i in range(len(eqn.outvars))]


def _vmapped(jaxpr: Any, eqn: Any, operands: list[Value], size: int) -> list[Value]:
    """An operation without a rule of its own."""
    fn, inputs, outputs = _alone(jaxpr, eqn)
    axes = [-1 if operands[i].batched else None for i in inputs]
    mapped = jax.vmap(fn, in_axes=axes, out_axes=-1, axis_size=size)
    results = dict(zip(outputs, mapped(*[operands[i].array for i in inputs]), strict=True))
    return [Value(results.get(i), True) for i in range(len(eqn.outvars))]


def _while(eqn: Any, operands: list[Value], size: int) -> list[Value]:
    """A loop runs until every lane is done; a lane that is done keeps its carry."""
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    split = eqn.params["cond_nconsts"]
    start = split + eqn.params["body_nconsts"]
    cond_consts, body_consts, carry = operands[:split], operands[split:start], operands[start:]
    init = [_spread(v, size) for v in carry]

    def test(arrays: list[Array]) -> Value:
        return _run(cond.jaxpr, cond.consts, [*cond_consts, *(Value(x, True) for x in arrays)], size)[0]

    def turn(arrays: list[Array]) -> list[Array]:
        going = _spread(test(arrays), size)
        new = _run(body.jaxpr, body.consts, [*body_consts, *(Value(x, True) for x in arrays)], size)
        moved = [_spread(v, size) for v in new]
        return [jnp.where(going, x, old) for x, old in zip(moved, arrays, strict=True)]

    return [Value(x, True) for x in lax.while_loop(lambda arrays: _spread(test(arrays), size).any(), turn, init)]
