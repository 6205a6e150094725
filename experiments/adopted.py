"""Artefacts from runs that a quick reproduction has stored already: rows, and nothing computed again.

`scripts/reproduce --quick` sweeps parts of five artefacts. Their rows come from those datasets, so the reduced page of
claims costs statistics and drawing only. What such a run lacks (controls, capacities, whole artefacts) is absent here
too, and the claims that need it say `not run`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from experiments import registry, runner, statistics, store
from experiments.artefacts.cycling import TOPICS
from experiments.types import Context
from solarjax.report import stored

SOURCES: Mapping[str, Mapping[str, str]] = {
    "cycling": {f"m={m}": f"cycling-m{m}" for m in TOPICS},
    "working_set": {"uniform": "working_set"},
    "drift": {"drift": "topic_drift"},
    "locomo": {"P1 turns": "locomo-P1", "P2 mean=100": "locomo-P2-mean=100"},
    "learning": {"P2 mean=100": "locomo-P2-mean=100"},
    "guarantees": {"cycling": "cycling-m20", "drift": "topic_drift"},
}
"""Artefact -> entry of its plan -> folder of the run. All of an artefact's runs are needed."""


def take(runs: Path, out: Path, command: str) -> list[str]:
    """Stores the rows of every artefact whose runs are complete under `runs`.

    Args:
      runs: folder of `scripts/reproduce --quick`.     out: folder of the page.
      command: the line that made the runs, for the records.

    Returns:
      The ids of the artefacts; one whose rows are there already, of the same runs, is left as it is.

    Raises:
      StoreError: a run is damaged, or `out` cannot be written to.   ExperimentError: what is stored there is damaged.
    """
    taken: list[str] = []
    loaded: dict[Path, stored.StoredRun] = {}
    for name, places in SOURCES.items():
        folders = {entry: runs / folder for entry, folder in places.items()}
        if all((folder / stored.PROVENANCE).is_file() for folder in folders.values()):
            _take_one(name, folders, loaded, out, command)
            taken.append(name)
    return taken


def _take_one(
    name: str, folders: Mapping[str, Path], loaded: dict[Path, stored.StoredRun], out: Path, command: str
) -> None:
    artefact = registry.get(name)
    records = {e: json.loads((f / stored.PROVENANCE).read_text(encoding="utf-8")) for e, f in folders.items()}
    # As for entries of our own: configuration and code decide; the time of the run does not.
    places = {
        entry: store.Address(store.digest([r["config"], r["code"]]), r["config"], r["code"], r["command"])
        for entry, r in records.items()
    }
    context = Context(quick=True, seeds=min(len(r["config"]["seeds"]) for r in records.values()))
    key = store.artefact_key(artefact, places, context)
    held = store.load_artefact(out, name)
    if held is not None and held.done and held.record["key"] == key:
        return
    for folder in folders.values():
        if folder not in loaded:
            loaded[folder] = stored.load(folder)
    found = {entry: loaded[folder] for entry, folder in folders.items()}
    rows = artefact.rows({entry: run.data for entry, run in found.items()})
    entries = {
        entry: {**run.provenance, "key": places[entry].key, "lanes": runner.lanes(run.data)}
        for entry, run in found.items()
    }
    record = runner.record_of(artefact, context, "done", entries, key) | {"command": command}
    store.save_artefact(out, name, statistics.compare(statistics.correct(rows), artefact.published), record)
