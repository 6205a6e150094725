"""Stored rows of a world in which the papers' claims are true, for tests of what reads rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from experiments import store
from experiments.statistics import compare, correct
from experiments.types import Row

CLASSIC = ("lru", "lfu", "arc")


def cell(
    table, policy, measure, mean, x, *, group="", diff=None, spread=0.001, n=1000, capacity=None, entry="run", **more
):
    """A row with a tight interval; `diff` gets one too, and a p value that says whether it is certain."""
    extra = {}
    if diff is not None:
        extra = {
            "baseline": "fifo", "diff": diff, "diff_low": diff - spread, "diff_high": diff + spread,
            "p_value": 1e-9 if abs(diff) > spread else 0.6, "effect": diff / 0.01, "better": 0.9, "detectable": 0.01,
        }  # fmt: skip
    extra |= more
    return Row(
        table=table, policy=policy, measure=measure, mean=mean, group=group, x_name="K", x=float(x), sd=0.01,
        capacity=int(x) if capacity is None else capacity, low=mean - spread, high=mean + spread, n=n, unit="seed",
        entry=entry, **extra,
    )  # fmt: skip


def cycling():
    out = []
    for x in (1, 1.5, 2, 3, 5):
        fifo = 0.9 if x == 1 else 0.0
        out.append(replace(cell("cycling", "fifo", "hit_rate", fifo, x, capacity=10), sd=0.0))
        out.append(cell("cycling", "lru", "hit_rate", 0.38 if x == 1 else 0.0, x, diff=-0.52 if x == 1 else -0.05))
        out += [cell("cycling", p, "hit_rate", 0.2, x, diff=-0.1) for p in ("lfu", "arc")]
        out.append(cell("cycling", "solar_a", "hit_rate", 0.161, x, diff=0.161))
        out += [cell("cycling", p, "hit_rate", 0.05, x, diff=0.05) for p in ("keep_first", "bernoulli", "gated_fifo")]
        out.append(cell("cycling", "solar_a", "store_rate", 0.1, x))
        out += [cell("cycling", p, "admission_rate_full", 0.17, x) for p in ("solar", "solar_paper")]
        out += [cell("cycling", p, "switches", 100.0 * x, x, capacity=10) for p in ("fifo", *CLASSIC)]
    return out


def working_set():
    gaps = {5: 0.01, 10: 0.05, 15: 0.1, 20: 0.06, 30: 0.002, 50: -0.01, 100: -0.02}
    out = []
    for x, gap in gaps.items():
        out.append(cell("working set", "fifo", "hit_rate", 0.5, x, group="uniform"))
        out += [cell("working set", p, "hit_rate", 0.4, x, group="uniform", diff=-0.1) for p in CLASSIC]
        out.append(cell("working set", "solar_a", "hit_rate", 0.5 + gap, x, group="uniform", diff=gap))
        out.append(cell("working set", "solar_a", "final_size", min(x, 40.0), x, group="uniform"))
        out += [
            cell("working set", p, "admission_rate_full", 0.17, x, group="uniform") for p in ("solar", "solar_paper")
        ]
    return out


def noise_probe():
    out = []
    hits = {10: 0.015, 100: 0.114, 1000: 0.2, 5000: 0.09}
    for pool in ("preferred", "uniform"):
        for x, hit in hits.items():
            out.append(cell("probe", "frozen pool", "hit_rate", hit, x, group=pool))
            out.append(cell("probe", "frozen pool", "topic_precision", 0.4, x, group=pool))
        for policy, gap in (
            ("all items from 1,000 to 5,000", -0.11), ("off-topic items from 1,000 to 5,000", -0.11),
            ("on-topic items from 1,000 to 5,000", 0.0),
        ):  # fmt: skip
            out.append(cell("causes", policy, "hit_rate", gap, 5000, group=pool, diff=gap))
    return out


def noise_stream():
    out = []
    for x in (50, 100, 200, 500, 1000):
        out.append(cell("stream", "solar", "hit_rate", 0.094, x, diff=0.01))
        out += [cell("stream", p, "hit_rate", 0.06, x, diff=-0.01) for p in ("lfu", "keep_first", "bernoulli")]
        out.append(cell("stream", "solar_a", "final_size", 40.0, x))
    return out


def drift():
    out = [cell("ageing", p, "hit_rate", 0.9, 20, diff=0.05) for p in ("solar_e", "solar")]
    out += [cell("drift", p, "hit_rate", 0.9, 20, diff=0.02) for p in ("solar_e", "solar")]
    out += [cell("drift", p, "hit_rate", 0.8, 20, diff=-0.05) for p in CLASSIC]
    return out + [cell("drift", p, "switches", 600.0, 20) for p in ("fifo", *CLASSIC)]


def ablation():
    names = ("as the paper: A with its own eviction", "factorial: the gate with FIFO eviction")
    groups = ("cycling m=20", "LoCoMo P1 turns")
    return [
        cell("synergy", p, "excess", 0.004, x, group=g, diff=0.004) for p in names for g in groups for x in (10, 50)
    ]


def locomo(table="locomo"):
    out = []
    for group in ("P1 turns", "P2 mean=100"):
        for x, gap in {10: 0.05, 20: 0.03, 50: 0.02, 100: -0.02}.items():
            out.append(cell(table, "fifo", "hit_rate", 0.3, x, group=group, n=10))
            out.append(cell(table, "solar(signal=miss)", "hit_rate", 0.3 + gap, x, group=group, diff=gap, n=10))
            out += [cell(table, p, "hit_rate", 0.2, x, group=group, diff=-0.1, n=10) for p in CLASSIC]
            out.append(cell(table, "bernoulli", "hit_rate", 0.2, x, group=group, diff=-0.1, n=10))
            out += [
                cell(table, p, "admission_rate_full", 0.17, x, group=group, n=10)
                for p in ("solar(signal=miss)", "solar_paper(fill=free)")
            ]
    return out


def learning():
    out = []
    for x in (10, 20, 50):
        out.append(cell("slope", "solar(signal=miss)", "learning_slope", 0.01, x, group="P2 mean=100", diff=0.005))
        out += [
            cell("slope against SOLAR", p, "learning_slope", 0.004, x, group="P2 mean=100", diff=-0.006)
            for p in ("fifo", *CLASSIC)
        ]
    return out


def latency():
    return [cell("latency", p, m, 0.1, 100) for p in ("solar",) for m in ("p50 (ms)", "p99 (ms)")]


WORLD = {
    "cycling": cycling, "working_set": working_set, "noise_probe": noise_probe, "noise_stream": noise_stream,
    "drift": drift, "ablation": ablation, "locomo": locomo, "learning": learning, "latency": latency,
}  # fmt: skip


def record(name, **changes):
    """A provenance record of an artefact as the runner writes it."""
    entry = {
        "key": "0" * 16, "command": f"solarjax run --workload {name}", "code": "1" * 16, "seconds": 1.5, "lanes": 10,
        "created": "2026-01-01T00:00:00+00:00", "git": {"sha": "a" * 40, "dirty": False}, "versions": {"jax": "0.10"},
        "device": {"count": 2, "kind": "cpu"}, "config": {},
    }  # fmt: skip
    return {
        "schema": 1, "id": name, "status": "done", "quick": False, "seeds": None, "created": entry["created"],
        "command": f"python -m experiments run {name}", "git": None, "entries": {"run": entry}, "key": "k", **changes,
    }  # fmt: skip


def write(out: Path, published=None) -> Path:
    """Stores the world under `out`; `published`: artefact -> figures to compare with."""
    for name, make in WORLD.items():
        rows = compare(correct(make()), (published or {}).get(name, {}))
        store.save_artefact(out, name, rows, record(name))
    return out


def edit(out: Path, artefact: str, chosen, **changes) -> None:
    """Changes stored figures on disk: every row for which `chosen(row)` holds. Fails if there is none."""
    held = store.load_artefact(out, artefact)
    rows = [replace(row, **changes) if chosen(row) else row for row in held.rows]
    assert rows != list(held.rows)
    store.save_artefact(out, artefact, rows, dict(held.record))


def dump(path: Path, value) -> Path:
    """Writes JSON."""
    path.write_text(json.dumps(value), encoding="utf-8")
    return path
