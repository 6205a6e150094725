"""Which source files can change a number: the import closure of the modules that a computation names.

A result is recomputed when one of them changes, and left alone when an unrelated policy is added. Two modules are
not followed: the registries import every policy and workload, but what a run takes from them (names, resolved
parameters) is in its configuration.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solarjax.cli.job import Job

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("solarjax", "experiments", "theory")
NOT_FOLLOWED = {"solarjax.policies.registry", "solarjax.workloads.registry"}


@cache
def path_of(module: str) -> Path | None:
    """The source file of one of our modules, None if there is no such module."""
    base = ROOT.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


@cache
def imports(module: str) -> frozenset[str]:
    """Our modules that the source of `module` imports anywhere, inside functions and type-checking blocks too."""
    path = path_of(module)
    assert path is not None, module
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            # `from package import module` names a module, `from module import function` does not.
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    ours = {name for name in found if name.split(".")[0] in PACKAGES and path_of(name) is not None}
    return frozenset(ours - {module})


def closure(modules: Iterable[str]) -> tuple[str, ...]:
    """`modules` and everything of ours they import, directly or not, sorted."""
    seen: set[str] = set()
    waiting = [name for name in modules if name not in NOT_FOLLOWED]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        waiting += [n for n in imports(name) if n not in seen and n not in NOT_FOLLOWED]
    return tuple(sorted(seen))


def fingerprint(modules: Iterable[str]) -> str:
    """First 16 hex digits of the sha256 over the sources of `closure(modules)`."""
    digest = hashlib.sha256()
    for name in closure(modules):
        path = path_of(name)
        assert path is not None
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def modules_of_job(job: Job) -> set[str]:
    """The modules a sweep runs: the engine, the source's importer or generator, and the policies it names."""
    from solarjax.cli.sources import DIALOGUES, WORKLOAD

    found = {"solarjax.core.sweep", "solarjax.workloads.sources"}
    source = job.source
    if source.kind == WORKLOAD:
        found.add(f"solarjax.workloads.{source.name}")
    elif source.kind in DIALOGUES:
        found |= {"solarjax.traces.protocols", f"solarjax.traces.{source.kind}", "solarjax.encoders.minilm"}
    else:
        found |= {"solarjax.traces.format", "solarjax.traces.jsonl"}
    for case in job.cases()[0]:
        found |= modules_of_function(case.spec.make) | modules_of_function(case.spec.needs)
    return found


def modules_of_function(function: Any) -> set[str]:
    """Modules of a function and of the functions and modules its code names (the registry's lines are lambdas)."""
    found = {function.__module__}
    if isinstance(function, FunctionType) and function.__module__ in NOT_FOLLOWED:
        for name in _names(function.__code__):
            value = function.__globals__.get(name)
            if isinstance(value, FunctionType) and value.__module__ in NOT_FOLLOWED and value is not function:
                found |= modules_of_function(value)
                continue
            module = getattr(value, "__module__", None) or getattr(value, "__name__", None)
            if isinstance(module, str) and module in sys.modules and module.split(".")[0] in PACKAGES:
                found.add(module)
    return found - NOT_FOLLOWED


def _names(code: Any) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names |= _names(constant)
    return names
