"""Workload generators: contract, structure, errors, and the authors' published order.

Sizes are small here; the laws of the random parts are in tests/statistical/test_workload_laws.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from solarjax.core.random import key_words
from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode, Trace
from solarjax.workloads.geometry import max_separated, separated_centres
from solarjax.workloads.registry import WORKLOADS, make
from solarjax.workloads.topics import Topics, topic_instance
from solarjax.workloads.types import Instance, Workload, WorkloadError

SMALL: dict[str, dict[str, object]] = {
    "cycling": dict(n_topics=4, items_per_topic=3, n_cycles=7, dim=16),
    "working_set": dict(n_topics=5, items_per_topic=4, n_steps=40, dim=16),
    "topic_drift": dict(n_topics=7, items_per_topic=3, n_active=3, overlap=1, n_phases=5, phase_length=20, dim=16),
    "retrieval_noise_static": dict(n_topics=6, items_per_topic=10, n_queries=12, n_relevant=4, dim=16),
    "retrieval_noise_stream": dict(n_topics=6, items_per_topic=5, n_queries=12, n_relevant=4, dim=16),
    "stale_versions": dict(n_topics=4, n_eras=3, items_per_era=8, n_queries=10, dim=16),
}


def generate(workload: Workload, seed: int = 0) -> Instance:
    """One instance as numpy arrays."""
    return Instance(*map(np.asarray, jax.jit(workload.generate)(jax.random.key(seed))))


@cache
def structure(generate: Callable[[Array], Instance]) -> Callable[[Array], Instance]:
    """The compiled generator without embeddings, which cost most of the compilation."""

    def discrete(key: Array) -> Instance:
        return Instance(None, None, *generate(key)[2:6], None)

    return jax.jit(discrete)


@cache
def small_variant(name: str) -> Workload:
    """The workload with its small parameters, made once, so that what is compiled for it is shared."""
    return make(name, **SMALL[name])


def order_of(workload: Workload) -> Instance:
    """One instance without embeddings, as numpy arrays."""
    return jax.tree.map(np.asarray, structure(workload.generate)(jax.random.key(0)))


@pytest.fixture(scope="module", params=WORKLOADS)
def small(request) -> tuple[Workload, Array, list[Instance]]:
    """A small workload, a few keys, and their instances under one lax.map."""
    workload = small_variant(request.param)
    keys = jax.random.split(jax.random.key(11), 3)
    mapped = jax.tree.map(np.asarray, jax.jit(lambda keys: jax.lax.map(workload.generate, keys))(keys))
    return workload, keys, [Instance(*(field[i] for field in mapped)) for i in range(len(keys))]


def test_every_workload_has_a_small_variant() -> None:
    assert set(SMALL) == set(WORKLOADS)


def test_contract(small) -> None:
    """Shapes, dtypes, unit rows and ids in range, as `Instance` and `Workload` promise."""
    workload, _, instances = small
    m, q, t, d = workload.num_items, workload.num_queries, workload.num_steps, workload.dim
    for instance in instances:
        assert {k: (v.shape, str(v.dtype)) for k, v in instance._asdict().items()} == {
            "items": ((m, d), "float32"),
            "queries": ((q, d), "float32"),
            "relevance": ((q, m), "bool"),
            "query": ((t,), "int32"),
            "arrival": ((t,), "int32"),
            "mode": ((t,), "uint8"),
            "ok": ((), "bool"),
        }
        assert instance.ok
        np.testing.assert_allclose(np.linalg.norm(instance.items, axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(instance.queries, axis=1), 1, atol=1e-6)
        # The host-side trace type checks ranges and the rules of the step modes.
        row, item = np.nonzero(instance.relevance)
        Trace(
            name=workload.name,
            items=instance.items,
            queries=instance.queries,
            query=instance.query,
            arrival=instance.arrival,
            mode=instance.mode,
            relevant_indptr=np.concatenate([[0], np.cumsum(np.bincount(row, minlength=q))]),
            relevant_indices=item,
        )
        assert instance.relevance.any(axis=1).all(), "a query without a relevant item can only miss"
        np.testing.assert_array_equal(np.sort(instance.query[instance.query != NO_QUERY]), np.arange(q))


def test_map_changes_no_bit_of_the_order(small) -> None:
    """What arrives, is asked and is relevant does not depend on which keys are generated together."""
    workload, keys, instances = small
    alone = structure(workload.generate)
    for key, instance in zip(keys, instances, strict=True):
        for field, value in alone(key)._asdict().items():
            if value is not None:
                np.testing.assert_array_equal(getattr(instance, field), value, err_msg=field)
    assert not np.array_equal(instances[0].items, instances[1].items)


def test_map_changes_no_bit_at_all() -> None:
    """Embeddings too, on one workload: all make them with the same code, and a compilation costs seconds."""
    workload = small_variant("working_set")
    keys = jax.random.split(jax.random.key(5), 3)
    mapped = jax.jit(lambda keys: jax.lax.map(workload.generate, keys))(keys)
    alone = jax.jit(workload.generate)
    for i, key in enumerate(keys):
        for field, value in alone(key)._asdict().items():
            np.testing.assert_array_equal(np.asarray(getattr(mapped, field))[i], value, err_msg=field)


def test_params_are_resolved(small) -> None:
    """`Workload.params` holds every parameter, so a record of it can rebuild the workload."""
    workload, _, _ = small
    assert set(workload.params) == set(WORKLOADS[workload.name].params)
    again = make(workload.name, **workload.params)
    assert again.params == workload.params
    assert again._replace(generate=None) == workload._replace(generate=None)


def test_command_line_strings_are_parsed() -> None:
    typed = make("working_set", n_topics=7, query_noise=0.25, popularity="zipf")
    text = make("working_set", n_topics="7", query_noise="0.25", popularity="zipf")
    assert text.params == typed.params
    assert isinstance(text.params["n_topics"], int) and isinstance(text.params["query_noise"], float)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("cyclin", {}, r"unknown workload 'cyclin'.*did you mean 'cycling'.*working_set"),
        ("cycling", {"n_topic": 3}, r"unknown parameter of cycling 'n_topic'.*did you mean 'n_topics'"),
        ("cycling", {"n_topics": "many"}, r"n_topics = 'many'.*whole number"),
        ("cycling", {"n_topics": 2.5}, r"n_topics = 2.5.*whole number"),
        ("cycling", {"n_topics": 0}, r"n_topics = 0 is out of range; allowed are 1\.\."),
        ("cycling", {"item_noise": -0.1}, r"item_noise = -0.1 is out of range; allowed are 0\.\."),
        ("cycling", {"item_noise": "inf"}, r"item_noise = 'inf' must be finite"),
        ("cycling", {"item_noise": math.nan}, r"item_noise = nan must be finite"),
        (
            "working_set",
            {"popularity": "zip"},
            r"popularity = 'zip' is not one of uniform, zipf.*did you mean 'zipf'",
        ),
        ("topic_drift", {"n_active": 31}, r"n_active = 31 must be at most n_topics = 30"),
        ("topic_drift", {"overlap": 5}, r"overlap = 5 must be below n_active = 5"),
        (
            "retrieval_noise_static",
            {"n_relevant": 101},
            r"n_relevant = 101 must be at most items_per_topic = 100",
        ),
        (
            "retrieval_noise_stream",
            {"n_relevant": 101},
            r"n_relevant = 101 must be at most items_per_topic = 100",
        ),
        (
            "stale_versions",
            {"items_per_era": 1001},
            r"items_per_era = 1001 must be a multiple of n_topics = 50",
        ),
        ("cycling", {"n_topics": 500, "dim": 2}, r"500 topic centres in 2 dimensions.*at most 6 can"),
        ("stale_versions", {"min_sep": 1.5}, r"50 topic centres in 128 dimensions.*at most 3 can"),
        ("working_set", {"n_topics": 10_000, "n_steps": 200_000}, r"20000000000 cells; allowed are"),
    ],
)
def test_bad_parameters_are_named(name: str, params: dict, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        make(name, **params)


def test_separation_bound_is_exact_where_the_answer_is_known() -> None:
    """On a circle n points can be 360/n degrees apart; orthants and simplices bound the sphere."""
    for n in range(3, 40):
        at_most = math.cos(2 * math.pi / n)
        assert math.floor(max_separated(2, 1 - at_most) + 1e-9) == n
    assert max_separated(1, 0.5) == 2
    for dim in (2, 3, 10):
        simplex = 1 / dim  # dim + 1 vectors with pairwise cosine -1/dim
        assert max_separated(dim, 1 + simplex) == pytest.approx(dim + 1)
    assert max_separated(3, 2.0) == 1
    # Never below what is possible: 2 D vectors +-e_i have pairwise cosine at most 0.
    for dim in (2, 3, 8, 128):
        assert max_separated(dim, 1.0 - 1e-9) >= 2 * dim


def centres_of(n: int, dim: int, min_sep: float, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres `[seeds, n, dim] f64` and their flags for several keys."""
    keys = jax.random.key_data(jax.random.split(jax.random.key(3), seeds))
    draw = jax.jit(lambda keys: jax.lax.map(lambda key: separated_centres(key, n, dim, min_sep), keys))
    centres, ok = draw(keys)
    return np.asarray(centres, np.float64), np.asarray(ok)


