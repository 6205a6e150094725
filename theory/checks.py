"""Every check by name. A new module of checks is its file and one line here."""

from __future__ import annotations

from types import ModuleType

from theory import checks_adversary, checks_families, checks_gates, checks_guarantee, checks_opt, checks_regret
from theory.results import Check

MODULES: tuple[ModuleType, ...] = (
    checks_opt,
    checks_families,
    checks_guarantee,
    checks_adversary,
    checks_gates,
    checks_regret,
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
