"""Random instances to measure ratios on: no construction, and no closed form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from theory.errors import TheoryError
from theory.model import Batch, Conventions


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _every_step(size: int, T: int) -> np.ndarray:
    return np.broadcast_to(np.arange(T), (size, T))


def _graded(rng: np.random.Generator, size: int, T: int, N: int) -> dict:
    values = rng.integers(0, 9, (size, T, N)) / 8
    return {"similarity": values, "query": _every_step(size, T), "arrival": rng.integers(0, N, (size, T))}


def _embedded(rng: np.random.Generator, size: int, T: int, N: int) -> dict:
    items, queries = _unit(rng.normal(size=(size, N, 4))), _unit(rng.normal(size=(size, T, 4)))
    return {
        "similarity": np.clip(queries @ items.swapaxes(1, 2), -1, 1),
        "item_similarity": np.clip(items @ items.swapaxes(1, 2), -1, 1),
        "query": _every_step(size, T),
        "arrival": rng.integers(0, N, (size, T)),
    }


def _paging(rng: np.random.Generator, size: int, T: int, N: int) -> dict:
    weight = 1 / np.arange(1, N + 1)
    order = rng.choice(N, (size, T), p=weight / weight.sum())
    return {"similarity": np.broadcast_to(np.eye(N), (size, N, N)), "query": order, "arrival": order}


def _topics(rng: np.random.Generator, size: int, T: int, N: int) -> dict:
    topics = max(2, N // 2)
    own = np.arange(N) % topics
    asked = rng.integers(0, topics, (size, T))
    near = np.where(own == np.arange(topics)[:, None], 1.0, 0.0)
    pick = rng.integers(0, N // topics, (size, T))
    arrival = asked + topics * pick
    gram = np.broadcast_to(np.where(own == own[:, None], 0.99, 0.0) + 0.01 * np.eye(N), (size, N, N))
    return {
        "similarity": np.broadcast_to(near, (size, topics, N)),
        "item_similarity": gram,
        "query": asked,
        "arrival": arrival,
    }


def _drift(rng: np.random.Generator, size: int, T: int, N: int) -> dict:
    width = max(2, N // 2)
    phase = np.arange(T) * max(1, N - width + 1) // T
    order = phase + rng.integers(0, width, (size, T))
    return {"similarity": np.broadcast_to(np.eye(N), (size, N, N)), "query": order, "arrival": order}


def _one_shot(rng: np.random.Generator, size: int, T: int, N: int) -> dict:
    when = np.sort(rng.random((size, T)).argsort(axis=1)[:, : min(N, T)], axis=1)
    arrival = np.full((size, T), -1)
    np.put_along_axis(arrival, when, np.broadcast_to(np.arange(when.shape[1]), when.shape), axis=1)
    values = rng.integers(0, 5, (size, T, N)) / 4 * (rng.random((size, T, N)) < 0.4)
    return {"similarity": values, "query": _every_step(size, T), "arrival": arrival}


RANDOM: Mapping[str, tuple[str, Callable[..., dict]]] = {
    "graded": ("max_similarity", _graded),
    "embedded": ("max_similarity", _embedded),
    "paging": ("hit", _paging),
    "topics": ("hit", _topics),
    "drift": ("hit", _drift),
    "one_shot": ("max_similarity", _one_shot),
}
"""Name -> quality, generator. graded: values uniform on eighths. embedded: unit vectors in 4 dimensions. paging: Zipf
requests, exact match. topics: any item of the topic answers. drift: a window of pages that moves. one_shot: every item
arrives once."""


def draw(
    name: str,
    size: int,
    *,
    T: int,
    N: int,
    K: int,
    lam: float | np.ndarray,
    seed: int,
    k: int = 1,
    quality: str | None = None,
    conventions: Conventions | None = None,
) -> Batch:
    """`size` instances of a random family.

    Args:
      name: a key of RANDOM.   lam: one, or `[size]`.   quality: the family's own by default.

    Raises:
      TheoryError: an unknown family, or sizes that `Batch` refuses.
    """
    if name not in RANDOM:
        raise TheoryError(f"unknown random family {name!r} (known: {', '.join(RANDOM)})")
    own, generate = RANDOM[name]
    made = generate(np.random.default_rng([seed, *name.encode()]), size, T, N)
    return Batch(
        relevance=np.clip(made["similarity"], 0, 1),
        lam=np.broadcast_to(np.asarray(lam, np.float64), (size,)),
        capacity=K,
        k=k,
        quality=quality or own,
        conventions=conventions or Conventions(),
        names=(f"{name}(N={N},T={T},K={K})",) * size,
        **made,
    )
