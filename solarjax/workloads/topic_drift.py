"""A window of active topics that moves on from phase to phase: what was useful stops being useful."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from solarjax.core.random import key_words
from solarjax.workloads.draws import integers, stream
from solarjax.workloads.geometry import count, geometry_params
from solarjax.workloads.topics import Topics, topic_instance
from solarjax.workloads.types import Instance, Workload, WorkloadError, WorkloadSpec


def make(
    *,
    n_topics: int,
    items_per_topic: int,
    n_active: int,
    overlap: int,
    n_phases: int,
    phase_length: int,
    **geometry,
) -> Workload:
    """Phase p draws topics uniformly from `n_active` consecutive ones, starting at p * (n_active - overlap).

    T = Q = n_phases * phase_length. Topic numbers wrap around, so with many phases old topics come back.
    Source: the authors' release of arXiv 2607.00394; the paper itself does not have this workload.

    Raises:
      WorkloadError: if `n_active` exceeds `n_topics`, if `overlap` is not below `n_active`, or if that many
        centres cannot be that far apart.
    """
    topics = Topics(n_topics, items_per_topic, **geometry)
    if n_active > n_topics:
        raise WorkloadError(f"topic_drift: n_active = {n_active} must be at most n_topics = {n_topics}")
    if overlap >= n_active:
        raise WorkloadError(f"topic_drift: overlap = {overlap} must be below n_active = {n_active}, or nothing drifts")
    topics.check("topic_drift")
    num_steps = n_phases * phase_length

    def generate(key: Array) -> Instance:
        words = key_words(key)
        first = jnp.arange(num_steps, dtype=jnp.int32) // phase_length * (n_active - overlap)
        within = integers(stream(words, "topic"), num_steps, n_active)
        return topic_instance(words, (first + within) % n_topics, topics)

    params = {
        **topics._asdict(),
        "n_active": n_active,
        "overlap": overlap,
        "n_phases": n_phases,
        "phase_length": phase_length,
    }
    return Workload("topic_drift", params, num_steps, topics.num_items, num_steps, topics.dim, generate)


SPEC = WorkloadSpec(
    make=make,
    params={
        "n_topics": count(30, "topics altogether", high=10_000),
        "items_per_topic": count(8, "items in the pool of a topic", high=10_000),
        "n_active": count(5, "topics active in a phase", high=10_000),
        "overlap": count(1, "topics a phase shares with the next", low=0, high=10_000),
        "n_phases": count(6, "phases", high=100_000),
        "phase_length": count(100, "steps per phase", high=100_000),
        **geometry_params(),
    },
    paper="release of arXiv 2607.00394 (not in the paper)",
    summary="a window of active topics that moves on from phase to phase",
)
