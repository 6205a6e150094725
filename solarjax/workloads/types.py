"""Types shared by the workload generators. No algorithms here.

Axis legend: T steps, Q queries, M items, D embedding dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jax import Array

from solarjax.core.params import Param


class WorkloadError(ValueError):
    """A workload that cannot be built; the message names the parameter, its value and what is allowed."""


class Instance(NamedTuple):
    """One realisation of a workload. All shapes are fixed by the parameters, only values depend on the key.

    items: `[M, D] f32` unit rows.             queries: `[Q, D] f32` unit rows.
    relevance: `[Q, M] bool` which items would answer a query.
    query: `[T] i32` index into `queries`, NO_QUERY (-1) where nothing is asked.
    arrival: `[T] i32` index into `items`, NO_ITEM (-1) where nothing arrives.
    mode: `[T] u8` a `core.trace.StepMode` each.
    ok: `[] bool` False if the separation of the centres could not be met within the bounded number of draws.
        The arrays are finite even then, but are not this workload: whoever leaves traced code must check it.
    """

    items: Array
    queries: Array
    relevance: Array
    query: Array
    arrival: Array
    mode: Array
    ok: Array


class Workload(NamedTuple):
    """A workload with its parameters fixed.

    name: registry name.                       params: the resolved parameters, defaults included.
    num_steps: T, FILL steps included.         num_items: M.    num_queries: Q.    dim: D.
    generate: consumes a typed threefry key `[]` (`jax.random.key`) and returns an `Instance`; pure, so it can
        be jitted and mapped over keys, and an instance does not depend on its neighbours.
    """

    name: str
    params: Mapping[str, Any]
    num_steps: int
    num_items: int
    num_queries: int
    dim: int
    generate: Callable[[Array], Instance]


class WorkloadSpec(NamedTuple):
    """Registry entry.

    make: takes every parameter of `params` by keyword, already checked one by one; checks what depends on
        several of them (raising `WorkloadError`) and returns the `Workload`.
    params: name -> `core.params.Param`; all are static, they fix shapes or constants of the program.
    paper: where the workload is defined.
    summary: one line for listings.
    """

    make: Callable[..., Workload]
    params: Mapping[str, Param]
    paper: str
    summary: str
