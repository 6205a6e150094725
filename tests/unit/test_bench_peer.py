"""The compiled peer does the engine's work: hit by hit, counter by counter, on streams with duplicates and ghosts.

Its source runs here as plain Python; numba compiles the same functions (one of them in test_bench_measured.py).
"""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solarjax.bench import engine
from solarjax.bench.errors import BenchError
from solarjax.bench.options import PEERED
from solarjax.bench.peer import loop
from solarjax.bench.peer.values import thompson
from solarjax.bench.workload import draw
from solarjax.core import random
from solarjax.core.victims import VICTIM_STREAM

WORKLOADS, STEPS, CAPACITY = 8, 128, 8
COUNTS = ("requests", "hits", "hits_second", "offers", "duplicates", "offers_full", "admissions", "evictions")


def plain(function):
    """The decorator that compiles nothing."""
    return function


@pytest.fixture(scope="module")
def both():
    """The workloads, and the engine's counters and hits `[W, T]` of each policy."""
    # 24 items among 128 arrivals: they come back while resident, and after they have left.
    arrays = draw(WORKLOADS, STEPS, items=24, queries=40, repeats=True, seed=1)
    block = engine.on_device(arrays)
    ran = functools.cache(lambda policy: engine.program(block, policy, CAPACITY, per_step=True).run())
    return SimpleNamespace(arrays=arrays, engine=ran)


@functools.cache
def engine_draws():
    """The engine's Beta draws of one step of one lane, as its victim rule makes them."""

    @jax.jit
    def theta(key, t, alpha, beta):
        step = random.fold_in(random.fold_in(key, t), VICTIM_STREAM)
        return random.beta(step, alpha, beta, jnp.ones(alpha.shape, bool))

    return theta


def peer_run(policy, arrays):
    """Sums `[W, len(SUMS)]` and hits `[W, T]` of the peer's source. SOLAR is given the engine's own draws."""
    hits = np.full((WORKLOADS, STEPS), 2, np.uint8)
    admission, eviction = loop.PEERS[policy]
    if policy != "solar":
        return loop.build(plain, plain, admission(plain), eviction(plain))(*arrays, CAPACITY, hits), hits
    keys = np.asarray(engine.lanes_of(policy, CAPACITY, WORKLOADS, WORKLOADS).key)
    sums = []
    for lane in range(WORKLOADS):

        def fill(alpha, beta, t, theta, lane=lane):
            theta[:] = engine_draws()(keys[:, lane], np.int32(t), alpha, beta)

        one = type(arrays)(*(x[lane : lane + 1] for x in arrays[:6]), *arrays[6:])
        rule = thompson(plain, fill)
        sums.append(loop.build(plain, plain, admission(plain), rule)(*one, CAPACITY, hits[lane : lane + 1]))
    return np.concatenate(sums), hits


def differences(policy, other, both):
    """Names of what the engine's `policy` and the peer's `other` count differently."""
    sums, hits = peer_run(other, both.arrays)
    ours, theirs = both.engine(policy), loop.counters(sums)
    found = [name for name in COUNTS if not np.array_equal(np.asarray(ours[name]), theirs[name])]
    found += [
        name
        for name in loop.SUMS
        if name not in COUNTS and not np.allclose(np.asarray(ours[name]), theirs[name], rtol=1e-5, atol=1e-6)
    ]
    return found + ["step_hits"] * (not np.array_equal(np.asarray(ours["step_hits"]).T, hits))


@pytest.mark.parametrize("policy", PEERED)
def test_peer_counts_what_the_engine_counts(policy, both):
    assert differences(policy, policy, both) == []
    ours = {name: np.asarray(both.engine(policy)[name]) for name in COUNTS}
    # The stream exercises what it is for.
    assert ours["duplicates"].min() > 5 and ours["evictions"].min() > 2 and 0 < ours["hits"].sum() < STEPS * WORKLOADS
    gated = policy.startswith("solar")
    assert (ours["admissions"] < ours["offers"] - ours["duplicates"]).all() == gated


@pytest.mark.parametrize(("policy", "other"), [("lru", "fifo"), ("lfu", "lru"), ("arc", "lru"), ("solar", "solar_a")])
def test_another_rule_is_seen(policy, other, both):
    assert {"step_hits", "hits"} <= set(differences(policy, other, both))


def test_ghosts_move_the_target_of_arc(both):
    """Without ghosts ARC decides otherwise here, so the comparison above covers them."""
    from solarjax.bench.peer.arc import arc
    from solarjax.bench.peer.kernels import always

    rule = arc(plain)

    def forget(state, slot, t, K, gone):
        rule.insert(state, slot, t, K, -1)

    hits = np.zeros((WORKLOADS, STEPS), np.uint8)
    loop.build(plain, plain, always(plain), rule._replace(insert=forget))(*both.arrays, CAPACITY, hits)
    assert not np.array_equal(np.asarray(both.engine("arc")["step_hits"]).T, hits)


def test_default_policies_are_those_with_a_peer():
    assert set(PEERED) == set(loop.PEERS)


def test_an_unknown_peer_and_a_missing_compiler_are_named(monkeypatch):
    with pytest.raises(BenchError, match="no compiled peer for 'sieve'; there is one for fifo"):
        loop.peer("sieve")
    monkeypatch.setattr(loop, "available", lambda: False)
    with pytest.raises(BenchError, match=r"needs numba; install solarjax\[bench\]"):
        loop.peer("fifo")
