"""How registries are shown: one table of entries, one table of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from solarjax.cli.terminal import console


def entries(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Prints a plain table; the last column wraps."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for i, name in enumerate(head):
        table.add_column(name, no_wrap=i == 0, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def parameters(params: Mapping[str, Any]) -> None:
    """Prints the parameters of a policy, workload or protocol: default, what is allowed, meaning."""
    if not params:
        print("no parameters")
        return
    rows = [(name, show(p.default), allowed(p), p.doc if hasattr(p, "doc") else p.help) for name, p in params.items()]
    entries(("parameter", "default", "allowed", "meaning"), rows)


def show(value: Any) -> str:
    """A default as one would type it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def allowed(param: Any) -> str:
    """The choices, or the range with its ends."""
    if param.choices:
        return ", ".join(show(choice) for choice in param.choices)
    low, high = (None if end in (None, float("-inf"), float("inf")) else end for end in (param.low, param.high))
    kind = "whole numbers" if type(param.default) is int else "numbers"
    if isinstance(param.default, bool):
        return "true, false"
    if isinstance(param.default, str):
        return "text"
    if low is None and high is None:
        return kind
    if high is None:
        return f"{kind} from {low:g}"
    return f"{kind} up to {high:g}" if low is None else f"{low:g} to {high:g}"
