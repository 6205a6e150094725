"""The regression gate: ratios of engine to peer against a stored reference, never absolute times.

A ratio is the median of paired repeats on one core, so the speed of the machine cancels; what is left is noise of the
pairing and differences between processors. On a busy machine ratios scatter by 10-30 %, so the gate only fails below
half of the reference, and only if a second measurement says the same: it catches a step that became twice as slow,
not one that lost 10 %.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from solarjax.bench.errors import BenchError
from solarjax.bench.options import Options

TOLERANCE = 0.5
"""Fails below this share of the reference ratio."""
SIZES = Options(policies=("fifo", "solar"), capacities=(10,), lanes=256, steps=300, repeats=7, bounds=False)
"""What the gate measures: under 40 s with compilation."""


def verdict(
    rows: Sequence[Mapping[str, Any]], reference: Mapping[tuple[str, int], float], tolerance: float = TOLERANCE
) -> list[str]:
    """Sentences about what became too slow; empty if nothing did.

    Args:
      rows: of `compare.compare`.
      reference: (policy, K) -> ratio.
      tolerance: share of the reference below which a ratio fails.

    Raises:
      BenchError: a row has no ratio (no peer), or a reference was not measured.
    """
    found = {(row["policy"], row["capacity"]): row for row in rows}
    missing = [key for key in reference if key not in found or found[key]["ratio"] is None]
    if missing or not reference:
        names = ", ".join(f"{policy} at K = {capacity}" for policy, capacity in missing) or "anything"
        raise BenchError(f"no ratio was measured for {names}; is numba installed?")
    slow = []
    for (policy, capacity), expected in reference.items():
        row = found[policy, capacity]
        if not row["ratio"] >= tolerance * expected:
            slow.append(
                f"{policy} at K = {capacity} runs {row['ratio']:.2f} times as fast as the compiled loop "
                f"({row['ratio_low']:.2f} to {row['ratio_high']:.2f} in {row['repeats']} pairs); the reference is "
                f"{expected:.2f}, and less than {tolerance:g} of it ({tolerance * expected:.2f}) is a regression"
            )
    return slow


def load(path: Path) -> dict[tuple[str, int], float]:
    """The reference ratios of a file that `document` made.

    Raises:
      BenchError: it is missing or not such a file.
    """
    try:
        rows = json.loads(path.read_text())["rows"]
        return {(str(row["policy"]), int(row["capacity"])): float(row["ratio"]) for row in rows}
    except FileNotFoundError:
        raise BenchError(f"there is no reference {path}; make one with scripts/bench --gate --update") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{path} is no reference of the gate; make one with scripts/bench --gate --update") from error


def document(rows: Sequence[Mapping[str, Any]], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The reference file's content, JSON-able."""
    names = ("policy", "capacity", "lanes", "steps", "repeats", "ratio", "ratio_low", "ratio_high")
    return {
        "what": "steps per second of the engine over those of the compiled loop, paired on one core",
        "tolerance": TOLERANCE,
        "rows": [{name: row[name] for name in names} for row in rows],
        "provenance": dict(provenance),
    }