def largest_cosine(centres: np.ndarray) -> np.ndarray:
    """The largest cosine between two different centres of each set, `[seeds]`."""
    cosine = np.einsum("bid,bjd->bij", centres, centres) - 3 * np.eye(centres.shape[1])
    return cosine.max(axis=(1, 2))


def test_jammed_centres_are_flagged_and_finite() -> None:
    """Five points 60 degrees apart fit on a circle, but random ones may jam: the flag must say so."""
    centres, ok = centres_of(5, 2, 0.5, 40)
    np.testing.assert_allclose(np.linalg.norm(centres, axis=2), 1, atol=1e-6)
    assert 0 < ok.sum() < 40
    np.testing.assert_array_equal(ok, largest_cosine(centres) < 0.5 + 1e-6)


def test_separation_holds_where_it_binds() -> None:
    """In 3 dimensions 14 centres with cosines below 0.8 need many rejections: undisturbed ones exceed it."""
    centres, ok = centres_of(14, 3, 0.2, 20)
    assert ok.all()
    assert (largest_cosine(centres) < 0.8 + 1e-6).all()
    rng = np.random.default_rng(0)
    free = rng.normal(size=(20, 14, 3))
    free /= np.linalg.norm(free, axis=2, keepdims=True)
    assert (largest_cosine(free) > 0.8).all(), "the limit would hold without rejection: this test proves nothing"


