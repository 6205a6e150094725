"""The sweep: what a lane is does not depend on what runs beside it, and results are labelled and complete."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
import xarray as xr

from solarjax.core import execute, parallel
from solarjax.core import sweep as sweep_module
from solarjax.core.dataset import VARIABLES
from solarjax.core.sweep import sweep
from solarjax.policies.registry import case
from tests.oracles import World, simulate
from tests.support.sweeps import assert_part_of, generated, recorded, recorded_traces

COIN, RECENT, ALL = case("bernoulli"), case("lru"), case("unlimited")
ONE_DEVICE = jax.devices()[:1]
GRID = {"p": [0.25, 0.5, 1.0]}


@pytest.fixture(scope="module")
def cycling() -> xr.Dataset:
    """5 seeds on 2 devices (the odd one padded); capacities 3 and 5 share their slots, 100 exceeds the 18 items."""
    return sweep(generated(), [COIN, RECENT, ALL], [3, 5, 100], [0, 1, 2, 7, 4_000_000_000], grid=GRID, lambdas=[0, 2.5])


@pytest.fixture(scope="module")
def corpora() -> xr.Dataset:
    """Three recorded traces of different sizes, 3 seeds, every optional table."""
    return sweep(recorded(), [COIN, RECENT], [3, 5], 3, grid=GRID, feedback="liked", quality="recall")


def test_two_devices_are_there() -> None:
    assert len(jax.devices()) == 2


def test_alone_on_one_device(cycling: xr.Dataset) -> None:
    """One seed, one capacity, one value, one policy, one device."""
    only = sweep(generated(), [COIN], [5], [7], grid={"p": [0.5]}, lambdas=[0, 2.5], devices=ONE_DEVICE)
    assert_part_of(only, cycling)


def test_in_another_memory_budget_and_order(cycling: xr.Dataset) -> None:
    """Blocks of one pair per device instead of one block for all; seeds the other way round."""
    source = generated()
    tight = 2 * (source.bytes_per_pair(False, False) + 6000)
    calls: list[tuple[int, int, str]] = []
    seeds = [4_000_000_000, 7, 2, 1, 0]
    again = sweep(
        source, [COIN], [5, 3], seeds, grid=GRID, lambdas=[0, 2.5], memory_bytes=tight, progress=lambda *a: calls.append(a)
    )
    assert calls == [(i, 3, "bernoulli N=5") for i in (1, 2, 3)]
    assert_part_of(again, cycling)


def test_in_pieces_of_a_block(cycling: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that run through the scan a few at a time, the last piece padded."""
    monkeypatch.setattr(parallel, "sub_block", lambda rules: 4)
    monkeypatch.setattr(execute, "block_runner", parallel.block_runner.__wrapped__)
    assert_part_of(sweep(generated(), [COIN], [3, 5], [0, 1, 2], grid=GRID, lambdas=[0, 2.5]), cycling)


def test_recorded_trace_alone(corpora: xr.Dataset) -> None:
    """The short trace without optional tables, without the others whose sizes it is padded to."""
    source = type(recorded())(recorded_traces()[1:2])
    only = sweep(source, [COIN], [3, 5], [2], grid=GRID, feedback="liked", quality="recall", devices=ONE_DEVICE)
    assert_part_of(only, corpora)


def test_seeds_matter(cycling: xr.Dataset, corpora: xr.Dataset) -> None:
    """Otherwise the tests above compare copies."""
    for data, name in ((cycling, "bernoulli"), (corpora, "bernoulli")):
        hits = data["miss_cost_total"].sel(policy=name, capacity=5).isel(trace=0, p=0).values
        assert len(np.unique(hits)) > 1


def test_one_compilation_per_case_and_slot_group(cycling: xr.Dataset) -> None:
    """Seeds, capacities of a group and grid points are data; blocks of equal shape do not compile again."""
    source = generated()
    rules = execute.make_rules(COIN, 5, source, 3, "hit", "retrieved", 0.5, False)
    runner = parallel.block_runner(rules, parallel.local_mesh(), False)
    before = runner._cache_size()
    other = {"p": [0.1, 0.2, 0.9]}
    sweep(source, [COIN], [2, 4, 5][1:], [10, 11, 12, 13, 14], grid=other, root_seed=9)
    after = runner._cache_size()
    sweep(source, [COIN], [5, 4], [20, 21, 22, 23, 24], grid=GRID)
    assert after == runner._cache_size() and after - before <= 1


def test_policies_agree_with_the_oracle_end_to_end(corpora: xr.Dataset) -> None:
    """Counts of a deterministic policy over padded traces, from a plain simulation of each trace."""
    for trace in recorded_traces():
        world = World.of(trace)
        scored = (trace.mode >= 3) & (trace.query >= 0)
        for capacity in (3, 5):
            steps = simulate(world, "lru", capacity=capacity, feedback="liked", quality="recall")
            hit = [bool(set(world.relevant[trace.query[t]]) & set(steps[t].retrieved)) for t in np.flatnonzero(scored)]
            got = corpora.sel(trace=trace.name, policy="lru", capacity=capacity).isel(p=0, seed=0)
            assert got["requests"] == scored.sum() and got["hit_rate"] == np.mean(hit)
            assert got["admissions"] == sum(s.admitted for s in steps)
            assert got["evictions"] == sum(s.evicted is not None for s in steps)


