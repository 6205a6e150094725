"""Complexity scaling: measured exponents of the run time in steps, capacity, slots and lanes."""

from __future__ import annotations

import numpy as np
from scipy import stats

from experiments.measurements import scaling
from experiments.types import Artefact, Context, Measurement, Plan, Results, Row, View

POLICIES = "fifo,lru,solar_a,solar"
BASE = {"T": 250, "K": 32, "N": 32, "B": 256}
AXES = {"T": (125, 250, 500, 1000), "N": (16, 32, 64, 128), "K": (8, 16, 32), "B": (64, 256, 1024)}
NAMES = {"T": "steps T", "N": "slots N = K", "K": "capacity K of 32 slots", "B": "lanes"}


def plan(context: Context) -> Plan:
    """One measurement of one process; a quick run takes FIFO along T and lanes only."""
    axes = {"T": (125, 500), "B": (64, 512)} if context.quick else AXES
    config = {
        "policies": "fifo" if context.quick else POLICIES, "base": BASE, "axes": {n: list(v) for n, v in axes.items()},
        "repeats": 3 if context.quick else 5, "root_seed": 0,
    }  # fmt: skip
    return {"scaling": Measurement(config, scaling.measure)}


def rows(results: Results) -> list[Row]:
    """`time`: the fastest repeat, nanoseconds per lane and step. `exponent`: slope of log seconds on log size."""
    data = results["scaling"]
    out = []
    for i, policy in enumerate(map(str, data["policy"].values)):
        fastest = data["seconds"].values[i].min(axis=-1)
        for axis in dict.fromkeys(map(str, data["axis"].values)):
            here = data["axis"].values == axis
            sizes = data["size"].values[here].astype(float)
            for size, seconds in zip(sizes, fastest[here], strict=True):
                at = {**BASE, axis: size}
                out.append(
                    Row(
                        table="time", policy=policy, measure="ns per lane and step", group=NAMES[axis],
                        x_name=NAMES[axis], x=float(size), mean=float(1e9 * seconds / (at["T"] * at["B"])),
                        entry="scaling",
                    )
                )  # fmt: skip
            slope, low, high = exponent(sizes, fastest[here])
            out.append(
                Row(
                    table="exponent", policy=policy, measure=NAMES[axis], mean=slope, low=low, high=high,
                    n=len(sizes), unit="size", entry="scaling",
                )
            )  # fmt: skip
    return out


def exponent(sizes: np.ndarray, seconds: np.ndarray) -> tuple[float, float | None, float | None]:
    """Least-squares slope of log seconds on log size with its 95 % t interval, None with fewer than three sizes."""
    fit = stats.linregress(np.log(sizes), np.log(seconds))
    if len(sizes) < 3:
        return float(fit.slope), None, None
    half = stats.t.ppf(0.975, len(sizes) - 2) * fit.stderr
    return float(fit.slope), float(fit.slope - half), float(fit.slope + half)


ARTEFACT = Artefact(
    id="complexity",
    title="Complexity scaling",
    source="section 4.4 and 6.7",
    plan=plan,
    rows=rows,
    views=(
        View("exponent", "*", "Exponent of the run time", False, False),
        View("time", "ns per lane and step", "Nanoseconds per lane and step", False, False),
    ),
    summary=(
        "Time of the compiled rollout, fastest repeat, compilation apart. An exponent of 1 is linear, 0 free. A "
        "capacity is a mask over N slots, so the time follows N and not K; the nearest residents that SOLAR asks for "
        "are followed from eviction to eviction: N for each list that has run short, N squared at worst. Short runs "
        "hold constant costs, so exponents below 1 mean that the machine was not full."
    ),
    claims=("S28",),
    alone=True,
)
