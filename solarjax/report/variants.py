"""Grid axes folded into the policy axis, so that every table and curve has plain policies as rows."""

from __future__ import annotations

import itertools

import numpy as np
import xarray as xr

AXES = ("trace", "policy", "capacity", "seed")


def grid_axes(data: xr.Dataset) -> tuple[str, ...]:
    """The hyper-parameter axes of a result: what `hit_rate` has beyond trace, policy, capacity and seed."""
    return tuple(str(d) for d in data["hit_rate"].dims if d not in AXES)


def fold_grid(data: xr.Dataset) -> xr.Dataset:
    """Each grid point of a policy becomes a policy of its own, labelled `solar · lam=5`.

    A policy that no grid axis moves (every measure equal at all points, as FIFO's) stays one row, label
    unchanged.
    A dataset without grid axes is returned as it is.
    """
    axes = grid_axes(data)
    if not axes:
        return data
    policies = [str(name) for name in data["policy"].values]
    parts = []
    for at, policy in enumerate(policies):
        one = data.isel(policy=at, drop=True)
        first = one.isel(dict.fromkeys(axes, 0), drop=True)
        fixed = all(_constant(one[name], axes) for name in one.data_vars)
        choices = [()] if fixed else list(itertools.product(*(range(one.sizes[a]) for a in axes)))
        for choice in choices:
            chosen = first if fixed else one.isel(dict(zip(axes, choice, strict=True)), drop=True)
            values = (f"{a}={data[a].values[i]:g}" for a, i in zip(axes, choice, strict=bool(choice)))
            label = policy if fixed else f"{policy} · {', '.join(values)}"
            parts.append(chosen.expand_dims(policy=[label]))
    alike = [name for name in data.data_vars if "policy" not in data[name].dims]
    out = xr.concat([p.drop_vars(alike) for p in parts], "policy", join="exact", combine_attrs="override")
    out = out.assign({name: data[name] for name in alike})
    for name, variable in data.data_vars.items():
        order = [d for d in variable.dims if d not in axes]
        out[name] = out[name].transpose(*order).assign_attrs(variable.attrs)
    return out.assign_attrs(data.attrs)


def _constant(data: xr.DataArray, axes: tuple[str, ...]) -> bool:
    there = [a for a in axes if a in data.dims]
    first = data.isel(dict.fromkeys(there, 0), drop=True)
    same, _ = xr.broadcast(first, data)
    return bool(np.array_equal(same.transpose(*data.dims).values, data.values, equal_nan=data.dtype.kind == "f"))
