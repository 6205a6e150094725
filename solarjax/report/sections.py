"""Stored runs arranged for reading: one section per workload, its points along one x axis.

A run with several capacities is a section with capacity as x. Runs that differ in one workload parameter
only, each at one and the same capacity (cycling with m = 10, 15, 20 ... topics at K = 10), are joined into
one section with that parameter as x.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import xarray as xr

from solarjax.analysis.curves import Row, capacity_curve
from solarjax.analysis.paired import BASELINE
from solarjax.analysis.summary import unit_of_replication
from solarjax.report.stored import StoredRun
from solarjax.report.variants import fold_grid

HITS, ANSWERS = "hit_rate", "answer_f1"
NAMES = {
    "locomo": "LoCoMo",
    "friendsqa": "FriendsQA",
    "dialsim": "DialSim",
    "jsonl": "JSONL trace",
    "trace": "Trace",
}


@dataclass(frozen=True)
class Point:
    """One position on the x axis: a capacity of a run. `label` heads its column, `x` is where it is drawn."""

    run: int
    capacity: int
    x: float
    label: str


@dataclass(frozen=True)
class PolicyInfo:
    """What the provenance says about a row. `params` holds every parameter's value, defaults included."""

    label: str
    online: bool
    summary: str
    paper: str
    params: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The label, marked if the policy sees the future."""
        return self.label if self.online else f"{self.label} (heuristic, offline)"


@dataclass(frozen=True)
class Section:
    """One workload: runs, x axis, policies, and every measure as tidy rows."""

    title: str
    runs: tuple[StoredRun, ...]
    points: tuple[Point, ...]
    x_label: str
    data: tuple[xr.Dataset, ...] = field(repr=False)
    _rows: dict[str, list[Row]] = field(default_factory=dict, repr=False)

    @property
    def slug(self) -> str:
        """A file name and anchor made from the title."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    @property
    def baseline(self) -> str | None:
        """`fifo` if it ran, else None: no differences then."""
        return BASELINE if all(BASELINE in d["policy"].values for d in self.data) else None

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration of the first run (the others differ along x only)."""
        return self.runs[0].config

    @cached_property
    def policies(self) -> list[PolicyInfo]:
        """In the order in which they ran."""
        specs = {spec["label"]: spec for spec in self.config["policies"]}
        known = []
        for name in self.data[0]["policy"].values:
            spec = specs.get(str(name)) or specs[str(name).split(" · ")[0]]
            known.append(PolicyInfo(str(name), spec["online"], spec["summary"], spec["paper"], dict(spec["params"])))
        return known

    @property
    def unit(self) -> str:
        """What the interval is over."""
        return unit_of_replication(self.data[0])

    @property
    def replication(self) -> str:
        """The replication in words."""
        seeds, traces = self.data[0].sizes["seed"], self.data[0].sizes["trace"]
        if self.unit == "trace":
            return f"{traces} traces × {seeds} seeds; interval over the {traces} trace means (clustered)"
        return f"{seeds} seeds; interval over seeds"

    @property
    def primary(self) -> str:
        """The measure that tables and figures are about: the answers' F1 where a language model answered, else hits."""
        return ANSWERS if all(ANSWERS in d for d in self.data) else HITS

    @cached_property
    def variables(self) -> list[str]:
        """Measures with one value per policy and capacity, as stored."""
        return [
            str(name)
            for name, v in self.data[0].data_vars.items()
            if {"policy", "capacity"} <= set(v.dims) <= {"trace", "policy", "capacity", "seed"}
        ]

    def rows(self, variable: str) -> list[Row]:
        """`capacity_curve` of `variable` at each point, with `point` (its index) added; points in order."""
        if variable not in self._rows:
            curves = [capacity_curve(d, variable, self.baseline) if variable in d else [] for d in self.data]
            self._rows[variable] = [
                {"point": i, **row}
                for i, point in enumerate(self.points)
                for row in curves[point.run]
                if row["capacity"] == point.capacity
            ]
        return self._rows[variable]

    def describe(self, variable: str) -> str:
        """`'evictions (items)'`: the name in words, and the units as stored."""
        units = self.data[0][variable].attrs.get("units", "")
        return variable.replace("_", " ") + (f" ({units})" if units not in ("", "1") else "")

    def define(self, variable: str) -> str:
        """The long name as stored: what is measured."""
        return str(self.data[0][variable].attrs.get("long_name", ""))


