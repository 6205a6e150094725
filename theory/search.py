"""Search for instances on which a policy is much worse than OPT, knowing nothing of the constructed families.

Two populations share every batch of evaluations. Evolution strategies ascend log(COST / OPT) on a relaxed
parametrisation (logits of values, arrivals and queries), rounded to an instance before it is scored, so that scores are
always exact; the gradient estimate goes through an optax optimiser. Discrete mutation edits the best instances found so
far. Thousands of instances are scored at once: the policy through the engine, OPT by bit masks.

A search over-fits the policy keys it was run on, so what it returns is scored again on fresh ones.

References:
  Wierstra et al. Natural evolution strategies. JMLR 15, 2014.
  Salimans et al. Evolution strategies as a scalable alternative to reinforcement learning. 2017 (mirrored sampling,
  rank-shaped scores).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from solarjax.core.trace import NO_ITEM, NO_QUERY
from solarjax.policies.registry import PolicyCase
from theory.competitive import ratio
from theory.engine import play
from theory.errors import TheoryError
from theory.model import Batch, Conventions
from theory.opt_exact import exact_cost

LEVELS = 4
"""Values are rounded to multiples of 1 / LEVELS: exact in float32, and short in a file."""
LOGIT = 6.0
"""Scale of a mutated instance's place in the relaxed space."""


@dataclass(frozen=True)
class Space:
    """What is searched: T steps, N items, K, lam, quality and conventions are fixed; values, arrivals and queries vary.

    Every step has its own query. `values [T, N]` are similarities and relevance at once; items are orthogonal.

    Raises:
      TheoryError: a size out of range; N is limited because OPT is exact over 2^N contents.
    """

    steps: int = 24
    items: int = 5
    capacity: int = 1
    k: int = 1
    lam: float = 1.0
    quality: str = "max_similarity"
    conventions: Conventions = Conventions()

    def __post_init__(self) -> None:
        if not 1 <= self.items <= 12:
            raise TheoryError(f"items = {self.items} is out of range; the search allows 1..12")
        if not self.lam > 0:
            raise TheoryError(f"lam = {self.lam} must be > 0 here: with free changes OPT may be 0")
        if self.steps < 2:
            raise TheoryError(f"steps = {self.steps} must be >= 2")

    def batch(self, genomes: Genomes) -> Batch:
        """The instances; raises TheoryError as `Batch` does."""
        size = len(genomes.values)
        query = np.where(genomes.asked, np.arange(self.steps), NO_QUERY)
        return Batch(
            relevance=genomes.values,
            similarity=genomes.values,
            query=query,
            arrival=genomes.arrival,
            lam=np.full(size, self.lam),
            capacity=self.capacity,
            k=self.k,
            quality=self.quality,
            conventions=self.conventions,
            names=("found by search",) * size,
        )


class Genomes(NamedTuple):
    """P instances of a space. values: `[P, T, N]` in [0, 1].  arrival: `[P, T]`.  asked: `[P, T] bool`."""

    values: np.ndarray
    arrival: np.ndarray
    asked: np.ndarray

    def take(self, index: np.ndarray) -> Genomes:
        """Some of them."""
        return Genomes(*(x[index] for x in self))


class Found(NamedTuple):
    """best: the worst instance found.   ratio: on fresh keys.   search_ratio: on the keys of the search.
    evaluations: instances scored.   seconds: time taken.   history: best ratio after each generation."""

    best: Batch
    ratio: float
    search_ratio: float
    evaluations: int
    seconds: float
    history: list[float]


def score(case: PolicyCase, batch: Batch, keys: int, root_key: int) -> np.ndarray:
    """COST(policy) / exact OPT of each instance, `[B]`."""
    return ratio(play(case, batch, keys=keys, root_key=root_key).cost.mean(axis=1), exact_cost(batch))


