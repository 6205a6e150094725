"""Named, checked parameters of a protocol; values may come as text from a command line."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from solarjax.core.trace import TraceError


@dataclass(frozen=True)
class Parameter:
    """One parameter: its default (whose type is the parameter's type), what is allowed, and what it means.

    choices: allowed values of a text parameter.   low, high: range of a number, `high` itself excluded.
    only_if: (name, value) of another parameter without which this one means nothing and is refused.
    """

    default: Any
    help: str
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    only_if: tuple[str, str] | None = None

    def parse(self, name: str, value: Any) -> Any:
        """The value in the parameter's type.

        Raises:
          TraceError: if it is not allowed; names the value and what is.
        """
        if self.choices:
            if value in self.choices:
                return value
            raise TraceError(unknown(name, str(value), self.choices))
        kind = type(self.default)
        try:
            number = kind(value)
            exact = isinstance(value, str) or number == value
        except (TypeError, ValueError, OverflowError):
            exact = False
        if isinstance(value, bool) or not exact or not math.isfinite(number) or not self.low <= number < self.high:
            what = "a whole number" if kind is int else "a number"
            bounds = f">= {self.low:g}" + (f" and < {self.high:g}" if self.high < math.inf else "")
            raise TraceError(f"{name}={value!r} is not allowed; it must be {what} {bounds}")
        return number


def resolve(owner: str, specs: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of `owner`: the given ones, checked, and defaults for the rest.

    Raises:
      TraceError: for an unknown name, a value that is not allowed, or a parameter that would have no effect.
    """
    for name in given:
        if name not in specs:
            raise TraceError(unknown(f"parameter of {owner}", name, specs))
    values = {
        name: spec.parse(f"{owner}: {name}", given[name]) if name in given else spec.default
        for name, spec in specs.items()
    }
    for name in given:
        needed = specs[name].only_if
        if needed and values[needed[0]] != needed[1]:
            raise TraceError(
                f"{owner}: {name} only applies with {needed[0]}={needed[1]}, not {needed[0]}={values[needed[0]]}"
            )
    return values


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """Message for an unknown name: the nearest known one, and all of them."""
    nearest = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return f"unknown {what} {name!r}; {hint}known: {', '.join(known) or 'none'}"
