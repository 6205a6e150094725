"""What runs inside a Ray worker: one task of a plan that the worker makes for itself."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from solarjax import provenance
from solarjax.core.chunks import SweepError
from solarjax.core.task_runner import TaskRunner
from solarjax.core.tasks import SweepPlan

Recipe = Callable[[], SweepPlan]
"""Makes the plan; picklable, for instance `functools.partial` of a function of an importable module."""

_runners: dict[str, TaskRunner] = {}


def identity(plan: SweepPlan) -> str:
    """Digest of what is computed, how it is cut, and by which code; equal in all processes of one run."""
    text = json.dumps([plan.config, plan.layout, provenance.code_fingerprint()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def run_named(recipe: Recipe, layout: Mapping[str, Any], wanted: str, number: int) -> dict[str, np.ndarray]:
    """Runs the task at position `number` of the plan.

    The plan, its compiled programs and the tables of the last block stay in the worker for its next tasks.

    Raises:
      SweepError: this machine makes another plan of it (other code, other files), or the task failed.
    """
    if wanted not in _runners:
        plan = recipe().laid_out(layout)
        if identity(plan) != wanted:
            raise SweepError(
                f"a worker on {platform.node()} has other code or other input files than the driver; "
                "install the same solarjax and put the files at the same paths on every machine"
            )
        _runners.clear()
        _runners[wanted] = TaskRunner(plan)
    runner = _runners[wanted]
    return runner.run(runner.plan.tasks[number])