def build(runs: Sequence[StoredRun]) -> list[Section]:
    """Sections in the order of their first run; titles are unique."""
    groups: list[list[StoredRun]] = []
    for run in runs:
        for group in groups:
            if _joins(group, run):
                group.append(run)
                break
        else:
            groups.append([run])
    titles = _titles([group[0].config for group in groups], [_varied(group) for group in groups])
    return [_section(title, group) for title, group in zip(titles, groups, strict=True)]


def _joins(group: list[StoredRun], run: StoredRun) -> bool:
    first = group[0].config
    if len(first["capacities"]) != 1 or _without_params(first) != _without_params(run.config):
        return False
    return len(_differing([*(r.config for r in group), run.config])) == 1


def _without_params(config: Mapping[str, Any]) -> dict[str, Any]:
    source = {k: v for k, v in config["source"].items() if k not in ("params", "traces")}
    return {**config, "source": source}


def _differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Numeric source parameters that are not the same in all; others count twice, so that nothing joins."""
    params = [c["source"]["params"] for c in configs]
    names = sorted({name for p in params for name in p})
    differing = [n for n in names if any(p.get(n) != params[0].get(n) for p in params)]
    numeric = all(isinstance(p.get(n), int | float) for n in differing for p in params)
    return differing if numeric else differing * 2


def _varied(group: list[StoredRun]) -> str | None:
    return _differing([run.config for run in group])[0] if len(group) > 1 else None


def _section(title: str, group: list[StoredRun]) -> Section:
    varied = _varied(group)
    if varied is None:
        run = group[0]
        points = [Point(0, k, float(k), f"K={k}") for k in run.config["capacities"]]
        label = "capacity K (items)"
    else:
        group = sorted(group, key=lambda run: run.config["source"]["params"][varied])
        capacity = group[0].config["capacities"][0]
        values = [run.config["source"]["params"][varied] for run in group]
        if varied == "n_topics":
            points = [Point(i, capacity, m / capacity, f"m/K={m / capacity:g}") for i, m in enumerate(values)]
            label = f"topics per slot m/K (K = {capacity})"
        else:
            points = [Point(i, capacity, float(v), f"{varied}={v:g}") for i, v in enumerate(values)]
            label = f"{varied} (K = {capacity})"
    return Section(title, tuple(group), tuple(points), label, tuple(fold_grid(run.data) for run in group))


def _titles(configs: Sequence[Mapping[str, Any]], varied: Sequence[str | None]) -> list[str]:
    """`LoCoMo P2`, and where that is not unique the settings that differ: `LoCoMo P2, mean=100`."""

    def base(config: Mapping[str, Any]) -> str:
        source = config["source"]
        name = NAMES.get(source["kind"], source["name"])
        return " ".join([name, *([source["protocol"]] if source.get("protocol") else [])])

    def settings(config: Mapping[str, Any], skip: str | None) -> dict[str, Any]:
        own = {k: config[k] for k in ("quality", "feedback", "like_at", "k", "root_seed")}
        files = ", ".join(f["name"] for f in config["source"].get("files", []))
        return {**{k: v for k, v in config["source"]["params"].items() if k != skip}, **own, "file": files}

    titles = []
    for config, skip in zip(configs, varied, strict=True):
        rivals = [settings(c, s) for c, s in zip(configs, varied, strict=True) if base(c) == base(config)]
        mine = settings(config, skip)
        telling = [f"{k}={mine[k]}" for k in mine if any(r.get(k) != mine[k] for r in rivals)]
        titles.append(", ".join([base(config), *telling]))
    return [f"{t} ({titles[: i + 1].count(t)})" if titles.count(t) > 1 else t for i, t in enumerate(titles)]
