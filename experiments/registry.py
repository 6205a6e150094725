"""Every artefact, in the order of the report. A new one is its file and one line here."""

from __future__ import annotations

from importlib import import_module

from experiments.types import Artefact, ExperimentError
from solarjax.core.params import suggest

IDS = (
    "cycling",
    "working_set",
    "noise_probe",
    "noise_stream",
    "drift",
    "authors_arrays",
    "ablation",
    "locomo",
    "friendsqa",
    "dialsim",
    "learning",
    "beyond_synthetic",
    "beyond_dialogues",
    "feedback",
    "sensitivity",
    "admission_only",
    "stale_versions",
    "latency",
    "complexity",
    "guarantees",
)


def get(name: str) -> Artefact:
    """The artefact of that id. Raises `ExperimentError` naming the known ones."""
    if name not in IDS:
        raise ExperimentError(f"unknown experiment {name!r}{suggest(name, IDS)} (known: {', '.join(IDS)})")
    return import_module(f"experiments.artefacts.{name}").ARTEFACT


def choose(names: list[str]) -> list[Artefact]:
    """The named artefacts, or all of them, in registry order. Raises `ExperimentError`."""
    chosen = {get(name).id for name in names}
    return [get(name) for name in IDS if not names or name in chosen]
