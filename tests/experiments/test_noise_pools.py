"""The probe's mixtures of pools against brute force, and its diagonal against the engine."""

import jax
import numpy as np
import pytest

from experiments.measurements import noise_pools
from solarjax.core import streams
from solarjax.core.sweep import sweep
from solarjax.policies.registry import parse_cases
from solarjax.workloads.registry import make
from solarjax.workloads.sources import GeneratedSource

# Noisy on purpose: items of other topics do get retrieved, so the mixtures differ.
SETTINGS = {
    "n_topics": 6, "items_per_topic": 10, "n_queries": 50, "n_relevant": 3, "dim": 8, "min_sep": 0.3,
    "item_noise": 0.6, "query_noise": 0.4,
}  # fmt: skip
CAPACITIES = (0, 2, 15, 60)
SEEDS = (0, 3, 7)


@pytest.fixture(scope="module")
def measured():
    config = {"settings": SETTINGS, "capacities": list(CAPACITIES), "seeds": list(SEEDS), "root_seed": 0}
    return noise_pools.measure(config)


@pytest.fixture(scope="module")
def instances():
    found = {}
    for pool in noise_pools.POOLS:
        workload = make("retrieval_noise_static", pool=pool, **SETTINGS)
        keys = streams.per_seed(0, streams.WORKLOAD, workload.name, SEEDS)
        for seed, instance in zip(SEEDS, map(jax.jit(workload.generate), keys), strict=True):
            found[pool, seed] = jax.tree.map(np.asarray, instance)
    return found


def slow(instance, on, off):
    """Hit rate, precision and topic precision, one query at a time."""
    per = SETTINGS["items_per_topic"]
    fill = [int(i) for i in instance.arrival if i >= 0]
    hits, good, same = [], [], []
    for query, relevant in zip(instance.queries, instance.relevance, strict=True):
        topic = int(np.flatnonzero(relevant)[0]) // per
        pool = [i for p, i in enumerate(fill) if p < (on if i // per == topic else off)]
        if not pool:
            continue
        top = sorted(pool, key=lambda i: -float(instance.items[i].astype(np.float64) @ query))[:3]
        hits.append(any(relevant[i] for i in top))
        good.append(sum(bool(relevant[i]) for i in top) / len(top))
        same.append(sum(i // per == topic for i in top) / len(top))
    return [np.mean(x) if x else np.nan for x in (hits, good, same)], len(hits)


@pytest.mark.parametrize("pool", noise_pools.POOLS)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_mixture_agrees_with_brute_force(measured, instances, pool, seed):
    different = set()
    for on in CAPACITIES:
        for off in CAPACITIES:
            cell = measured.sel(pool=pool, on_topic=on, off_topic=off, seed=seed)
            wanted, asked = slow(instances[pool, seed], on, off)
            if asked < SETTINGS["n_queries"]:
                continue  # a part without items for some query: the mean over queries is not defined there
            found = [float(cell[name]) for name in ("hit_rate", "precision_at_k", "topic_precision")]
            assert found == pytest.approx(wanted, abs=1e-5), (on, off)
            different.add(round(found[0], 4))
    assert len(different) > 3


def test_an_empty_pool_is_no_number(measured):
    assert np.isnan(measured["hit_rate"].sel(on_topic=0, off_topic=0)).all()


def test_the_diagonal_is_what_the_engine_finds(measured):
    source = GeneratedSource(make("retrieval_noise_static", pool="preferred", **SETTINGS))
    cases, _ = parse_cases("fifo")
    data = sweep(source, cases, [15, 60], list(SEEDS))
    for capacity in (15, 60):
        for name in ("hit_rate", "precision_at_k"):
            engine = data[name].sel(policy="fifo", capacity=capacity, trace="retrieval_noise_static").values
            ours = measured[name].sel(pool="preferred", on_topic=capacity, off_topic=capacity).values
            assert ours == pytest.approx(engine, abs=1e-5)
