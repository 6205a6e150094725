"""From a function that measures to a `Check`: identity, time and the command are filled in at one place."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from theory.results import Budget, Check, CheckResult, Verdict


@dataclass(frozen=True)
class Finding:
    """What a measurement says; fields as in `CheckResult`."""

    verdict: Verdict
    figure: float
    figure_name: str
    unit: str
    sizes: dict[str, Any]
    keys: int
    notes: str
    condition: str | None = None
    interval: tuple[float, float] | None = None
    predicted: float | None = None
    counterexample: str | None = None
    data: dict[str, Any] = field(default_factory=dict)


def command(check_id: str, budget: Budget) -> str:
    """The line that repeats a row; the folder of counterexamples does not enter, because it changes no figure."""
    size = "--full" if budget.full else "--quick"
    return f"python -m theory check {check_id} {size} --keys {budget.keys} --seed {budget.root_key}"


def define(check_id: str, claim: str, source: str) -> Callable[[Callable[[Budget], Finding]], Check]:
    """Decorator: the function becomes a `Check` of this identity."""

    def wrap(measure: Callable[[Budget], Finding]) -> Check:
        def run(budget: Budget) -> CheckResult:
            start, worked = time.perf_counter(), time.process_time()
            found = measure(budget)
            # On a machine with other work the time on the wall says little; the processor's says what a check costs.
            cpu = round(time.process_time() - worked, 3)
            return CheckResult(
                id=check_id,
                claim=claim,
                source=source,
                verdict=found.verdict,
                condition=found.condition,
                figure=found.figure,
                figure_name=found.figure_name,
                unit=found.unit,
                interval=found.interval,
                predicted=found.predicted,
                sizes=found.sizes,
                keys=found.keys,
                seconds=round(time.perf_counter() - start, 3),
                counterexample=found.counterexample,
                command=command(check_id, budget),
                notes=found.notes,
                data={**found.data, "cpu_seconds": cpu},
            )

        return Check(check_id, claim, source, run)

    return wrap
