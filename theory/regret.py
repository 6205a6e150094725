"""Regret of victim rules on the worlds of `theory.bandit`, for many keys and gaps at once.

A family is one compiled program; its variants (with and without ageing, with and without novelty) differ in numbers
only and run as lanes beside each other. Random numbers are common: every rule meets the same draws under one key.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import PartitionSpec

from solarjax.core import streams
from solarjax.core.parallel import AXIS, local_mesh
from solarjax.core.random import key_words
from solarjax.core.types import Policy
from solarjax.policies.registry import case
from theory.bandit import World, excess_counts
from theory.baselines import epsilon_greedy, ucb
from theory.errors import TheoryError
from theory.lane import policy_of
from theory.statistics import Interval, bootstrap, slope

SELECTION = 0.2
"""Extra keys, as a share of the scored ones, on which the worst gap is chosen; the score is on the others."""


class Family(NamedTuple):
    """make(world) -> factory(**numbers) -> Policy.  variants: label -> numeric parameters."""

    make: Callable[[World], Callable[..., Policy]]
    variants: Mapping[str, Mapping[str, float]]


def _registered(name: str, **static: Any) -> Callable[[World], Callable[..., Policy]]:
    found = case(name, **static)
    return lambda world: lambda **numbers: policy_of(found, **numbers)


def _one(name: str, label: str | None = None, **static: Any) -> Family:
    return Family(_registered(name, **static), {label or name: {}})


_FLAT = {"prior_alpha": 1.0, "prior_beta": 1.0}
FAMILIES: Mapping[str, Family] = {
    # The textbook rule: flat prior, no bonus, no ageing.
    "thompson": Family(_registered("solar_e", bonus="none", ageing="none"), {"thompson": _FLAT}),
    "discounted": Family(
        _registered("solar_e_discounted", bonus="none"), {"thompson, discounted": {**_FLAT, "discount": 0.99}}
    ),
    "solar_e": Family(
        _registered("solar_e"),
        {
            "thompson as run": {"age_step": 0.0, "bonus_weight": 0.0},
            "with ageing": {"age_step": 0.05, "bonus_weight": 0.0},
            "with novelty": {"age_step": 0.0, "bonus_weight": 0.3},
            "solar_e": {"age_step": 0.05, "bonus_weight": 0.3},
        },
    ),
    "solar_e_paper": _one("solar_e_paper"),
    "solar_e_discounted": _one("solar_e_discounted"),
    "fifo": _one("fifo"),
    "lru": _one("lru"),
    "lfu": _one("lfu"),
    "arc": _one("arc"),
    "random": _one("random"),
    "ucb": Family(lambda world: lambda: ucb(-1.0 if world.kind == "pull" else 1.0), {"ucb": {}}),
    "epsilon": Family(lambda world: lambda: epsilon_greedy(), {"epsilon-greedy": {}}),
}
AS_RUN = ("solar_e", "solar_e_paper", "solar_e_discounted", "fifo", "lru", "lfu", "arc", "random")
BANDIT = ("thompson", "discounted", "ucb", "epsilon", "random")


class Runs(NamedTuple):
    """Regrets of one variant in requests. regret: `[R, G, C]` over keys, gaps and checkpoints.  gaps, marks: axes."""

    regret: np.ndarray
    gaps: np.ndarray
    marks: np.ndarray


def regrets(
    family: str, world: World, gaps: Sequence[float], marks: Sequence[int], keys: int, root_key: int
) -> dict[str, Runs]:
    """Runs a family and returns its variants' regrets; remembered, so checks may share a run.

    Args:
      family: a name in FAMILIES.     world: where.
      gaps: each in (0, 1/2].         marks: checkpoints T, increasing.
      keys: repetitions R.            root_key: root of the random numbers.

    Raises:
      TheoryError: an unknown family, or a value out of range.
    """
    if family not in FAMILIES:
        raise TheoryError(f"unknown family {family!r} (known: {', '.join(FAMILIES)})")
    if not all(0 < g <= 0.5 for g in gaps) or not gaps:
        raise TheoryError(f"gaps = {list(gaps)} must lie in (0, 0.5]")
    if not marks or list(marks) != sorted(set(marks)) or marks[0] < 1:
        raise TheoryError(f"checkpoints {list(marks)} must be increasing and >= 1")
    if world.k < 1 or (world.k + 1) * (marks[-1] + world.k) >= 2**31:
        raise TheoryError(f"K = {world.k} with T = {marks[-1]} is out of range; K >= 1 and (K + 1) (T + K) < 2^31")
    return _regrets(family, world, tuple(gaps), tuple(marks), keys, root_key)


@functools.lru_cache(maxsize=256)
def _regrets(
    family: str, world: World, gaps: tuple[float, ...], marks: tuple[int, ...], keys: int, root_key: int
) -> dict[str, Runs]:
    variants = FAMILIES[family].variants
    shape = (len(variants), len(gaps), keys)
    names = sorted({name for numbers in variants.values() for name in numbers})
    own = streams.per_seed(root_key, "theory", f"bandit {world.kind}", range(keys))
    words = np.broadcast_to(np.asarray(key_words(own)), (*shape, 2)).reshape(-1, 2).T
    gap = np.broadcast_to(np.asarray(gaps, np.float32)[None, :, None], shape).reshape(-1)
    params = {
        name: np.broadcast_to(
            np.asarray([numbers[name] for numbers in variants.values()], np.float32)[:, None, None], shape
        ).reshape(-1)
        for name in names
    }
    counts = _run(family, world, words, gap, params, marks)
    unit = np.asarray(gaps, np.float64) * (2 if world.kind == "fresh" else 1)
    regret = counts.reshape(len(marks), *shape).transpose(1, 3, 2, 0) * unit[None, None, :, None]
    return {
        label: Runs(regret[i], np.asarray(gaps, np.float64), np.asarray(marks, np.int64))
        for i, label in enumerate(variants)
    }


def _run(
    family: str, world: World, words: np.ndarray, gap: np.ndarray, params: dict[str, np.ndarray], marks: tuple[int, ...]
) -> np.ndarray:
    """Excess counts `[C, B]`, lanes spread over all devices (each runs whole lanes on its own)."""
    mesh = local_mesh()
    size = gap.shape[0]
    padded = -(-size // mesh.size) * mesh.size
    fill = np.minimum(np.arange(padded), size - 1)
    make = FAMILIES[family].make(world)

    def local(words: Array, gap: Array, params: dict[str, Array]) -> Array:
        return excess_counts(world, make, words, gap, params, jnp.asarray(marks, jnp.int32), marks[-1])

    lane, row = PartitionSpec(AXIS), PartitionSpec(None, AXIS)
    run = jax.jit(
        jax.shard_map(
            local, mesh=mesh, in_specs=(row, lane, dict.fromkeys(params, lane)), out_specs=row, check_vma=False
        )
    )
    out = run(words[:, fill], gap[fill], {name: values[fill] for name, values in params.items()})
    return np.asarray(out, np.int64)[:, :size]


class Group(NamedTuple):
    """Gaps, and the checkpoints T that they are run to."""

    gaps: tuple[float, ...]
    marks: tuple[int, ...]


class Worst(NamedTuple):
    """Regret at the gap that is worst for each T. regret: `[R, C]` on fresh keys.  gap: `[C]`.  marks: `[C]`."""

    regret: np.ndarray
    gap: np.ndarray
    marks: np.ndarray

    def late(self) -> Worst:
        """The later half of the checkpoints on the logarithmic axis: T >= sqrt(first * last).

        What a run does at its start (nothing is lost before the first arrival or the first change) is no part of how
        its regret grows, but it bends a slope over all T, upwards where the start is cheap.
        """
        late = self.marks >= np.sqrt(float(self.marks[0]) * float(self.marks[-1])) * (1 - 1e-9)
        return Worst(self.regret[:, late], self.gap[late], self.marks[late])

    def rates(self) -> np.ndarray:
        """`[C - 1]` mean regret per step between checkpoints; it levels off above 0 where regret is linear."""
        return np.diff(self.regret.mean(axis=0)) / np.diff(self.marks)

    def means(self, seed: int, looks: int = 1) -> list[Interval]:
        """Mean regret per checkpoint."""
        return [bootstrap(column, np.mean, seed, looks=looks) for column in self.regret.T]

    def exponent(self, seed: int, looks: int = 1, resamples: int = 1000) -> Interval:
        """Slope of log mean regret against log T. Keys are resampled whole: the sizes of one key share a run."""
        return bootstrap(
            self.regret, lambda rows: float(slope(self.marks, rows.mean(axis=0))), seed, resamples, looks=looks
        )


def worst_gap(
    family: str, world: World, groups: Sequence[Group], keys: int, root_key: int, selection: float = SELECTION
) -> dict[str, Worst]:
    """Per variant the worst gap for each T, chosen on extra keys and scored on `keys` fresh ones: a maximum taken on
    the keys that are reported would be too large.

    Args:
      groups: gaps with the checkpoints they are run to. The checkpoints of every group are the first ones of the
        longest, so that large gaps, whose regret has levelled off, need not be run to the largest T.
      selection: extra keys as a share of `keys`; few of them choose a wrong gap now and then.

    Raises:
      TheoryError: no groups, checkpoints that are not the first ones of the longest, or see `regrets`.
    """
    longest = max((g.marks for g in groups), key=len, default=())
    if any(tuple(g.marks) != tuple(longest[: len(g.marks)]) for g in groups) or not longest:
        raise TheoryError(f"groups {list(groups)}: the checkpoints of each must be the first ones of the longest")
    extra = max(8, round(selection * keys))
    parts = [regrets(family, world, g.gaps, g.marks, keys + extra, root_key) for g in groups]
    out = {}
    for label in parts[0]:
        runs = [part[label] for part in parts]
        gaps = np.concatenate([r.gaps for r in runs])
        reach = [((0, 0), (0, 0), (0, len(longest) - len(r.marks))) for r in runs]
        regret = np.concatenate(
            [np.pad(r.regret, pad, constant_values=-np.inf) for r, pad in zip(runs, reach, strict=True)], axis=1
        )
        chosen = regret[keys:].mean(axis=0).argmax(axis=0)
        column = np.arange(len(longest))
        out[label] = Worst(regret[:keys][:, chosen, column], gaps[chosen], np.asarray(longest, np.int64))
    return out