def rescore(case: PolicyCase, batch: Batch, keys: int, fresh_keys: int, root_key: int) -> np.ndarray:
    """Ratios on keys that no search with this `root_key` has seen, `keys` at a time (the compiled size)."""
    rounds = -(-fresh_keys // keys) if case.spec.stochastic else 1
    roots = [(root_key + 0x5EED + r) % 2**32 for r in range(rounds)]
    cost = np.mean([play(case, batch, keys=keys, root_key=r).cost.mean(axis=1) for r in roots], axis=0)
    return ratio(cost, exact_cost(batch))


def search(
    case: PolicyCase,
    space: Space,
    *,
    generations: int = 60,
    population: int = 1024,
    elites: int = 64,
    centres: int = 4,
    keys: int = 4,
    fresh_keys: int = 64,
    root_key: int = 0,
    seconds: float | None = None,
    stop_at: float | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Found:
    """Maximises COST(policy) / OPT.

    Args:
      population: instances per generation; half come from the evolution strategies, half from mutation.
      elites: best instances that mutation starts from.   centres: independent strategies.
      keys, fresh_keys: policy keys of the search and of the final score (1 is used for a deterministic policy).
      root_key: of every random number, the policy's included.
      seconds: stop after this long (checked between generations; compilation counts).
      stop_at: stop once this ratio is reached.

    Raises:
      TheoryError: sizes that do not fit together.
    """
    half = population // 2
    if population < 4 or half % (2 * centres) or elites < 1:
        raise TheoryError(f"population = {population} must be a multiple of 4 * centres = {4 * centres}, elites >= 1")
    begin = time.monotonic()
    rng = np.random.default_rng(root_key)
    shape = (space.steps, space.items)
    logits = {
        "values": jnp.asarray(rng.normal(size=(centres, *shape)), jnp.float32),
        "arrival": jnp.asarray(rng.normal(size=(centres, space.steps, space.items + 1)), jnp.float32),
        "asked": jnp.asarray(rng.normal(1, 1, (centres, space.steps)), jnp.float32),
    }
    adam = optax.adam(0.3)
    state = adam.init(logits)
    best = _random(rng, space, half)
    held = np.full(half, -np.inf)
    history: list[float] = []
    evaluations = 0
    for generation in range(generations):
        noise = jax.tree.map(lambda x: rng.normal(size=(half // centres // 2, *x.shape)).astype(np.float32), logits)
        noise = jax.tree.map(lambda x: np.concatenate([x, -x]), noise)  # mirrored sampling
        relaxed = jax.tree.map(lambda x, n: (np.asarray(x)[None] + n).reshape(-1, *x.shape[1:]), logits, noise)
        mutants = best if generation == 0 else _mutate(rng, space, best.take(rng.integers(0, len(held), half)))
        everyone = Genomes(*(np.concatenate(x) for x in zip(_rounded(relaxed), mutants, strict=True)))
        scores = score(case, space.batch(everyone), keys, root_key)
        evaluations += len(scores)
        shaped = _centred_ranks(scores[:half].reshape(-1, centres))
        grads = jax.tree.map(
            lambda n, w=shaped: -jnp.asarray((w.reshape(*w.shape, *[1] * (n.ndim - 2)) * n).mean(axis=0), jnp.float32),
            noise,
        )
        # optax mixes Python floats and integer counters, which strict promotion refuses.
        with jax.numpy_dtype_promotion("standard"):
            updates, state = adam.update(grads, state)
            logits = optax.apply_updates(logits, updates)
        pool = everyone if generation == 0 else Genomes(*(np.concatenate(x) for x in zip(best, everyone, strict=True)))
        values = scores if generation == 0 else np.concatenate([held, scores])
        order = np.argsort(-values, kind="stable")[:elites]
        best, held = pool.take(order), values[order]
        # The weakest strategy starts again from the best instance, so that the two populations help each other.
        weakest = int(scores[:half].reshape(-1, centres).max(axis=0).argmin())
        logits = jax.tree.map(lambda x, b, at=weakest: x.at[at].set(b), logits, _logits_of(best, space))
        history.append(float(held[0]))
        if progress is not None:
            progress(generation, history[-1])
        if (seconds is not None and time.monotonic() - begin > seconds) or (stop_at is not None and held[0] >= stop_at):
            break
    again = rescore(case, space.batch(best.take(np.arange(population) % min(8, len(held)))), keys, fresh_keys, root_key)
    pick = int(again[: min(8, len(held))].argmax())
    return Found(
        best=space.batch(best.take(np.array([pick]))),
        ratio=float(again[pick]),
        search_ratio=float(held[pick]),
        evaluations=evaluations,
        seconds=time.monotonic() - begin,
        history=history,
    )


def _random(rng: np.random.Generator, space: Space, size: int) -> Genomes:
    values = rng.integers(0, LEVELS + 1, (size, space.steps, space.items)) / LEVELS
    values *= rng.random((size, space.steps, space.items)) < rng.random((size, 1, 1))
    arrival = rng.integers(NO_ITEM, space.items, (size, space.steps))
    return Genomes(values, arrival, rng.random((size, space.steps)) < 0.8)


def _rounded(relaxed: dict[str, np.ndarray]) -> Genomes:
    values = np.round(LEVELS / (1 + np.exp(-np.asarray(relaxed["values"], np.float64)))) / LEVELS
    return Genomes(values, np.asarray(relaxed["arrival"]).argmax(axis=2) - 1, np.asarray(relaxed["asked"]) > 0)


def _logits_of(genomes: Genomes, space: Space) -> dict[str, jax.Array]:
    """The first genome as a place in the relaxed space."""
    one_hot = np.eye(space.items + 1)[genomes.arrival[0] + 1]
    return {
        "values": jnp.asarray((genomes.values[0] - 0.5) * LOGIT, jnp.float32),
        "arrival": jnp.asarray(one_hot * LOGIT / 2, jnp.float32),
        "asked": jnp.asarray(np.where(genomes.asked[0], LOGIT / 2, -LOGIT / 2), jnp.float32),
    }


def _mutate(rng: np.random.Generator, space: Space, parents: Genomes) -> Genomes:
    """One to four random edits of each parent: a value, an arrival, a query, a copied, moved or repeated step."""
    values, arrival, asked = (x.copy() for x in parents)
    size, lane = len(arrival), np.arange(len(arrival))
    for edit in range(4):
        on = lane[(rng.random(size) < 0.5) | (edit == 0)]
        t, i = rng.integers(0, space.steps, size), rng.integers(0, space.items, size)
        kind = rng.integers(0, 6, size)
        at = on[kind[on] == 0]
        values[at, t[at], i[at]] = rng.integers(0, LEVELS + 1, len(at)) / LEVELS
        at = on[kind[on] == 1]
        arrival[at, t[at]] = rng.integers(NO_ITEM, space.items, len(at))
        at = on[kind[on] == 2]
        asked[at, t[at]] ^= True
        at = on[kind[on] == 3]  # one item answers everything, or nothing, from here on
        later = np.arange(space.steps)[None] >= t[at][:, None]
        column = values[at, :, i[at]]
        values[at, :, i[at]] = np.where(later, rng.integers(0, 2, len(at))[:, None].astype(float), column)
        at = on[kind[on] == 4]
        source = rng.integers(0, space.steps, size)
        for array in (values, arrival, asked):
            array[at, t[at]] = array[at, source[at]]
        at = on[kind[on] == 5]  # the steps from t on move one back, the last is lost
        order = np.arange(space.steps)[None] - (np.arange(space.steps)[None] > t[at][:, None])
        for array in (values, arrival, asked):
            array[at] = array[at[:, None], order]
    return Genomes(values, arrival, asked)


def _centred_ranks(scores: np.ndarray) -> np.ndarray:
    """Ranks of each column, centred and scaled to [-1/2, 1/2]: the size of a ratio does not matter, only the order."""
    ranks = scores.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    return ranks / max(1, len(scores) - 1) - 0.5
