"""Computes artefacts: what is missing or out of date, nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import statistics, store
from experiments.types import Artefact, Context, ExperimentError, Measurement, Missing

if TYPE_CHECKING:
    from solarjax.core.source import Source

Say = Callable[[str], None]


def run(artefacts: Sequence[Artefact], context: Context, out: Path, say: Say = print) -> list[str]:
    """Runs the artefacts in order; returns the ids of those that could not run here.

    Raises:
      StoreError: `out` cannot be written to.   Whatever a sweep raises for a plan that is wrong.
    """
    missing = []
    for artefact in artefacts:
        start = time.monotonic()
        status, computed = run_one(artefact, context, out, say)
        if status != "done":
            missing.append(artefact.id)
        say(f"{artefact.id}: {status}, {computed} entries computed, {time.monotonic() - start:.1f} s")
    return missing


def keep_full(artefacts: Sequence[Artefact], context: Context, out: Path) -> None:
    """Refuses a quick or trial run where results of full size are stored: it would replace them.

    Raises:
      ExperimentError: naming them.
    """
    if not (context.quick or context.seeds):
        return
    held = store.load_all(out, [artefact.id for artefact in artefacts])
    full = [name for name, found in held.items() if found.done and not (found.record["quick"] or found.record["seeds"])]
    if full:
        raise ExperimentError(
            f"{out} holds {', '.join(full)} at full size, which this smaller run would replace; choose another --out"
        )


def run_one(artefact: Artefact, context: Context, out: Path, say: Say = print) -> tuple[str, int]:
    """Brings one artefact up to date. Returns (`done`, `unchanged` or `missing`, entries that were computed)."""
    held = store.load_artefact(out, artefact.id)
    try:
        plan = dict(artefact.plan(context))
    except Missing as problem:
        if held is None or not held.done:
            record = record_of(artefact, context, "missing", {}, "") | {"reason": str(problem)}
            store.save_artefact(out, artefact.id, [], record)
        say(f"{artefact.id}: {problem}")
        return "missing", 0
    places = {name: store.address(artefact.id, entry) for name, entry in plan.items()}
    key = store.artefact_key(artefact, places, context)
    if held is not None and held.done and held.record["key"] == key:
        return "done", 0
    sources = _shared_programs(plan)
    results, entries, computed = {}, {}, 0
    for name, entry in plan.items():
        start = time.monotonic()
        data, record, reused = store.fetch(out, places[name], entry, context, sources.get(name))
        if not reused:
            computed += 1
            say(f"  {artefact.id}: {name} computed in {time.monotonic() - start:.1f} s")
        results[name] = data
        entries[name] = {**record, "key": places[name].key, "lanes": lanes(data)}
    rows = statistics.compare(statistics.correct(artefact.rows(results)), artefact.published)
    _check_unique(artefact, rows)
    store.save_artefact(out, artefact.id, rows, record_of(artefact, context, "done", entries, key))
    return "done", computed


def is_current(artefact: Artefact, plan: Mapping[str, Any], context: Context, out: Path) -> bool:
    """True if the stored rows are those that a run would make: same entries, code and published figures.

    Raises:
      ExperimentError: what is stored is damaged.
    """
    held = store.load_artefact(out, artefact.id)
    if held is None or not held.done:
        return False
    places = {name: store.address(artefact.id, entry) for name, entry in plan.items()}
    return bool(held.record["key"] == store.artefact_key(artefact, places, context))


def compute(artefact: Artefact, names: Sequence[str], context: Context, out: Path, say: Say = print) -> None:
    """Computes and stores these entries of an artefact and makes no rows: the work of one process of several.

    Raises:
      Missing, StoreError, and what a sweep raises.
    """
    plan = dict(artefact.plan(context))
    sources = _shared_programs(plan)
    for name in names:
        start = time.monotonic()
        store.fetch(out, store.address(artefact.id, plan[name]), plan[name], context, sources.get(name))
        say(f"  {artefact.id}: {name} computed in {time.monotonic() - start:.1f} s")


def record_of(
    artefact: Artefact, context: Context, status: str, entries: Mapping[str, Any], key: str
) -> dict[str, Any]:
    """The provenance of an artefact that is made now."""
    from datetime import UTC, datetime

    from solarjax import provenance

    return {
        "schema": 1,
        "id": artefact.id,
        "status": status,
        "quick": context.quick,
        "seeds": context.seeds,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"python -m experiments run {artefact.id}" + (" --quick" if context.quick else ""),
        "git": provenance.git_state(),
        "entries": entries,
        "key": key,
    }


def lanes(data: Any) -> int:
    """Caches simulated for a dataset."""
    return int(data["hit_rate"].size) if "hit_rate" in data else 0


def _check_unique(artefact: Artefact, rows: Sequence[Any]) -> None:
    seen: set[str] = set()
    for row in rows:
        if row.key in seen:
            raise AssertionError(f"{artefact.id}: two rows are called {row.key}")
        seen.add(row.key)


def program_groups(plan: Mapping[str, Any]) -> dict[str, str]:
    """Sweeps over generated workloads -> the group whose compiled programs they share."""
    from solarjax.cli.sources import WORKLOAD

    found = {}
    for name, entry in plan.items():
        if not isinstance(entry, Measurement) and entry.source.kind == WORKLOAD:
            alike = (entry.source.name, entry.policies, entry.params, entry.capacities)
            rest = (entry.k, entry.quality, entry.feedback, entry.per_step)
            found[name] = repr(alike + rest)
    return found


def _shared_programs(plan: Mapping[str, Any]) -> dict[str, Source]:
    """Sources padded to a common size for sweeps that differ in one workload's settings only: one compilation then."""
    from solarjax.cli.parsing import pairs
    from solarjax.workloads.padded import PaddedSource, common_size
    from solarjax.workloads.registry import make

    groups: dict[str, list[str]] = {}
    for name, group in program_groups(plan).items():
        if not plan[name].per_step:
            groups.setdefault(group, []).append(name)
    found: dict[str, Source] = {}
    for names in groups.values():
        if len(names) > 1:
            made = [make(plan[n].source.name, **pairs("--set", plan[n].source.settings)) for n in names]
            size = common_size(made)
            found |= {n: PaddedSource(workload, size) for n, workload in zip(names, made, strict=True)}
    return found
