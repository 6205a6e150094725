"""Every check by name. A new module of checks is its file and one line here."""

from __future__ import annotations

from types import ModuleType

from theory import (
    checks_admissions,
    checks_adversary,
    checks_as_run,
    checks_costs,
    checks_cycles,
    checks_eoq,
    checks_families,
    checks_gates,
    checks_guarantee,
    checks_opt,
    checks_regret,
    checks_sweeps,
    checks_threshold,
)
from theory.results import Check

MODULES: tuple[ModuleType, ...] = (
    checks_opt,
    checks_cycles,
    checks_families,
    checks_admissions,
    checks_guarantee,
    checks_threshold,
    checks_adversary,
    checks_gates,
    checks_regret,
    checks_eoq,
    checks_as_run,
    checks_costs,
    checks_sweeps,
)


def _collect() -> dict[str, Check]:
    """The checks that each module defines, in the order of their definition."""
    found: dict[str, Check] = {}
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, Check) and found.setdefault(value.id, value) is not value:
                raise ValueError(f"two checks are called {value.id!r}")
    return found


CHECKS: dict[str, Check] = _collect()