def test_an_instance_with_jammed_centres_says_so() -> None:
    """The flag reaches `Instance.ok`; 6 centres 60 degrees apart cannot be met by chance on a circle."""
    workload = make("cycling", n_topics=6, dim=2, min_sep=0.5, item_noise=0.0, n_cycles=1)
    ok, items = jax.jit(lambda key: (workload.generate(key).ok, workload.generate(key).items))(jax.random.key(0))
    assert not ok
    np.testing.assert_allclose(np.linalg.norm(items, axis=1), 1, atol=1e-6)


def test_cycling_order() -> None:
    instance = order_of(small_variant("cycling"))
    topic = np.arange(28) % 4
    np.testing.assert_array_equal(instance.relevance, topic[:, None] == np.repeat(np.arange(4), 3))
    # Cycle c brings each topic's item c mod 3.
    np.testing.assert_array_equal(instance.arrival.reshape(7, 4), 3 * np.arange(4) + (np.arange(7) % 3)[:, None])
    assert (instance.mode == StepMode.SCORED).all()


@pytest.mark.parametrize("name", ["working_set", "topic_drift"])
def test_arrivals_walk_their_topics_pool(name: str) -> None:
    """Arrival = the topic's next item, round robin; relevant = the whole pool of the topic."""
    workload = small_variant(name)
    instance = order_of(workload)
    n_topics, per_topic = workload.params["n_topics"], workload.params["items_per_topic"]
    met = [0] * n_topics
    wrapped = False
    for t in range(workload.num_steps):
        relevant = np.flatnonzero(instance.relevance[t])
        topic = relevant[0] // per_topic
        np.testing.assert_array_equal(relevant, topic * per_topic + np.arange(per_topic))
        assert instance.arrival[t] == topic * per_topic + met[topic] % per_topic
        met[topic] += 1
        wrapped |= met[topic] > per_topic
    assert wrapped, "no pool was walked twice, so the round robin was not tested"
    assert (instance.mode == StepMode.SCORED).all()


