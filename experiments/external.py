"""Rows of the ledger that other parts of the project make: theory, replay through a language model, memory plane.

A file holds a list of check results (`theory.results.CheckResult.to_json`), or an object with such a list under
`results`. Files are taken over into OUT/external/, so the ledger stays a function of what is stored under OUT.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.types import ExperimentError

FOLDER = "external"
NEEDED = ("id", "source", "verdict", "figure", "figure_name", "interval", "keys", "command", "notes")
VERDICTS = ("holds", "holds under", "refuted", "undecided")


def check(value: Any, where: str) -> list[dict[str, Any]]:
    """The results in a parsed file.

    Raises:
      ExperimentError: naming the file and what is wrong in it.
    """
    results = value.get("results") if isinstance(value, dict) else value
    if not isinstance(results, list) or not all(isinstance(r, dict) for r in results):
        raise ExperimentError(f"{where} holds no list of check results")
    for number, result in enumerate(results):
        lacking = [name for name in NEEDED if name not in result]
        if lacking:
            raise ExperimentError(f"{where}: result {number} lacks {', '.join(lacking)}")
        if result["verdict"] not in VERDICTS:
            raise ExperimentError(
                f"{where}: verdict {result['verdict']!r} of {result['id']} is not one of {', '.join(VERDICTS)}"
            )
        if not isinstance(result["figure"], int | float):
            raise ExperimentError(f"{where}: the figure of {result['id']} is {result['figure']!r}, not a number")
    return results


def read(path: Path) -> list[dict[str, Any]]:
    """The results of a file. Raises `ExperimentError`."""
    try:
        return check(json.loads(path.read_text(encoding="utf-8")), str(path))
    except FileNotFoundError:
        raise ExperimentError(f"{path}: no such file") from None
    except (OSError, ValueError) as problem:
        if isinstance(problem, ExperimentError):
            raise
        raise ExperimentError(f"{path} is not readable JSON: {problem}") from None


def take(path: Path, out: Path) -> Path:
    """Copies the results of a file, without its plots, to OUT/external/; a file of the same name is replaced.

    Raises:
      ExperimentError: it holds no check results.   StoreError: `out` cannot be written to.
    """
    from solarjax.report.stored import write_text

    kept = [{k: v for k, v in result.items() if k != "data"} for result in read(path)]
    target = out / FOLDER / path.name
    write_text(target, json.dumps(kept, indent=1, sort_keys=True) + "\n")
    return target


def load(out: Path) -> list[dict[str, Any]]:
    """All results taken over. Raises `ExperimentError` if a file is damaged."""
    return [result for path in sorted((out / FOLDER).glob("*.json")) for result in read(path)]
