"""The sweep: what a lane is does not depend on what runs beside it, and results are complete and labelled.

Resuming is tested in `test_sweep_resume.py`.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
import xarray as xr

from solarjax.core import execute, parallel, task_runner
from solarjax.core import tasks as tasks_module
from solarjax.core.chunks import SweepError
from solarjax.core.dataset import VARIABLES
from solarjax.core.sweep import sweep
from solarjax.policies.registry import case
from solarjax.workloads.sources import RecordedSource
from tests.oracles import World, simulate
from tests.support.sweeps import assert_part_of, generated, recorded, recorded_traces

COIN, RECENT, ALL = case("bernoulli"), case("lru"), case("unlimited")
SEEDS = [0, 1, 2, 7, 4_000_000_000]
GRID = {"p": [0.25, 0.5, 1.0]}
pytestmark = pytest.mark.usefixtures("usual_emitters")
run = partial(sweep, grid=GRID, lambdas=[0, 2.5], feedback="liked", quality="recall")


@pytest.fixture(scope="module")
def corpora() -> xr.Dataset:
    """15 pairs on 2 devices (the odd one padded); capacities 3 and 5 share their slots, 100 exceeds the 16 items."""
    assert len(jax.devices()) == 2
    return run(recorded(), [COIN, RECENT, ALL], [3, 5, 100], SEEDS)


def test_alone_on_one_device(corpora: xr.Dataset) -> None:
    """One trace without those it is padded to, one seed, one capacity, one value, one policy."""
    source = RecordedSource(recorded_traces()[1:2])
    only = run(source, [COIN], [5], [7], grid={"p": [0.5]}, devices=jax.devices()[:1])
    assert_part_of(only, corpora)


def test_generated_alone_on_one_device() -> None:
    """Workloads of their own per seed, whose item similarities are sharded with the pairs; 5 seeds on 2 devices."""
    cases = [case("solar_a", lam=0.5)]
    whole = sweep(generated(), cases, [3, 5], SEEDS, quality="recall")
    only = sweep(generated(), cases, [5], [7], quality="recall", devices=jax.devices()[:1])
    assert_part_of(only, whole)
    assert len(np.unique(whole["max_similarity"])) == 10


def test_in_another_memory_budget_and_order(corpora: xr.Dataset) -> None:
    """Blocks of one pair per device instead of one block for all; seeds and capacities the other way round."""
    source = recorded()
    tight = 2 * (source.bytes_per_pair(False, False) + 10_000)
    calls: list[tuple[int, int, str]] = []
    again = run(source, [COIN], [5, 3], SEEDS[::-1], memory_bytes=tight, progress=lambda *call: calls.append(call))
    assert calls == [(i, 8, "bernoulli N=5") for i in range(1, 9)]
    assert_part_of(again, corpora)


def test_one_seed_stands_for_all_where_nothing_is_drawn(corpora: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deterministic rule on recorded traces runs once per trace, however blocks are cut; others run every seed."""
    asked: list[int] = []
    monkeypatch.setattr(task_runner, "run_chunk", lambda *call: asked.append(len(call[3])) or execute.run_chunk(*call))
    source = recorded()
    tight = 4 * (source.bytes_per_pair(False, False) + 2_500)  # 4 pairs: some blocks span two traces
    assert_part_of(run(source, [COIN, RECENT], [3], SEEDS, memory_bytes=tight), corpora)
    assert asked == [4, 1, 4, 2, 4, 2, 3, 1]
    source.same_for_all_seeds = False
    assert_part_of(run(source, [COIN, RECENT], [3], SEEDS), corpora)
    assert asked[8:] == [15, 15]