def test_topic_drift_phases_wrap_around() -> None:
    """Phase p has topics 2p..2p+2 of 7: the last two wrap."""
    instance = order_of(small_variant("topic_drift"))
    topic = (instance.relevance.argmax(axis=1) // 3).reshape(5, 20)
    for phase, active in enumerate([{0, 1, 2}, {2, 3, 4}, {4, 5, 6}, {6, 0, 1}, {1, 2, 3}]):
        assert set(topic[phase].tolist()) == active


@pytest.mark.parametrize("pool", ["preferred", "uniform"])
def test_static_pool_schedule(pool: str) -> None:
    workload = small_variant("retrieval_noise_static")
    assert workload.params["pool"] == "preferred"
    if pool == "uniform":
        workload = make(workload.name, **workload.params | {"pool": pool})
    instance = order_of(workload)
    m, q = 60, 12
    np.testing.assert_array_equal(instance.mode, [StepMode.FILL] * m + [StepMode.FROZEN] * q)
    np.testing.assert_array_equal(instance.query, [NO_QUERY] * m + list(range(q)))
    assert (instance.arrival[m:] == NO_ITEM).all()
    order = instance.arrival[:m]
    np.testing.assert_array_equal(np.sort(order), np.arange(m))
    needed = instance.relevance.any(axis=0)
    assert 0 < needed.sum() < m
    relevant_first = needed[order][: needed.sum()].all()
    assert relevant_first == (pool == "preferred")


@pytest.mark.parametrize("name", ["retrieval_noise_static", "retrieval_noise_stream"])
def test_relevant_items_are_distinct_and_of_one_topic(name: str) -> None:
    workload = small_variant(name)
    instance = order_of(workload)
    per_topic = workload.params["items_per_topic"]
    for relevant in instance.relevance:
        items = np.flatnonzero(relevant)
        assert len(items) == 4 and len(set((items // per_topic).tolist())) == 1


def test_noise_stream_schedule() -> None:
    instance = order_of(small_variant("retrieval_noise_stream"))
    m, q = 30, 12
    np.testing.assert_array_equal(instance.mode, [StepMode.TRAIN] * m + [StepMode.SCORED] * q)
    np.testing.assert_array_equal(instance.query, np.arange(m + q))
    np.testing.assert_array_equal(np.sort(instance.arrival[:m]), np.arange(m))
    assert (instance.arrival[m:] == NO_ITEM).all()
    np.testing.assert_array_equal(instance.relevance[:m].argmax(axis=1) // 5, instance.arrival[:m] // 5)


def test_stale_versions_frozen() -> None:
    """Latest first, relevant only in the last era, and each era brings every topic equally often."""
    params = SMALL["stale_versions"] | {"item_noise": 0.0}
    instance = generate(make("stale_versions", **params))
    m, per_era = 24, 8
    np.testing.assert_array_equal(instance.arrival[:m], np.arange(m)[::-1])
    np.testing.assert_array_equal(instance.mode, [StepMode.FILL] * m + [StepMode.FROZEN] * 10)
    assert not instance.relevance[:, : m - per_era].any()
    assert (instance.relevance.sum(axis=1) == per_era // 4).all()
    # Without item noise equal rows are equal topics: 4 topics, twice per era, not always in the same order.
    _, topic = np.unique(instance.items.round(5), axis=0, return_inverse=True)
    eras = topic.reshape(3, per_era)
    assert all((np.bincount(era, minlength=4) == 2).all() and len(era) == 8 for era in eras)
    assert any((era != eras[0]).any() for era in eras)
    for row in instance.relevance:
        assert len(set(topic[row].tolist())) == 1
    uniform = order_of(make("stale_versions", pool="uniform", **params))
    np.testing.assert_array_equal(np.sort(uniform.arrival[:m]), np.arange(m))
    assert (uniform.arrival[:m] != np.arange(m)[::-1]).any()


def test_stale_versions_online() -> None:
    """Every step asks, then brings the next item; the relevant era is the one of the arriving item."""
    workload = make("stale_versions", protocol="online", **SMALL["stale_versions"])
    instance = order_of(workload)
    assert (workload.num_steps, workload.num_queries, workload.num_items) == (24, 24, 24)
    np.testing.assert_array_equal(instance.arrival, np.arange(24))
    np.testing.assert_array_equal(instance.query, np.arange(24))
    assert (instance.mode == StepMode.SCORED).all()
    for t, row in enumerate(instance.relevance):
        assert set((np.flatnonzero(row) // 8).tolist()) == {t // 8}
    assert (instance.relevance.sum(axis=1) == 2).all()


def published(shared_data: Path, name: str) -> dict[str, np.ndarray]:
    """The authors' arrays of one workload."""
    with np.load(shared_data / "solar_synthetic" / f"{name}.npz") as arrays:
        return dict(arrays)


def published_relevance(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """`[Q, M] bool` from their CSR lists."""
    dense = np.zeros((len(arrays["query_topic"]), len(arrays["item_topic"])), bool)
    rows = np.repeat(np.arange(len(dense)), np.diff(arrays["relevant_indptr"]))
    dense[rows, arrays["relevant_indices"]] = True
    return dense


@pytest.mark.golden
@pytest.mark.parametrize("m", [10, 20, 50])
def test_cycling_is_the_authors_order(shared_data: Path, m: int) -> None:
    """All but the embeddings of cycling is deterministic: it must be equal, with default parameters."""
    theirs = published(shared_data, f"cycling-m{m}-seed42")
    workload = make("cycling", n_topics=m)
    shapes = jax.eval_shape(workload.generate, jax.random.key(0))
    assert shapes.items.shape == theirs["item_embeddings"].shape
    assert shapes.queries.shape == theirs["query_embeddings"].shape
    ours = order_of(workload)
    np.testing.assert_array_equal(ours.arrival, theirs["arrival"])
    np.testing.assert_array_equal(ours.relevance, published_relevance(theirs))


@pytest.mark.golden
@pytest.mark.parametrize("name", ["working_set", "topic_drift"])
def test_their_topics_give_their_arrivals(shared_data: Path, name: str) -> None:
    """Only the topic of a step is random: given theirs, our round robin and relevance are theirs."""
    theirs = published(shared_data, f"{name}-seed1337")
    p = make(name).params
    topics = Topics(*(p[field] for field in Topics._fields))
    topic = jnp.asarray(theirs["query_topic"])

    def given_topic(key: Array) -> Instance:
        return topic_instance(key_words(key), topic, topics)

    ours = order_of(make(name)._replace(generate=given_topic))
    assert len(topic) == make(name).num_steps
    np.testing.assert_array_equal(ours.arrival, theirs["arrival"])
    np.testing.assert_array_equal(ours.relevance, published_relevance(theirs))
    if name == "topic_drift":
        first = np.arange(600) // 100 * 4
        assert set((theirs["query_topic"] - first).tolist()) == {0, 1, 2, 3, 4}


@pytest.mark.golden
def test_their_noise_data_has_our_structure(shared_data: Path) -> None:
    """Facts our generators are built on, read off the published arrays."""
    stream = published(shared_data, "retrieval_noise_stream-seed42")
    static = published(shared_data, "retrieval_noise_static-seed42")
    ours = make("retrieval_noise_stream")
    assert ours.num_steps == len(stream["arrival"]) and ours.num_items == len(stream["item_topic"])
    np.testing.assert_array_equal(np.sort(stream["arrival"][:5000]), np.arange(5000))
    assert (stream["arrival"][5000:] == NO_ITEM).all() and stream["warmup_steps"] == 5000
    np.testing.assert_array_equal(stream["item_topic"][stream["arrival"][:5000]], stream["query_topic"][:5000])
    np.testing.assert_array_equal(stream["item_topic"], np.repeat(np.arange(50), 100))
    # `preferred`: pools hold relevant items only while there are enough, and are not prefixes of each other.
    needed = np.unique(static["relevant_indices"])
    previous = np.zeros(0, int)
    for k in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000):
        pool = np.load(shared_data / "solar_synthetic" / f"retrieval_noise_static-K{k}-seed42-prefill.npy")
        assert len(np.unique(pool)) == k
        assert np.isin(pool, needed).sum() == min(k, len(needed))
        assert not np.array_equal(pool[: len(previous)], previous) or len(previous) == 0
        previous = pool
