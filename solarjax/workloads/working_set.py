"""A fixed set of topics in random order: sweeping the capacity shows where it covers the working set."""

from __future__ import annotations

import numpy as np
from jax import Array

from solarjax.core.params import Param
from solarjax.core.random import key_words
from solarjax.workloads.draws import categories, stream
from solarjax.workloads.geometry import count, geometry_params
from solarjax.workloads.topics import Topics, topic_instance
from solarjax.workloads.types import Instance, Workload, WorkloadSpec

UNIFORM = "uniform"
ZIPF = "zipf"


def popularities(n_topics: int, popularity: str, exponent: float) -> np.ndarray:
    """Probability of each topic, `[n_topics] f64`: equal, or proportional to `rank^-exponent`.

    Topic r has rank r + 1, so topic 0 is the most popular.
    """
    weight = np.arange(1, n_topics + 1) ** (-exponent if popularity == ZIPF else 0.0)
    return weight / weight.sum()


def make(
    *, n_topics: int, items_per_topic: int, n_steps: int, popularity: str, zipf_exponent: float, **geometry
) -> Workload:
    """Each step draws its topic independently; query and arrival share it. T = Q = n_steps.

    Source: arXiv 2607.00394, section 6.5.2 (uniform). The Zipf order is an option of the authors' release;
    they publish no arrays of it, so the law is stated here: topic of rank r has probability proportional to
    `r^-zipf_exponent` over the finite set of topics. `zipf_exponent` is ignored when `popularity` is uniform.

    Raises:
      WorkloadError: if that many centres cannot be that far apart.
    """
    topics = Topics(n_topics, items_per_topic, **geometry)
    topics.check("working_set")
    probability = popularities(n_topics, popularity, zipf_exponent)

    def generate(key: Array) -> Instance:
        words = key_words(key)
        return topic_instance(words, categories(stream(words, "topic"), n_steps, probability), topics)

    params = {
        **topics._asdict(),
        "n_steps": n_steps,
        "popularity": popularity,
        "zipf_exponent": zipf_exponent,
    }
    return Workload("working_set", params, n_steps, topics.num_items, n_steps, topics.dim, generate)


SPEC = WorkloadSpec(
    make=make,
    params={
        "n_topics": count(15, "topics asked for", high=10_000),
        "items_per_topic": count(10, "items in the pool of a topic", high=10_000),
        "n_steps": count(500, "steps T"),
        "popularity": Param(UNIFORM, "law of the topic of a step", choices=(UNIFORM, ZIPF), static=True),
        "zipf_exponent": Param(1.2, "exponent of the Zipf law (popularity=zipf)", low=0.0, high=10.0, static=True),
        **geometry_params(),
    },
    paper="arXiv 2607.00394, section 6.5.2",
    summary="a random topic per step, uniform or Zipf; sweep the capacity through the working set",
)
