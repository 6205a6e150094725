"""What a check is, and what it returns. A result is plain data: it goes to JSON and comes back equal.

`CheckResult.data` holds what figures are drawn from. Whatever else it holds, `data["plots"]` may be a list of plots in
the form that `theory.figures` draws: `{"name", "title", "x", "y", "x_log", "y_log", "series": [{"label", "x", "y",
"low"?, "high"?, "style"?}]}`; style `bars` draws a histogram of `x` edges and `y` counts, `dashed` a reference line.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from theory.errors import TheoryError


class Verdict(StrEnum):
    """What a check found; how each is reached is said in `theory.predicates`."""

    HOLDS = "holds"
    HOLDS_UNDER = "holds under"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Budget:
    """How much a check may spend, and where its randomness and its files go.

    full: the sizes of a report (minutes) instead of those of a look (seconds).
    keys: independent repetitions, >= 2.
    root_key: root of every random number, 0..2^32-1.
    workdir: counterexamples are written under it.

    Raises:
      TheoryError: a value out of range.
    """

    full: bool
    keys: int
    root_key: int
    workdir: Path

    def __post_init__(self) -> None:
        if self.keys < 2:
            raise TheoryError(f"keys = {self.keys} is out of range; an interval needs at least 2")
        if not 0 <= self.root_key < 2**32:
            raise TheoryError(f"seed = {self.root_key} is out of range; allowed are 0..{2**32 - 1}")


@dataclass(frozen=True)
class CheckResult:
    """One row of the ledger.

    id: name of the check.                          claim: the statement, in our words.
    source: theorem and claim ids, as "T1, S12".    verdict: what was found.
    condition: under what it holds, with HOLDS_UNDER only (there it is required).
    figure, figure_name, unit: the number the verdict rests on, what it is, and its unit.
    interval: its 95 % interval, None where the figure is exact.
    predicted: what the statement says the figure is, None if it says no number.
    sizes: what was tried, JSON-able.               keys: independent repetitions (1 where nothing is random).
    seconds: wall-clock time.                       counterexample: path of a replayable file, if there is one.
    command: the line that repeats this row.        notes: what the verdict needs to be read rightly.
    data: JSON-able arrays for figures and tables.

    Raises:
      TheoryError: a number that is not finite (also inside `sizes` and `data`), an interval the wrong way round, or a
        condition that does not fit the verdict.
    """

    id: str
    claim: str
    source: str
    verdict: Verdict
    condition: str | None
    figure: float
    figure_name: str
    unit: str
    interval: tuple[float, float] | None
    predicted: float | None
    sizes: dict[str, Any]
    keys: int
    seconds: float
    counterexample: str | None
    command: str
    notes: str
    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plain = {f.name: jsonable(getattr(self, f.name), f"{self.id}: {f.name}") for f in dataclasses.fields(self)}
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "verdict", Verdict(self.verdict))
        if self.interval is not None:
            low, high = self.interval
            object.__setattr__(self, "interval", (low, high))
            if low > high:
                raise TheoryError(f"{self.id}: interval [{low}, {high}] is the wrong way round")
        if (self.verdict is Verdict.HOLDS_UNDER) != bool(self.condition):
            raise TheoryError(f"{self.id}: a condition goes with 'holds under' and with no other verdict")
        if self.keys < 1 or self.seconds < 0:
            raise TheoryError(f"{self.id}: keys = {self.keys} must be >= 1 and seconds = {self.seconds} >= 0")

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `from_json` gives an equal result back."""
        out = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        out["verdict"] = str(self.verdict)
        out["interval"] = None if self.interval is None else list(self.interval)
        return out

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CheckResult:
        """The result that `to_json` wrote.

        Raises:
          TheoryError: missing or unknown fields, or a value that no result may have.
        """
        known = {f.name for f in dataclasses.fields(CheckResult)}
        if set(data) != known:
            raise TheoryError(f"not a check result: fields {sorted(set(data) ^ known)} are missing or unknown")
        values = dict(data)
        if values["verdict"] not in set(Verdict):
            raise TheoryError(f"verdict {values['verdict']!r} is not one of {', '.join(Verdict)}")
        values["verdict"] = Verdict(values["verdict"])
        values["interval"] = None if values["interval"] is None else tuple(values["interval"])
        return CheckResult(**values)


@dataclass(frozen=True)
class Check:
    """A check that can be run: `run(budget)` returns a result of the same id, claim and source."""

    id: str
    claim: str
    source: str
    run: Callable[[Budget], CheckResult]


def jsonable(value: Any, where: str) -> Any:
    """`value` as plain Python: numpy arrays as lists, tuples as lists, numbers as float or int.

    Raises:
      TheoryError: a number that is not finite or a type that JSON does not know; the message says where.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.generic):
        return jsonable(value.item(), where)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TheoryError(f"{where} = {value} is not finite")
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist(), where)
    if isinstance(value, Mapping):
        return {str(k): jsonable(v, f"{where}[{k}]") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v, f"{where}[{i}]") for i, v in enumerate(value)]
    raise TheoryError(f"{where} is a {type(value).__name__}, which JSON does not know")


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 `text` to `path`, complete or not at all; its folder is made.

    Raises:
      OSError: if it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(name, 0o644)  # mkstemp makes private files
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as JSON, see `write_text`."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")