def test_in_pieces(corpora: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Combinations over several chunks, and lanes through the scan a few at a time, the last piece padded."""
    monkeypatch.setattr(tasks_module, "MAX_COMBOS", 2)
    monkeypatch.setattr(parallel, "sub_block", lambda rules: 4)
    monkeypatch.setattr(execute, "block_runner", parallel.block_runner.__wrapped__)
    labels: list[str] = []
    data = run(
        recorded(), [COIN], [3, 5], [0, 1], grid=GRID, progress=lambda done, total, _: labels.append(f"{done}/{total}")
    )
    assert labels == ["1/3", "2/3", "3/3"]
    assert_part_of(data, corpora)


def test_one_compilation_per_case_and_slot_group(corpora: xr.Dataset) -> None:
    """Seeds, capacities within a slot group, grid points and the content of the traces are data."""
    source = RecordedSource([*recorded_traces()[:2], recorded_traces()[2]])
    rules = execute.make_rules(COIN, 5, source, 3, "recall", "liked", 0.5, False)
    runner = parallel.block_runner(rules, parallel.local_mesh(), True)
    before = runner._cache_size()
    assert before >= 1
    other = run(source, [COIN], [5, 4], [10, 11, 12, 13, 14], grid={"p": [0.1, 0.2, 0.9]}, root_seed=9)
    assert runner._cache_size() == before
    # Another root seed is another sweep.
    mine = other["admissions"].sel(policy="bernoulli", capacity=5).values
    assert (mine != corpora["admissions"].sel(policy="bernoulli", capacity=5).values).any()


def test_agrees_with_the_oracle_end_to_end(corpora: xr.Dataset) -> None:
    """Counts and quality sums of a deterministic policy over padded traces, from a plain simulation of each.

    With the engine's cosines: many are equal, and which of them numpy rounds up depends on the processor.
    """
    cosines = np.asarray(recorded().block([(0, 0)], 0, False, False).tables.similarity)
    for number, trace in enumerate(recorded_traces()):
        shared = cosines[: len(trace.queries), number, : len(trace.items)]
        np.testing.assert_allclose(shared, trace.queries @ trace.items.T, atol=1e-6)
        world = World.of(trace, shared)
        scored = np.flatnonzero((trace.mode >= 3) & (trace.query >= 0))
        for capacity in (3, 5):
            steps = simulate(world, "lru", capacity=capacity, feedback="liked", quality="recall")
            quality = [world.scores(int(trace.query[t]), steps[t].retrieved, 3) for t in scored]
            got = corpora.sel(trace=trace.name, policy="lru", capacity=capacity).isel(p=0, seed=0)
            assert got["requests"] == len(scored) and got["hit_rate"] == np.mean([q["hit"] for q in quality])
            assert got["admissions"] == sum(s.admitted for s in steps)
            assert got["evictions"] == sum(s.evicted is not None for s in steps)
            for name, field in (("recall_at_k", "recall"), ("answer_recall", "answer_recall"), ("set_f1", "f1")):
                np.testing.assert_allclose(got[name], np.mean([q[field] for q in quality]), atol=1e-6)
            np.testing.assert_allclose(got["miss_cost"], np.mean([1 - q["recall"] for q in quality]), atol=1e-6)


def test_a_policy_without_the_parameter_is_the_same_along_it(corpora: xr.Dataset) -> None:
    assert corpora["hit_rate"].dims == ("trace", "policy", "capacity", "p", "seed")
    recent, coin = (corpora["admissions"].sel(policy=name, capacity=3) for name in ("lru", "bernoulli"))
    assert (recent == recent.isel(p=0)).all()
    assert (coin.sel(p=0.25) <= coin.sel(p=1.0)).all() and (coin.sel(p=0.25) < coin.sel(p=1.0)).any()
    assert len(np.unique(coin.sel(p=0.25).isel(trace=0))) > 1, "seeds must matter, or these tests compare copies"


def test_unlimited_and_capacities_above_the_item_count(corpora: xr.Dataset) -> None:
    """Where everything fits nothing is evicted and every policy that admits all is the same; K changes nothing."""
    unlimited, roomy = corpora.sel(policy="unlimited"), corpora.sel(capacity=100)
    assert (roomy["evictions"] == 0).all() and (corpora["evictions"].sel(policy="lru", capacity=3) > 0).all()
    for name in corpora.data_vars:
        for k in (3, 5):
            np.testing.assert_array_equal(unlimited[name].sel(capacity=k), unlimited[name].sel(capacity=100))
        np.testing.assert_array_equal(roomy[name].sel(policy="lru"), roomy[name].sel(policy="unlimited"))


def test_availability(corpora: xr.Dataset) -> None:
    """A relevant resident outside the top 3 is available and no hit; in a cache of 3 there is no outside."""
    available, hit = corpora["availability"], corpora["hit_rate"]
    assert (available >= hit).all() and (available > hit).sel(capacity=5).any()
    small = {"capacity": 3, "policy": ["lru", "bernoulli"]}
    np.testing.assert_array_equal(available.sel(small), hit.sel(small))


def test_per_step_output_is_the_hit_rate() -> None:
    """Also where steps are padding: their query is not scored."""
    data = sweep(recorded(), [RECENT], [3, 5], 2, per_step=True)
    assert data["hits"].dims == ("trace", "policy", "capacity", "seed", "step") and data["hits"].dtype == np.uint8
    assert data["scored"].dims == ("trace", "seed", "step")
    for i, trace in enumerate(recorded_traces()):
        expected = np.zeros(48, np.uint8)
        expected[: trace.num_steps] = (trace.mode >= 3) & (trace.query >= 0)
        np.testing.assert_array_equal(data["scored"][i, 0], expected)
    assert not (data["hits"] > data["scored"]).any() and data["hits"].any()
    rate = data["hits"].sum("step") / data["scored"].sum("step")
    np.testing.assert_allclose(rate.transpose(*data["hit_rate"].dims), data["hit_rate"])
    half = (data["requests"] + 1) // 2
    early = data["hits"].where(data["scored"].cumsum("step") <= half, 0).sum("step")
    np.testing.assert_allclose((early / half).transpose(*data["first_half"].dims), data["first_half"])


def test_every_variable_is_labelled(corpora: xr.Dataset) -> None:
    """With every optional table every variable but the per-step one is there; a trace without categories has none."""
    lanes = ("trace", "policy", "capacity", "p", "seed")
    for name, values in corpora.data_vars.items():
        assert (values.attrs["long_name"], values.attrs["units"]) == VARIABLES[str(name)]
        assert values.dims in (lanes, (*lanes, "lambda"), (*lanes, "category"))
    assert set(corpora.data_vars) | {"hits"} == set(VARIABLES)
    assert corpora["category"].values.tolist() == ["even", "odd"]
    counted = corpora["category_requests"].sum("category")
    assert (counted == corpora["requests"]).sel(trace=["full", "shorter"]).all()
    assert (counted.sel(trace="plain") == 0).all()
    hits = (corpora["category_hit_rate"] * corpora["category_requests"]).sum("category") / corpora["requests"]
    np.testing.assert_allclose(hits.sel(trace="full"), corpora["hit_rate"].sel(trace="full"))
    for i, lam in enumerate((0, 2.5)):
        expected = corpora["miss_cost_total"].values + lam * corpora["switches"].values
        np.testing.assert_array_equal(corpora["total_cost"].values[..., i], expected)
    assert (corpora.attrs["quality"], corpora.attrs["feedback"], corpora.attrs["k"]) == ("recall", "liked", 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": [RECENT, RECENT]}, "policy 'lru' is named twice"),
        ({"policies": [RECENT, COIN._replace(label="lru")]}, "policy 'lru' is named twice"),
        ({"grid": {"q": [0.5]}}, "unknown grid parameter 'q' (known: p)"),
        ({"grid": {"fill": [0.5]}}, "unknown grid parameter 'fill' (known: p)"),
        ({"grid": {"p": [0.5, 1.5]}}, "bernoulli: p = 1.5 is out of range; allowed are 0..1"),
        ({"grid": {"p": [float("nan")]}}, "bernoulli: p = nan must be finite"),
        ({"capacities": [2.5]}, "capacities = [2.5]: each must be a whole number >= 1"),
    ],
)
def test_what_the_policies_do_not_allow(arguments: dict, message: str) -> None:
    with pytest.raises(SweepError) as caught:
        sweep(recorded(), **({"policies": [COIN, RECENT], "capacities": [3], "seeds": 2} | arguments))
    assert str(caught.value) == message