def test_grid_axes(cycling: xr.Dataset) -> None:
    """A parameter is a dimension for all; a policy without it has the same numbers along it, one with it has not."""
    assert cycling["hit_rate"].dims == ("trace", "policy", "capacity", "p", "seed")
    assert cycling["p"].values.tolist() == [0.25, 0.5, 1.0]
    recent, coin = (cycling["admissions"].sel(policy=name, capacity=3) for name in ("lru", "bernoulli"))
    assert (recent == recent.isel(p=0)).all()
    assert (coin.sel(p=0.25) < coin.sel(p=1.0)).all()
    fixed = sweep(generated(), [case("bernoulli", p=0.25)], [3, 5], [0, 1, 2, 7, 4_000_000_000], lambdas=[0, 2.5])
    expected = cycling.sel(policy=["bernoulli"], p=0.25, capacity=[3, 5]).drop_vars("p")
    assert fixed.policy.item() == "bernoulli(p=0.25)"
    assert_part_of(fixed.assign_coords(policy=["bernoulli"]), expected)


def test_unlimited_and_capacities_above_the_item_count(cycling: xr.Dataset) -> None:
    """Where everything fits nothing is evicted and every policy that admits all is the same; K changes nothing."""
    unlimited = cycling.sel(policy="unlimited")
    for k in (3, 5):
        for name in cycling.data_vars:
            np.testing.assert_array_equal(unlimited[name].sel(capacity=k), unlimited[name].sel(capacity=100))
    assert (unlimited["evictions"] == 0).all() and (unlimited["final_size"] == unlimited["admissions"]).all()
    roomy = cycling.sel(capacity=100)
    for name in cycling.data_vars:
        np.testing.assert_array_equal(roomy[name].sel(policy="lru"), roomy[name].sel(policy="unlimited"))
    assert (cycling["final_size"].sel(policy="lru", capacity=3) == 3).all()


def test_per_step_output_is_the_hit_rate() -> None:
    """Also where steps are padding: their query is not scored."""
    data = sweep(recorded(), [RECENT], [3, 5], 2, per_step=True)
    assert data["hits"].dims == ("trace", "policy", "capacity", "seed", "step") and data["hits"].dtype == np.uint8
    assert data["scored"].dims == ("trace", "seed", "step")
    for i, trace in enumerate(recorded_traces()):
        expected = np.zeros(48, np.uint8)
        expected[: trace.num_steps] = (trace.mode >= 3) & (trace.query >= 0)
        np.testing.assert_array_equal(data["scored"][i, 0], expected)
    assert not (data["hits"] > data["scored"]).any()
    np.testing.assert_array_equal(data["scored"].sum("step"), data["requests"].isel(policy=0, capacity=0))
    np.testing.assert_allclose(data["hits"].sum("step") / data["scored"].sum("step"), data["hit_rate"].transpose(*data["hits"].dims[:-1]))
    half = (data["requests"] + 1) // 2
    early = data["hits"].where(data["scored"].cumsum("step") <= half, 0).sum("step")
    np.testing.assert_allclose(early / half, data["first_half"])


def test_every_variable_is_labelled(cycling: xr.Dataset, corpora: xr.Dataset) -> None:
    """Names, units and meanings; costs; category and optional variables only where there is something to say."""
    for data in (cycling, corpora):
        for name, values in data.data_vars.items():
            assert (values.attrs["long_name"], values.attrs["units"]) == VARIABLES[name]
            lanes = ("trace", "policy", "capacity", "p", "seed")
            assert values.dims in (lanes, (*lanes, "lambda"), (*lanes, "category"))
    optional = {"answer_recall", "availability", "hit_given_available", "category_requests", "category_hit_rate"}
    assert set(corpora.data_vars) - set(cycling.data_vars) == optional
    assert set(corpora.data_vars) | {"hits"} == set(VARIABLES)
    assert corpora["category"].values.tolist() == ["even", "odd"]
    assert (corpora["category_requests"].sum("category") == corpora["requests"]).sel(trace=["full", "shorter"]).all()
    assert (corpora["category_requests"].sel(trace="plain") == 0).all()
    for i, lam in enumerate((0, 2.5)):
        expected = cycling["miss_cost_total"].values + lam * cycling["switches"].values
        np.testing.assert_array_equal(cycling["total_cost"].values[..., i], expected)
    assert cycling.attrs["quality"] == "hit" and corpora.attrs["feedback"] == "liked"
    assert cycling["seed"].values.tolist() == [0, 1, 2, 7, 4_000_000_000]


def test_availability_is_counted_on_request() -> None:
    """A relevant item that is resident but not retrieved counts; with k as large as the cache the two are equal."""
    data = sweep(generated(availability=True), [RECENT], [3], 4)
    np.testing.assert_array_equal(data["availability"], data["hit_rate"])
    assert (data["hit_given_available"] == 1).any()


def test_another_root_seed_is_another_sweep(cycling: xr.Dataset) -> None:
    other = sweep(generated(), [COIN], [3, 5], [0, 1, 2, 7, 4_000_000_000], grid=GRID, lambdas=[0, 2.5], root_seed=1)
    same = cycling["max_similarity"].sel(policy="bernoulli", capacity=[3, 5])
    assert not (other["max_similarity"].sel(policy="bernoulli").values == same.values).any()


def test_a_case_with_many_combinations_is_cut(cycling: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """More combinations than fit a block become several chunks with the same results."""
    monkeypatch.setattr(sweep_module, "MAX_COMBOS", 2)
    labels: list[str] = []
    data = sweep(
        generated(), [COIN], [3, 5], [0, 1], grid=GRID, lambdas=[0, 2.5], progress=lambda d, n, x: labels.append(f"{d}/{n}")
    )
    assert labels == ["1/3", "2/3", "3/3"]
    assert_part_of(data, cycling)


@pytest.fixture(autouse=True)
def _no_stale_runners() -> Iterator[None]:
    """Runners made under a monkeypatch must not serve the next test."""
    yield
    functools.reduce(lambda _, f: f, [parallel.block_runner])


def _unused(*_: Any) -> None: ...
