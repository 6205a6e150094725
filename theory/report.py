"""The report of a run of checks: a JSON file that is complete after every check, and the table for the screen.

A file holds `format`, `version`, `provenance` (see `solarjax.provenance`; its config names the code of this
package too), `results` (one row per check and key set) and `stability` (one row per check: its verdict
on every key set).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from solarjax import provenance
from theory import predicates
from theory.errors import TheoryError
from theory.results import CheckResult, write_json

FORMAT, VERSION = "solarjax theory report", 1
HERE = Path(__file__).resolve().parent


@functools.cache
def code() -> str:
    """First 16 hex digits of the sha256 over this package's source; with provenance's `code` it fixes every figure.

    Read once: what is edited during a run is not what ran.
    """
    digest = hashlib.sha256()
    for path in sorted(HERE.rglob("*.py")):
        digest.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def seed_of(result: CheckResult) -> int:
    """Root key of a row, from its command (`... --seed N`)."""
    return int(result.command.rsplit("--seed", 1)[1].split()[0])


def stability(results: Sequence[CheckResult]) -> list[dict[str, Any]]:
    """Per check `{"id", "verdicts": {seed: verdict}, "figures": {seed: figure}, "stable"}`, in the order of the rows.

    `stable` says whether all key sets give one verdict; with one key set there is nothing to disagree with.
    """
    rows: dict[str, list[CheckResult]] = {}
    for result in results:
        rows.setdefault(result.id, []).append(result)
    return [
        {
            "id": name,
            "verdicts": {str(seed_of(r)): str(r.verdict) for r in same},
            "figures": {str(seed_of(r)): r.figure for r in same},
            "stable": predicates.stable([r.verdict for r in same]),
        }
        for name, same in rows.items()
    ]


def save(path: Path, config: Mapping[str, Any], command: str, results: Sequence[CheckResult]) -> None:
    """Writes the report of the results so far, complete or not at all; its seconds are the checks' own, summed.

    Raises:
      OSError: if it cannot be written.
    """
    source = provenance.collect(config, command, sum(r.seconds for r in results))
    source["versions"]["optax"] = importlib.metadata.version("optax")
    _write(path, source, results)


def _write(path: Path, source: Mapping[str, Any], results: Sequence[CheckResult]) -> None:
    write_json(
        path,
        {
            "format": FORMAT,
            "version": VERSION,
            "provenance": source,
            "stability": stability(results),
            "results": [r.to_json() for r in results],
        },
    )


def load(path: Path) -> dict[str, Any]:
    """A report, with `results` as `CheckResult`s.

    Raises:
      TheoryError: no such file, no JSON, or not a report; the message names the file.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        return {**report, "results": [CheckResult.from_json(row) for row in report["results"]]}
    except FileNotFoundError:
        raise TheoryError(f"{path}: no such file") from None
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise TheoryError(f"{path} is no report of `python -m theory check --json` ({error!r})") from error
    except TheoryError as error:
        raise TheoryError(f"{path}: {error}") from error


def resumed(path: Path, config: Mapping[str, Any]) -> list[CheckResult]:
    """The rows of an interrupted run of the same options and the same code; none if there is no file yet.

    Raises:
      TheoryError: the file is no report, or one of another run: its rows would be mixed with rows they do not match.
    """
    if not path.exists():
        return []
    report = load(path)
    source = report.get("provenance", {})
    for name, mine, its in (
        ("options", dict(config), source.get("config")),
        ("engine code", provenance.code_fingerprint(), source.get("code")),
    ):
        if mine != its:
            raise TheoryError(f"{path}: --resume needs the {name} it was made with, {its!r}; these are {mine!r}")
    return list(report["results"])


def merge(paths: Sequence[Path], out: Path) -> None:
    """Writes one report of several: rows of a later file replace those of the same check and key set.

    `provenance` is the first file's; `parts` in it holds the others' with the checks that each contributed, so that a
    check that was mended and run again says what it was run with.

    Raises:
      TheoryError: no paths, or see `load`.   OSError: if it cannot be written.
    """
    if not paths:
        raise TheoryError("merge needs at least one report")
    reports = [load(path) for path in paths]
    rows: dict[tuple[str, int], CheckResult] = {}
    for report in reports:
        rows.update({(r.id, seed_of(r)): r for r in report["results"]})
    parts = list(reports[0]["provenance"].get("parts", []))
    parts += [{"checks": [r.id for r in report["results"]], **report["provenance"]} for report in reports[1:]]
    results = list(rows.values())
    source = {**reports[0]["provenance"], "seconds": round(sum(r.seconds for r in results), 3), "parts": parts}
    _write(out, source, results)


def table(results: Sequence[CheckResult]) -> str:
    """The rows for the screen; with several key sets also each check's verdict per set, and which disagree."""
    lines = [f"{'check':<22} {'verdict':<12} {'figure':>12} {'interval':<24} {'seconds':>8}  figure is"]
    for r in results:
        interval = "" if r.interval is None else f"[{r.interval[0]:.5g}, {r.interval[1]:.5g}]"
        lines.append(f"{r.id:<22} {r.verdict:<12} {r.figure:>12.6g} {interval:<24} {r.seconds:>8.1f}  {r.figure_name}")
    sets = stability(results)
    if any(len(row["verdicts"]) > 1 for row in sets):
        apart = [row for row in sets if not row["stable"]]
        lines += ["", f"{len(sets) - len(apart)} of {len(sets)} checks have one verdict on all key sets"]
        for row in apart:
            each = ", ".join(f"seed {seed}: {verdict}" for seed, verdict in row["verdicts"].items())
            lines.append(f"KEY SETS DISAGREE  {row['id']:<22} {each}")
    return "\n".join(lines)


def markdown(results: Sequence[CheckResult]) -> str:
    """One line per check: id, source, claim, verdict with its condition, figure with its interval."""
    lines = ["| check | source | claim | verdict | figure |", "|---|---|---|---|---|"]
    for r in results:
        verdict = f"{r.verdict} {r.condition}" if r.condition else str(r.verdict)
        interval = "" if r.interval is None else f" [{r.interval[0]:.4g}, {r.interval[1]:.4g}]"
        cells = (f"`{r.id}`", r.source, r.claim, verdict, f"{r.figure:.4g}{interval}: {r.figure_name}")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)
