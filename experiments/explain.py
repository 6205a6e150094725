"""Why a published figure is not reproduced: sentences made of stored rows, never typed beside a cell.

The strongest account is the authors' own instances (artefact `authors_arrays`): two of the three printed seeds are
public, so what they give, what is left for the third, and how unusual each is among our seeds are all known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.artefacts.authors_arrays import PRINTED, SEEDS, THIRD
from experiments.statistics import BORDERLINE, REPRODUCED
from experiments.store import StoredArtefact
from experiments.types import Artefact, Row

INSTANCES = "authors_arrays"
GROUPS = {"cycling": "cycling", "working_set": "working_set", "drift": "topic_drift"}
"""Artefact -> group of the authors' instances."""
RARE = 0.01
"""An instance that fewer of our seeds than this would give is called unusual."""

Stored = Mapping[str, StoredArtefact]


def why(artefact: Artefact, row: Row, stored: Stored) -> str:
    """Why this cell is not reproduced, '' if it is; says so where nothing stored explains it."""
    if row.agrees == REPRODUCED or row.published is None:
        return ""
    own = stored[artefact.id].rows if artefact.id in stored else ()
    found = artefact.explain(row, own) if artefact.explain is not None else ""
    found = found or _instances(artefact, row, stored)
    if row.agrees == BORDERLINE:
        found = f"{_chance(row, own)} {found}"
    return found.strip() or "unexplained"


def _chance(row: Row, own: Sequence[Row]) -> str:
    compared = [r for r in own if r.published is not None]
    outside = sum(r.agrees != REPRODUCED for r in compared)
    return (
        f"Outside its own 95 % interval, but p = {row.gap_p:.2g} over the {len(compared)} figures compared here; of so "
        f"many about {0.05 * len(compared):.1f} are outside by chance, {outside} {'is' if outside == 1 else 'are'}."
    )


def _instances(artefact: Artefact, row: Row, stored: Stored) -> str:
    """What the authors' two public instances say about a printed mean of three."""
    name = GROUPS.get(artefact.id)
    if name is None or (row.group, row.x, row.policy, row.measure) not in PRINTED[name]:
        return ""
    if INSTANCES not in stored or not stored[INSTANCES].done:
        return "The authors' own instances are not stored (python -m experiments run authors_arrays)."
    cell = {
        (r.table, r.policy.split(", ")[-1]): r
        for r in stored[INSTANCES].rows
        if r.group == name and r.x == row.x and r.policy.rsplit(", ", 1)[0] == row.policy
    }
    lines = [*(f"seed {seed}" for seed in SEEDS), THIRD]
    if any(("instances", line) not in cell for line in lines):
        return ""
    value = {line: cell["instances", line].mean or 0.0 for line in lines}
    text = (
        f"On the authors' own arrays our engine finds {value[lines[0]]:.3f} (seed {SEEDS[0]}) and "
        f"{value[lines[1]]:.3f} (seed {SEEDS[1]}), so the printed mean of three leaves {value[THIRD]:.3f} for the "
        "third."
    )
    third = cell["instances", THIRD]
    if third.low is not None and third.high is not None and (third.low > 1 or third.high < 0):
        return text + " No hit rate is that: the printed figure and the authors' arrays do not belong together."
    places = {line: cell["place", line].mean or 0.0 for line in lines if ("place", line) in cell}
    if len(places) < len(lines):
        return text
    shares = ", ".join(_percent(places[line]) for line in lines)
    text += f" Of our {cell['place', THIRD].n:,} seeds {shares} lie at least as far from our mean as these."
    if places[THIRD] < RARE:
        return text + " The third would be unusual: chance does not explain it well."
    least = min(lines, key=lambda line: places[line])
    if least == THIRD:
        return text + " The least usual is the third, an ordinary draw: chance explains the difference."
    return (
        f"{text} The least usual is {least}. Our engine ran on that very array, so the instance makes the difference, "
        "not the program."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
