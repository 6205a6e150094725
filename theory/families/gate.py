"""Families against a regret gate with tau = 2 lam: what a gate that counts misses cannot see."""

from __future__ import annotations

import numpy as np

from theory.families.base import GATED, IRREDUCIBLE, Family, check_positive, exact_match, misses_to_fire
from theory.model import Batch, instance


def lock_out(lam: float, T: int, K: int = 1) -> Batch:
    """A one-shot item arrives while the gate is shut and is asked for ever after; later arrivals are never asked (S16).

    With K > 1 every arrival after the first is new, so that any victim rule changes the content each time.
    """
    check_positive(lam=lam, T=T - 1)
    fire = misses_to_fire(lam)
    junk = [1 + (t // fire) % 2 if K == 1 else 1 + t // fire for t in range(T - 1)]
    name = f"lock_out(K={K},lam={lam:g},T={T})"
    return exact_match([-1] + [0] * (T - 1), [0, *junk], max(max(junk) + 1, K), K, lam, name)


def _lock_out_gated(lam: float, T: int, K: int = 1) -> float:
    return T - 1 + lam * ((T - 1) // misses_to_fire(lam))


def misevict(lam: float, T: int, K: int = 1) -> Batch:
    """The gate admits a good item, then irreducible loss makes it throw that item out; it is asked for ever after."""
    fire = misses_to_fire(lam)
    lead = fire * (K + 1)
    check_positive(lam=lam, rest=T - lead)
    requests = [IRREDUCIBLE] * lead + [0] * (T - lead)
    arrivals = [t // fire if (t + 1) % fire == 0 else -1 for t in range(lead)] + [-1] * (T - lead)
    return exact_match(requests, arrivals, K + 1, K, lam, f"misevict(K={K},lam={lam:g},T={T})")


def _misevict_gated(lam: float, T: int, K: int = 1) -> float:
    return T + lam * (K + 1)


def _misevict_opt(lam: float, T: int, K: int = 1) -> float:
    lead = misses_to_fire(lam) * (K + 1)
    return lead + min(lam, T - lead)


def overshoot(lam: float, epochs: int) -> Batch:
    """Each epoch asks for a new topic whose item came while the gate was shut; c passes tau by up to one full miss.

    OPT (K = 2) inserts each item in time, so it changes its cache in every finished epoch and Def1 holds with nothing
    to check: the premise of T3 is met. (The last epoch stops one miss short of the gate's opening, because OPT has
    nothing left to insert in it; with tau < 1 an epoch is one miss and cannot.) The ratio tends to 1 + ceil(tau) / lam,
    close to 3 + 1 / lam where tau = 2 lam is just above a whole number; T3 says 3.
    """
    check_positive(lam=lam, epochs=epochs)
    fire = misses_to_fire(lam)
    requests, arrivals = [-1], [0]
    for j in range(epochs):
        following = j + 1 if j + 1 < epochs else -1
        if fire == 1:  # the only miss closes the epoch, so the next item needs a step without a query
            requests += [-1] * (following >= 0) + [j]
            arrivals += [following] * (following >= 0) + [j]
        else:
            requests += [j] * fire
            arrivals += [following] + [-1] * (fire - 2) + [j]
    steps = len(requests) - (fire > 1)
    name = f"overshoot(lam={lam:g},epochs={epochs})"
    return exact_match(requests[:steps], arrivals[:steps], max(epochs, 2), 2, lam, name)


def _overshoot_gated(lam: float, epochs: int) -> float:
    fire = misses_to_fire(lam)
    return epochs * (fire + lam) - (1 + lam) * (fire > 1)


def _overshoot_opt(lam: float, epochs: int) -> float:
    fire = misses_to_fire(lam)
    return (epochs - 1) * min(lam, fire) + min(lam, fire - (fire > 1))


def half_loss(lam: float, T: int) -> Batch:
    """The other side of T3: OPT keeps one item that halves every loss, the gate never has it. Def1 holds with equality
    and the ratio tends to 2 + 2 lam / tau, 3 for tau = 2 lam, if tau is a whole number."""
    check_positive(lam=lam, T=T - 1)
    fire = misses_to_fire(lam)
    junk = [1 + (t // fire) % 2 for t in range(T - 1)]
    query = np.zeros(T, np.int32)
    query[0] = -1
    name = f"half_loss(lam={lam:g},T={T})"
    return instance([[0.5, 0, 0]], query, np.array([0, *junk]), 1, lam, name=name, quality="max_similarity")


def tight_overshoot(lam: float, epochs: int, tau_per_lam: float, gap: float = 1 / 64) -> Batch:
    """`overshoot` with graded losses, for any threshold: in each epoch c rises to tau - gap, then comes one full miss.

    Tends to 1 + (tau + 1) / lam, the side of `bounds.cr_threshold` on which OPT changes. In the first epoch the empty
    cache loses 1 where later ones lose less.
    """
    check_positive(lam=lam, epochs=epochs, tau_per_lam=tau_per_lam)
    tau = tau_per_lam * lam
    whole = int(max(tau - gap, 0))
    levels = [1.0] * whole + [max(tau - gap - whole, 0.0)] + [1.0]
    table: list[np.ndarray] = []
    query, arrival = [-1], [0]
    for j in range(epochs):
        for s, level in enumerate(levels):
            row = np.full(max(epochs, 2), 1 - level)
            row[j] = 1.0
            query.append(len(table))
            table.append(row)
            last = s == len(levels) - 1
            arrival.append(j if last else (j + 1 if s == 0 and j + 1 < epochs else -1))
    name = f"tight_overshoot(lam={lam:g},epochs={epochs},tau={tau:g})"
    return instance(table, np.array(query), np.array(arrival), 2, lam, name=name, quality="max_similarity")


def tight_half_loss(lam: float, epochs: int, tau_per_lam: float) -> Batch:
    """`half_loss` with equal losses that add up to tau in each epoch: tends to 2 + 2 lam / tau, the other side."""
    check_positive(lam=lam, epochs=epochs, tau_per_lam=tau_per_lam)
    fire = misses_to_fire(lam, tau_per_lam)
    # A hair more than tau / fire, so that float32 sums reach the threshold.
    loss = min(1.0, tau_per_lam * lam / fire * (1 + 1e-6))
    junk = 1 - loss
    steps = epochs * fire
    arrival = np.array([0, 1, *(1 + ((t // fire) + 1) % 2 for t in range(steps))])
    query = np.array([-1, -1, *[0] * steps])
    name = f"tight_half_loss(lam={lam:g},epochs={epochs},tau={tau_per_lam * lam:g})"
    return instance([[1 - loss / 2, junk, junk]], query, arrival, 1, lam, name=name, quality="max_similarity")


def hiding(lam: float, blocks: int, asks: int, K: int = 1) -> Batch:
    """Many one-shot items, one of which is then asked: admit-all has already dropped it, a gate has not yet opened."""
    check_positive(lam=lam, blocks=blocks, asks=asks)
    width = K + 2
    requests, arrivals = [], []
    for b in range(blocks):
        requests += [-1] * width + [b * width + 1] * asks
        arrivals += [b * width + i for i in range(width)] + [-1] * asks
    name = f"hiding(K={K},lam={lam:g},blocks={blocks},asks={asks})"
    return exact_match(requests, arrivals, blocks * width, K, lam, name)


def _hiding_gated(lam: float, blocks: int, asks: int, K: int = 1) -> float:
    # Loss left over opens the gate at the first arrival of a later block, which is never the item that is asked.
    left, fired = 0, 0
    for b in range(blocks):
        if b and left >= misses_to_fire(lam):
            fired, left = fired + 1, 0
        left += asks
    return blocks * asks + lam * fired


def pure_waste(lam: float, T: int, K: int = 1) -> Batch:
    """Nothing that ever arrives answers anything: OPT never changes, whoever does pays for nothing."""
    check_positive(lam=lam, T=T)
    return exact_match([IRREDUCIBLE] * T, list(range(T)), T, K, lam, f"pure_waste(K={K},lam={lam:g},T={T})")


FAMILIES = (
    Family(
        "lock_out",
        "the item that matters comes once, while the gate is shut",
        lock_out,
        {GATED: _lock_out_gated},
        lambda lam, T, K=1: min(lam, T - 1),
        {"lam": 1.0, "T": 24, "K": 1},
        "linear in T",
    ),
    Family(
        "misevict",
        "irreducible loss flushes the item that matters",
        misevict,
        {GATED: _misevict_gated},
        _misevict_opt,
        {"lam": 1.0, "T": 24, "K": 1},
        "linear in T",
    ),
    Family(
        "overshoot",
        "c passes tau by a full miss in every epoch; Def1 holds",
        overshoot,
        {GATED: _overshoot_gated},
        _overshoot_opt,
        {"lam": 0.5625, "epochs": 8},
        "3 + 1 / lam",
    ),
    Family(
        "small_lam",
        "tau < 1: every single miss opens the gate",
        overshoot,
        {GATED: lambda lam, epochs: epochs * (1 + lam)},
        lambda lam, epochs: epochs * lam,
        {"lam": 0.125, "epochs": 8},
        "1 + 1 / lam",
    ),
    Family(
        "half_loss",
        "OPT keeps its cache at half the loss; Def1 holds with equality",
        half_loss,
        {GATED: _lock_out_gated},
        lambda lam, T: min(lam + (T - 1) / 2, T - 1),
        {"lam": 1.0, "T": 24},
        "2 + 2 lam / tau",
    ),
    Family(
        "hiding",
        "one of many one-shot items is asked later",
        hiding,
        {"fifo": lambda lam, blocks, asks, K=1: blocks * ((K + 2) * lam + asks), GATED: _hiding_gated},
        lambda lam, blocks, asks, K=1: blocks * min(lam, asks),
        {"lam": 1.0, "blocks": 3, "asks": 5, "K": 1},
        "K + 2 + asks / lam for admit-all, about asks / lam for the gate",
    ),
    Family(
        "pure_waste",
        "irreducible loss, fresh arrivals",
        pure_waste,
        {"fifo": lambda lam, T, K=1: T * (1 + lam), GATED: lambda lam, T, K=1: T + lam * (T // misses_to_fire(lam))},
        lambda lam, T, K=1: T,
        {"lam": 1.0, "T": 24, "K": 1},
        "1 + lam for admit-all, 1 + lam / ceil(2 lam) for the gate",
    ),
)
