"""The complete sessions of a full replay as one stored run: one dataset, one provenance record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from solarjax.report import stored
from solarjax.report.stored import StoredRun
from solarjax.traces.locomo import CATEGORY_NAMES

PER_RUN = "created code git versions device seconds timing server_version".split()
"""What the joint record keeps of each session's own."""


def gather(folders: Sequence[Path], command: str) -> StoredRun | None:
    """The complete runs in these folders, joined along the sessions in their order; None if there is none.

    A run that was stopped has no provenance record yet, and is left out. command: the line that repeats it.

    Raises:
      StoreError: a stored run is damaged, or two differ in more than their sessions.
    """
    runs = [stored.load(folder) for folder in folders if (folder / stored.PROVENANCE).exists()]
    if not runs:
        return None
    for run in runs[1:]:
        problem = _difference(runs[0].config, run.config)
        if problem:
            raise stored.StoreError(f"{runs[0].path} and {run.path} differ in {problem}, so they make no one result")
    return StoredRun(runs[0].path, joined([run.data for run in runs]), _record(runs, command))


def joined(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """Datasets of different sessions as one. What only some sessions have (a category, a late step) is NaN elsewhere;
    LoCoMo's categories come in the order of their numbers.

    Raises:
      StoreError: a session is in two of them.
    """
    names = [str(name) for part in parts for name in part["trace"].values]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise stored.StoreError(f"session {twice[0]!r} is stored twice; remove one of the two")
    steps = max(part.sizes.get("step", 0) for part in parts)
    known = [name for name in CATEGORY_NAMES if any(name in part["category"].values for part in parts)]
    rest = dict.fromkeys(str(c) for part in parts for c in part["category"].values if c not in CATEGORY_NAMES)
    same = [
        part.pad(step=(0, steps - part.sizes.get("step", 0)), constant_values=np.nan).reindex(category=[*known, *rest])
        for part in parts
    ]
    data = xr.concat(same, "trace", join="exact", combine_attrs="override")
    data["category_requests"] = data["category_requests"].fillna(0)
    versions = dict.fromkeys(v for part in parts for v in str(part.attrs.get("server_version", "")).split(", "))
    data.attrs["server_version"] = ", ".join(v for v in versions if v)
    left_out = [json.loads(part.attrs["left_out"]) for part in parts]
    data.attrs["left_out"] = json.dumps({name: reasons for one in left_out for name, reasons in one.items()})
    return data


def compact(data: xr.Dataset) -> xr.Dataset:
    """The dataset with what was measured per question in single precision, for a repository: half the size."""
    return data.assign({name: data[name].astype(np.float32) for name in data.data_vars if str(name)[:5] == "step_"})


def _record(runs: Sequence[StoredRun], command: str) -> dict[str, Any]:
    source = runs[0].config["source"]
    sessions = {name: sha256 for run in runs for name, sha256 in run.config["source"]["sessions"].items()}
    last = max(runs, key=lambda run: run.provenance["created"])
    return {
        **last.provenance,
        "command": command,
        "config": {**runs[0].config, "source": {**source, "sessions": sessions}},
        "seconds": round(sum(run.provenance["seconds"] for run in runs), 3),
        "timing": _sums([run.provenance.get("timing") or {} for run in runs]),
        "sessions": {name: dropped for run in runs for name, dropped in run.provenance.get("sessions", {}).items()},
        "parts": [
            {"sessions": list(run.config["source"]["sessions"])} | {k: run.provenance.get(k) for k in PER_RUN}
            for run in runs
        ],
    }


def _sums(timings: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {
        name: round(sum(t.get(name, 0) for t in timings), 3) for name in dict.fromkeys(k for t in timings for k in t)
    }


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first setting, sessions aside, that is not the same in two configurations; empty if all are."""

    def flat(config: Mapping[str, Any]) -> dict[str, Any]:
        source = {f"source.{k}": v for k, v in config["source"].items() if k != "sessions"}
        return {k: v for k, v in config.items() if k != "source"} | source

    left, right = flat(one), flat(other)
    return next((key for key in sorted({*left, *right}) if left.get(key) != right.get(key)), "")
