"""The sections of a benchmark, each measured in a process of its own.

A section needs jax started its own way (bound to one core or on all, on the CPU or on whatever there is, without a
compilation cache), which is decided before jax is imported. So this process imports no jax: it starts children that
print their rows (`child.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from solarjax.bench.errors import BenchError
from solarjax.bench.options import Options

FAILED = 2
"""Exit code of a child whose error is in its answer."""


class Section(NamedTuple):
    """title: heading of its table.  pinned: bound to one core.  split: the CPU is one device per core, else one.
    cpu: on the CPU even beside an accelerator."""

    title: str
    pinned: bool = False
    split: bool = False
    cpu: bool = True


SECTIONS: Mapping[str, Section] = {
    "compare": Section("engine against a compiled loop, one core", pinned=True),
    "cores": Section("all cores against one", split=True),
    "device": Section("steps per second against lanes", cpu=False),
    "compile": Section("compile time, cold process"),
    "growth": Section("growth of the run time, one core", pinned=True),
    "memory": Section("peak memory of a sweep", split=True),
}


class Measured(NamedTuple):
    """Rows of a section, and the device they were measured on (`provenance.device`) with its load (`child.load`)."""

    name: str
    rows: list[dict[str, Any]]
    device: dict[str, Any]


def measure(name: str, options: Options, quiet: bool = True) -> Measured:
    """Runs one section and waits.

    Args:
      name: a key of `SECTIONS`.
      options: sizes.
      quiet: do not show on stderr what is being measured.

    Raises:
      BenchError: what the section raised.
      RuntimeError: a child died of anything else; its traceback is on stderr.
    """
    rows: list[dict[str, Any]] = []
    device: dict[str, Any] = {}
    for unit in units(name, options):
        answer = _ask(name, unit, quiet)
        rows += answer["rows"]
        device = answer["device"]
    return Measured(name, rows, device)


def units(name: str, options: Options) -> Iterator[dict[str, Any]]:
    """What the children of a section are asked, in order; compile time and memory need one for each row."""
    common = {"repeats": options.repeats, "steps": options.steps}
    named = {"policies": options.policies, "capacities": options.capacities}
    if name == "compare":
        yield {**named, **common, "lanes": options.lanes, "bounds": options.bounds}
    elif name == "cores":
        yield {**named, **common, "lanes": options.lanes}
    elif name == "device":
        yield {**named, **common, "lanes": options.device_lanes, "seconds": options.point_seconds}
    elif name == "growth":
        yield {"policies": options.growth_policies, "repeats": max(2, options.repeats), "quick": options.quick}
    elif name == "compile":
        for policy in options.policies:
            yield {"policy": policy, "capacity": max(options.capacities), "steps": options.steps}
    elif name == "memory":
        for seeds in options.seeds:
            yield {"seeds": seeds}
    else:
        raise BenchError(f"unknown section {name!r}; there are {', '.join(SECTIONS)}")


def usable_cores() -> list[int]:
    """Numbers of the cores this process may use, [] where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def environment(section: Section, cores: Sequence[int]) -> dict[str, str]:
    """Environment of a section's child. `cores`: those it may use."""
    found = dict(os.environ)
    if section.cpu:
        found["JAX_PLATFORMS"] = "cpu"
    # A program read from a cache would be a compile time of nearly 0.
    found["JAX_ENABLE_COMPILATION_CACHE"] = "0"
    if section.cpu:
        count = max(1, len(cores)) if section.split else 1
        flags = [f for f in found.get("XLA_FLAGS", "").split() if "host_platform_device_count" not in f]
        found["XLA_FLAGS"] = " ".join([*flags, f"--xla_force_host_platform_device_count={count}"])
    return found


def _ask(name: str, unit: Mapping[str, Any], quiet: bool) -> dict[str, Any]:
    section = SECTIONS[name]
    request = {"section": name, "unit": unit, "pinned": section.pinned, "quiet": quiet}
    done = subprocess.run(
        [sys.executable, "-m", "solarjax.bench.child", json.dumps(request)],
        env=environment(section, usable_cores()),
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode not in (0, FAILED):
        raise RuntimeError(f"the {name} section ended with exit code {done.returncode}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        raise BenchError(answer["error"])
    return answer
