"""Policy steps per second of the engine against a compiled numba loop, paired in one run on one core.

Usage: scripts/bench [--repeats 7] [--lanes 1024] [--steps 500] [--capacities 10,50] [--memory] [--json FILE]

Both sides get the same tables (one workload per lane, 15 topics, d = 128) and do the same accounting. They run in
turn, engine, peer, engine, peer ..., so a machine whose speed drifts slows both; the figure is the median of the
pairwise ratios. Compile time is reported apart. `--memory` instead measures peak memory against the number of seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

AUTHORS_STEPS_PER_SECOND = 0.018e6
"""The authors' numpy release, best case measured before this project began (all policies mixed, K = 10)."""


def parse() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="paired runs (default 7)")
    parser.add_argument("--lanes", type=int, default=1024, help="workloads side by side (default 1024)")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--capacities", default="10,50")
    parser.add_argument("--policies", default="fifo,solar", help="of fifo, solar")
    parser.add_argument("--memory", action="store_true", help="peak memory against the number of seeds")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    parser.add_argument("--memory-child", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def one_core() -> int:
    """Binds the process to one core before any thread pool exists; returns its number."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def build_tables(lanes: int, steps: int):
    """Tables of `lanes` workloads as the engine wants them, and per-lane copies for the peer."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from solarjax.core.relevance import packed
    from solarjax.core.source import Block
    from solarjax.core.tables import Schedule, Tables

    rng = np.random.default_rng(0)
    similarity = np.empty((lanes, steps, steps), np.float32)
    near = np.empty_like(similarity)
    relevance = np.empty((lanes, steps, steps), bool)
    for lane in range(lanes):
        centres = rng.normal(size=(15, 128))
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        topic, asked = rng.integers(0, 15, (2, steps))

        def around(which, noise, centres=centres):
            points = centres[which] + noise * rng.normal(size=(steps, 128))
            return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)

        items, queries = around(topic, 0.1), around(asked, 0.05)
        similarity[lane], near[lane] = queries @ items.T, items @ items.T
        relevance[lane] = asked[:, None] == topic[None]
    total = relevance.sum(axis=2).astype(np.float32)
    numbers = np.arange(steps, dtype=np.int32)

    def spread(x):
        return jnp.asarray(np.repeat(x[:, None], lanes, axis=1))

    block = Block(
        Tables(
            jnp.asarray(similarity.swapaxes(0, 1)),
            jnp.asarray(relevance.swapaxes(0, 1)),
            jnp.asarray(total.T),
            jnp.asarray(near),
        ),
        Schedule(
            query=spread(numbers),
            arrival=spread(numbers),
            arrival_on_miss=None,
            mode=spread(np.full(steps, 3, np.uint8)),
            second_half=spread(numbers >= steps // 2),
            slope_weight=spread(np.full(steps, 1 / steps, np.float32)),
        ),
        np.arange(lanes, dtype=np.int32),
    )
    block = block._replace(tables=packed(block.tables))
    jax.block_until_ready(block.tables)
    return block, (similarity, relevance, total, near)


def engine_runner(block, policy: str, capacity: int, lanes: int, core_key: int = 0):
    """(compile seconds, a function that runs the whole block and returns counters)."""
    import jax
    import jax.numpy as jnp

    from solarjax.core.lanes import Lanes, Rules
    from solarjax.core.parallel import block_runner, local_mesh
    from solarjax.policies.registry import case

    chosen = case(policy)
    needs = chosen.needs
    rules = Rules(
        make=lambda **params: chosen.spec.make(**dict(chosen.static), **params),
        num_slots=capacity,
        costly_victim=needs.costly_victim,
        candidate_similarity=needs.candidate_similarity,
        pairwise=needs.pairwise,
    )
    keys = jax.random.key_data(jax.random.split(jax.random.key(core_key), lanes)).T
    index = jnp.arange(lanes, dtype=jnp.int32)
    params = {name: jnp.full(lanes, value, jnp.float32) for name, value in chosen.traced}
    operands = Lanes(index, index, jnp.full(lanes, capacity, jnp.int32), keys, params)
    tables = block.tables
    if not (needs.pairwise or needs.candidate_similarity):
        tables = tables._replace(item_similarity=None)
    run = block_runner(rules, local_mesh(jax.devices()[:1]), False)
    start = time.perf_counter()
    jax.block_until_ready(run(tables, block.schedule, operands))
    first = time.perf_counter() - start
    start = time.perf_counter()
    jax.block_until_ready(run(tables, block.schedule, operands))
    return first - (time.perf_counter() - start), lambda: jax.block_until_ready(run(tables, block.schedule, operands))


def compare(options: argparse.Namespace) -> list[dict]:
    """One row per policy and capacity."""
    import numpy as np

    sys.path.insert(0, str(Path(__file__).parent))
    from benchmarks import peer

    block, arrays = build_tables(options.lanes, options.steps)
    rows = []
    loops = {"fifo": peer.run_fifo, "solar": peer.run_solar}
    for policy in options.policies.split(","):
        if policy not in loops:
            raise SystemExit(f"unknown policy {policy!r}; the peer has {', '.join(loops)}")
        loop = loops[policy]
        for capacity in (int(c) for c in options.capacities.split(",")):
            compiled, run = engine_runner(block, policy, capacity, options.lanes)
            small = tuple(a[:1] for a in arrays)
            loop(*small, capacity)
            times: list[tuple[float, float]] = []
            for _ in range(options.repeats):
                start = time.perf_counter()
                ours = run()
                middle = time.perf_counter()
                theirs = loop(*arrays, capacity)
                times.append((middle - start, time.perf_counter() - middle))
            steps = options.lanes * options.steps
            engine, other = np.array(times).T
            hit = float(np.asarray(ours["hits"]).sum() / steps)
            same = float(theirs[:, 1].sum() / steps)
            if policy == "fifo" and abs(hit - same) > 1e-3:
                raise SystemExit(f"engine and peer disagree on FIFO: hit rate {hit} against {same}")
            ratio = other / engine
            rows.append(
                {
                    "policy": policy,
                    "capacity": capacity,
                    "engine_steps_per_s": steps / float(np.median(engine)),
                    "peer_steps_per_s": steps / float(np.median(other)),
                    "ratio": float(np.median(ratio)),
                    "ratio_min": float(ratio.min()),
                    "ratio_max": float(ratio.max()),
                    "times_authors": steps / float(np.median(engine)) / AUTHORS_STEPS_PER_SECOND,
                    "compile_s": compiled,
                    "hit_rate_engine": hit,
                    "hit_rate_peer": same,
                }
            )
    return rows


def memory_child(seeds: int) -> None:
    """Prints the peak resident memory, in MiB, of a sweep over `seeds` seeds."""
    from solarjax.core.sweep import sweep
    from solarjax.policies.registry import case
    from solarjax.workloads.registry import make
    from solarjax.workloads.sources import GeneratedSource

    source = GeneratedSource(make("cycling", n_topics=20))
    sweep(source, [case("fifo"), case("solar")], [10], seeds, memory_bytes=256 * 2**20)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def memory() -> list[dict]:
    """Peak memory of sweeps that differ in the number of seeds only, each in a process of its own."""
    rows = []
    for seeds in (512, 1024, 2048, 4096):
        command = [sys.executable, __file__, "--memory-child", str(seeds)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append({"seeds": seeds, "peak_mib": float(out.split()[-1])})
    return rows


def main() -> None:
    """Runs what was asked and prints a table."""
    options = parse()
    core = one_core()
    if options.memory_child is not None:
        memory_child(options.memory_child)
        return
    if options.memory:
        rows = memory()
        for row in rows:
            print(f"{row['seeds']:6d} seeds  peak {row['peak_mib']:7.0f} MiB")
    else:
        print(f"one core (number {core}), {options.lanes} lanes x {options.steps} steps, {options.repeats} paired runs")
        print("policy     K   engine      peer        ratio (min..max)    x authors   compile")
        rows = compare(options)
        for r in rows:
            rate, other = r["engine_steps_per_s"] / 1e6, r["peer_steps_per_s"] / 1e6
            print(
                f"{r['policy']:8s} {r['capacity']:3d}   {rate:6.2f} M/s  "
                f"{other:6.2f} M/s  {r['ratio']:5.2f} ({r['ratio_min']:.2f}..{r['ratio_max']:.2f})"
                f"   {r['times_authors']:7.0f}    {r['compile_s']:5.1f} s"
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
