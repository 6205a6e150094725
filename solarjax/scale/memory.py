"""Memory of a sweep that is written to disk: computed from its plan, and measured over a run.

    python -m solarjax.scale.memory plan --seeds 50000 --steps 1000
    python -m solarjax.scale.memory run --seeds 4000 --steps 100

`plan` computes nothing and prints what the largest moment of the run needs. `run` fills a store in a temporary
folder and prints the process's memory after each region, beside what the plan said.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from solarjax.core.metrics import COUNTS, TOTALS
from solarjax.core.plan import lane_bytes
from solarjax.core.task_runner import TaskRunner
from solarjax.core.tasks import SweepPlan, plan_sweep
from solarjax.scale.regions import cell_bytes, cells_per_seed, lay_out

BASE_BYTES = 700 * 2**20
"""Interpreter, jax, compiled programs and allocator: what a process holds before the first lane."""
SEED_BYTES = 200
"""A seed in the plan's lists, in the configuration's JSON text and in the store's coordinate."""
TASK_BYTES = 400
"""A task of the plan with its name and its places in tables of tasks."""


def lanes(plan: SweepPlan) -> int:
    """Cells of the result: traces x policies x capacities x grid points x seeds."""
    return len(plan.source.traces) * len(plan.seeds) * cells_per_seed(plan)


def peak_bytes(plan: SweepPlan, layout: dict[str, Any], devices: int = 1) -> dict[str, int]:
    """Parts of the largest moment of a run into regions, in bytes; none of them grows with the lanes of the sweep.

    Args:
      plan: the sweep.
      layout: how it is cut, from `scale.regions.lay_out`.
      devices: devices a block is spread over.

    Returns:
      `tables` of one block (twice, while they are built), `lanes` of its widest task, `counters` it returns (on
      the device and on the host), `region` in memory, `plan` itself (this one grows, by a few hundred bytes per block
      and seed), `base` of the process, and their `total`.
    """
    cut = plan.laid_out(layout)
    needs = [case.needs for case in plan.policies]
    pairwise = any(n.pairwise or n.candidate_similarity for n in needs)
    pair = plan.source.bytes_per_pair(pairwise, any(n.future for n in needs))
    padded = -(-cut.block_pairs // devices) * devices
    steps = plan.source.num_steps if plan.per_step else 0
    groups = [g for gs in plan.groups for g in gs]
    widest = max(len(g.combos) for g in groups)
    per_lane = 4 * (len(COUNTS) + len(TOTALS) + 1 + 2 * len(plan.source.categories)) + steps
    region = int(layout["region_seeds"]) * cells_per_seed(plan) * cell_bytes(plan)
    parts = {
        "tables": 2 * padded * pair,
        "lanes": padded * max(len(g.combos) * lane_bytes(g.num_slots, plan.k, steps) for g in groups),
        "counters": 2 * padded * widest * per_lane,
        "region": 2 * region,
        "plan": len(plan.seeds) * SEED_BYTES + len(cut.tasks) * TASK_BYTES,
        "base": BASE_BYTES,
    }
    return parts | {"total": sum(parts.values())}


def resident_bytes() -> int:
    """Memory of this process now, in bytes (Linux; elsewhere the largest so far)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return largest_bytes()


def largest_bytes() -> int:
    """Largest resident memory of this process so far, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def filled(plan: SweepPlan, layout: dict[str, Any], folder: Path) -> list[dict[str, int]]:
    """Runs a plan into a new store, cut as `layout` says; memory after each region.

    Returns:
      Rows of `lanes` finished and `resident` bytes.
    """
    from solarjax.scale.sinks import RegionSink

    sink = RegionSink(plan, folder / "result.zarr", layout=layout)
    runner, rows, done = TaskRunner(sink.plan), [], 0
    for region in sink.store.regions:
        for task in region.tasks:
            sink.put(task, runner.run(task))
        done += (region.stop - region.start) * cells_per_seed(plan)
        rows.append({"lanes": done, "resident": resident_bytes()})
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of the module's docstring."""
    from solarjax.policies.registry import parse_cases
    from solarjax.workloads.registry import make
    from solarjax.workloads.sources import GeneratedSource

    parser = argparse.ArgumentParser(prog="python -m solarjax.scale.memory", description="Memory of a sweep on disk.")
    parser.add_argument("what", choices=("plan", "run"))
    parser.add_argument("--policies", default="fifo,lru,solar_e,solar")
    parser.add_argument("--capacities", default="10,20,30,40,50")
    parser.add_argument("--seeds", type=int, default=50_000)
    parser.add_argument("--steps", type=int, default=1000, help="T of the workload, working_set")
    parser.add_argument("--regions", type=int, default=8, help="run: regions to cut the seeds into, at least")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args(arguments)
    cases, grid = parse_cases(given.policies, [])
    source = GeneratedSource(make("working_set", n_topics=15, n_steps=given.steps))
    capacities = [int(k) for k in given.capacities.split(",")]
    plan = plan_sweep(source, cases, capacities, given.seeds, grid=grid)
    layout = lay_out(plan) if given.what == "plan" else lay_out(plan, writers=-(-given.regions // 4))
    import jax

    parts = peak_bytes(plan, layout, jax.local_device_count())
    print(f"{lanes(plan)} lanes x {given.steps} steps, {layout}")
    for name, size in parts.items():
        print(f"  {name:9s} {size / 2**20:8.1f} MiB")
    report: dict[str, Any] = {"lanes": lanes(plan), "steps": given.steps, "layout": layout, "planned": parts}
    if given.what == "run":
        with tempfile.TemporaryDirectory() as folder:
            report["rows"] = filled(plan, layout, Path(folder))
        for row in report["rows"]:
            print(f"  after {row['lanes']:8d} lanes {row['resident'] / 2**20:8.1f} MiB")
        report["largest"] = largest_bytes()
        print(f"  largest   {report['largest'] / 2**20:8.1f} MiB")
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
