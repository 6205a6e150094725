"""Named parameters with ranges: one place that checks what a user may set.

Used by the policy and the workload registries. Pure Python: the values may be JAX tracers by the time a
factory sees them, so every check happens here, on the host, before tracing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Param(NamedTuple):
    """One parameter of a policy or a workload.

    default: value used when not given; its type (float, int, bool, str) is the parameter's type.
    doc: one line, with the unit.
    low, high: inclusive range of a number (None: open).
    choices: allowed values of a structural choice.
    static: True if the value changes the program (shapes, branches); False if it may be a traced value and so an
        axis of a grid.
    """

    default: Any
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] | None = None
    static: bool = False


def suggest(name: str, known: Iterable[str]) -> str:
    """`'; did you mean X?'` or an empty string."""
    close = difflib.get_close_matches(str(name), [str(k) for k in known], n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_name(kind: str, name: str, known: Iterable[str], error: type[ValueError]) -> None:
    """Raises `error` naming what exists and the nearest match if `name` is not in `known`."""
    known = list(known)
    if name not in known:
        raise error(f"unknown {kind} {name!r}{suggest(name, known)} (known: {', '.join(sorted(map(str, known)))})")


def check_value(owner: str, name: str, param: Param, value: Any, error: type[ValueError]) -> Any:
    """Parses `value` (a string from a command line, or a Python value) to the parameter's type and range."""
    label = f"{owner}: {name} = {value!r}"
    kind = type(param.default)
    if kind is bool:
        text = str(value).lower()
        if text not in ("true", "false", "1", "0", "yes", "no"):
            raise error(f"{label} must be true or false")
        return text in ("true", "1", "yes")
    if kind is str:
        if param.choices is not None and str(value) not in param.choices:
            raise error(
                f"{label} is not one of {', '.join(map(str, param.choices))}{suggest(str(value), param.choices)}"
            )
        return str(value)
    try:
        number = float(value)
        if kind is int and number != int(number):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise error(f"{label} must be {'a whole number' if kind is int else 'a number'}") from None
    if not (abs(number) < float("inf")):
        raise error(f"{label} must be finite")
    if (param.low is not None and number < param.low) or (param.high is not None and number > param.high):
        low = "-inf" if param.low is None else f"{param.low:g}"
        high = "inf" if param.high is None else f"{param.high:g}"
        raise error(f"{label} is out of range; allowed are {low}..{high}")
    if param.choices is not None and number not in param.choices:
        raise error(f"{label} is not one of {', '.join(map(str, param.choices))}")
    return int(number) if kind is int else number


def resolve(
    owner: str, params: Mapping[str, Param], given: Mapping[str, Any], error: type[ValueError]
) -> dict[str, Any]:
    """All parameters of `owner`: the given ones checked, the others at their default."""
    for name in given:
        check_name(f"parameter of {owner}", name, params, error)
    return {
        name: check_value(owner, name, p, given[name], error) if name in given else p.default
        for name, p in params.items()
    }
