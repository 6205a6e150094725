"""One measurement in a fresh process: `python -m solarjax.bench.child REQUEST`, answered by one line of JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from solarjax.bench.errors import BenchError
from solarjax.bench.paired import one_core
from solarjax.bench.sections import FAILED

QUICK_AXES = {"steps": (100, 200), "capacity": (10, 20), "items": (100, 200), "lanes": (64, 128)}


def rows_of(section: str, unit: Mapping[str, Any], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measures one unit (`sections.units`) in this process."""
    if section == "compare":
        from solarjax.bench.compare import compare

        return compare(say=say, **unit)
    if section == "cores":
        from solarjax.bench.cores import cores

        return cores(say=say, **unit)
    if section == "device":
        from solarjax.bench.device import device

        return device(say=say, **unit)
    if section == "growth":
        from solarjax.bench.growth import AXES, growth

        axes = QUICK_AXES if unit["quick"] else AXES
        return growth(unit["policies"], axes=axes, repeats=unit["repeats"], say=say)
    if section == "compile":
        from solarjax.bench.compiling import compiling

        say(f"{unit['policy']} K={unit['capacity']}")
        return [compiling(**unit)]
    from solarjax.bench.memory import memory

    say(f"{unit['seeds']} seeds")
    return [memory(**unit)]


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """`{"rows", "device"}`, or `{"error"}` if the measurement cannot be made as asked."""
    if request["pinned"]:
        one_core()

    def say(text: str) -> None:
        if not request["quiet"]:
            print(f"{request['section']}: {text}", file=sys.stderr, flush=True)

    from solarjax import provenance
    from solarjax.core.chunks import SweepError
    from solarjax.policies.registry import PolicyError

    try:
        rows = rows_of(request["section"], request["unit"], say)
    except (BenchError, PolicyError, SweepError) as error:
        return {"error": str(error)}
    return {"rows": rows, "device": {**provenance.device(), "load": load()}}


def load() -> float | None:
    """Mean number of busy or waiting processes over the last minute: how crowded the machine was; None if unknown."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def main() -> None:
    """Reads the request from the command line, prints the answer, exits."""
    found = answer(json.loads(sys.argv[1]))
    print(json.dumps(found))
    sys.exit(FAILED if "error" in found else 0)


if __name__ == "__main__":
    main()
