"""Offline optimum by trying every sequence of contents: the oracle for `theory.opt`. Shares no code with it."""

from __future__ import annotations

import functools
import itertools

import numpy as np


def loss(quality, k, similarity, relevance, content):
    """1 - quality of one content (item numbers), from the definition."""
    top = sorted(content, key=lambda i: (-similarity[i], i))[:k]
    found, total = sum(relevance[i] for i in top), sum(relevance)
    if quality == "hit":
        return 0.0 if found > 0 else 1.0
    if quality == "max_similarity":
        return 1 - min(max((similarity[i] for i in top), default=0.0), 1.0)
    if quality == "mean_similarity":
        return 1 - min(sum(similarity[i] for i in top) / max(len(top), 1), 1.0)
    recall = found / total if found else 0.0
    precision = found / len(top) if top else 0.0
    if quality in ("recall", "precision"):
        return 1 - (recall if quality == "recall" else precision)
    assert quality == "f1", quality
    return 1 - (2 * precision * recall / (precision + recall) if found else 0.0)


def contents(items, capacity):
    """Every content of at most `capacity` items."""
    return [frozenset(c) for n in range(capacity + 1) for c in itertools.combinations(range(items), n)]


@functools.cache
def moves(items, capacity, mode, fill_free, arrival, seen):
    """Price of going from each content to each other, in units of lam; inf where the action class forbids it."""

    def price(before, after):
        added, removed = after - before, before - after
        if before == after:
            return 0.0
        if mode == "online":
            if added != {arrival} or len(removed) > 1:
                return np.inf
            return 0.0 if fill_free and not removed else 1.0
        if not added <= seen:
            return np.inf
        return float(len(added)) if mode == "store_item" else 1.0

    sets = contents(items, capacity)
    return np.array([[price(a, b) for b in sets] for a in sets])


@functools.cache
def sequences(count, steps, first):
    """Every sequence of `steps` contents (by number) that starts with `first`; `[P, steps]`."""
    rest = np.array(list(itertools.product(range(count), repeat=steps - 1)), np.int64).reshape(-1, steps - 1)
    return np.concatenate([np.full((len(rest), 1), first), rest], axis=1)


def losses_of(similarity, relevance, query, capacity, k, quality):
    """`[T, contents]`, 0 where nothing is asked."""
    sets = contents(len(relevance[0]), capacity)
    return np.array(
        [[loss(quality, k, similarity[q], relevance[q], s) if q >= 0 else 0.0 for s in sets] for q in map(int, query)]
    )


def optimum(losses, arrival, items, capacity, lam, mode="online", fill_free=False, start=()):
    """Least cost over all sequences S_0 = start, S_1, ..., S_{T-1}; a change after the last loss never pays."""
    paths = sequences(losses.shape[1], len(losses), contents(items, capacity).index(frozenset(start)))
    cost = losses[np.arange(len(losses))[None], paths].sum(axis=1)
    seen = frozenset(start)
    for t in range(len(losses) - 1):
        seen = seen | ({int(arrival[t])} - {-1})
        table = moves(items, capacity, mode, fill_free, int(arrival[t]), seen)
        with np.errstate(invalid="ignore"):
            paid = np.where(np.isinf(table), np.inf, lam * table)
        cost = cost + paid[paths[:, t], paths[:, t + 1]]
    return float(cost.min())
