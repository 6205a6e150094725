"""Counters of a rollout and what the dataset derives from them, recomputed from the per-step record in float64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solarjax.core import dataset as ds
from solarjax.core.chunks import SweepError
from solarjax.core.metrics import COUNTS, TOTALS, Sums, slope_weights, zero_sums
from solarjax.core.trace import NO_ITEM, StepMode, Trace
from solarjax.policies.registry import case
from tests.support import engine
from tests.support.engine import LANES
from tests.support.replay import replay
from tests.support.worlds import STEPS, random_traces, scored_steps, world_of


def recomputed(trace: Trace, record: engine.Run, lane: int, capacity: int) -> dict[str, Any]:
    """Every counter of one lane, from what was retrieved and written at each step."""
    relevance, scored = trace.relevance_matrix().astype(float), scored_steps(trace)
    steps, _ = replay(trace, record, lane, capacity)
    half = (scored.sum() + 1) // 2
    out: dict[str, Any] = dict.fromkeys([*COUNTS, *TOTALS], 0.0)
    out["category_requests"], out["category_hits"] = np.zeros(2), np.zeros(2)
    hits = np.zeros(STEPS)
    for t in np.flatnonzero(trace.query >= 0):
        q, found = trace.query[t], [i for i in record.outcome.retrieved[t, :, lane] if i != NO_ITEM]
        out["queries"] += 1
        if not scored[t]:
            continue
        cosines = (trace.queries[q].astype(float) @ trace.items[found].T.astype(float)).clip(-1, 1)
        gained, total = relevance[q, found].sum(), relevance[q].sum()
        recall = gained / total if total else 0.0
        precision = gained / len(found) if found else 0.0
        hits[t] = gained > 0
        out["requests"] += 1
        out["hits"] += hits[t]
        out["hits_second"] += hits[t] * (out["requests"] > half)
        out["available"] += bool(relevance[q, list(steps[t].before.values())].any())
        out["recall"] += recall
        out["precision"] += precision
        out["f1"] += 2 * recall * precision / (recall + precision) if gained else 0.0
        out["max_similarity"] += max(cosines.max(initial=0.0), 0.0)
        out["mean_similarity"] += max(cosines.mean(), 0.0) if found else 0.0
        out["answer_recall"] += trace.answer_recall[q, found].max(initial=0.0)
        out["miss"] += 1 - hits[t]
        out["category_requests"][trace.category[q]] += 1
        out["category_hits"][trace.category[q]] += hits[t]
    out["slope"] = rolling_slope(hits[scored])
    for step in steps:
        new = step.item not in step.before.values()
        out["offers"] += step.item != NO_ITEM
        out["duplicates"] += not new
        out["offers_full"] += step.item != NO_ITEM and new and len(step.before) == capacity
        out["admissions"] += step.admitted
        out["evictions"] += step.evicted != NO_ITEM
    return out


def rolling_slope(hits: np.ndarray) -> float:
    """Slope of a straight line through the rolling mean, by `np.polyfit`."""
    window = max(20, len(hits) // 25)
    if len(hits) < 2:
        return 0.0
    smooth = np.convolve(hits, np.ones(window) / window, "valid") if len(hits) > window else hits
    return float(np.polyfit(np.arange(len(smooth)), smooth, 1)[0])


def test_every_counter() -> None:
    """Two lanes of each trace and capacity, scored by `hit`: integers exactly, sums to float32 rounding."""
    world = world_of(random_traces(6))
    weights = np.stack([slope_weights(scored_steps(t)) for t in world.traces], axis=1).astype(np.float32)
    world = world._replace(schedule=world.schedule._replace(slope_weight=weights))
    lanes = engine.lanes_of(case("fifo"))
    record = engine.run(engine.rules_of(case("fifo")), world, lanes)
    sums = record.carry.sums.named()
    seen = dict.fromkeys([*COUNTS, *TOTALS], 0.0)
    for lane in range(0, LANES, 2):
        expected = recomputed(world.traces[lanes.pair[lane]], record, lane, int(lanes.capacity[lane]))
        for name, value in expected.items():
            tolerance = 0 if name in COUNTS or name.startswith("category") else 2e-5
            np.testing.assert_allclose(sums[name][..., lane], value, atol=tolerance, rtol=0, err_msg=name)
            if name in seen:
                seen[name] += abs(float(value))
    assert all(seen.values()), seen


@pytest.mark.parametrize(("n", "unscored"), [(0, 3), (1, 0), (2, 0), (20, 4), (21, 0), (22, 9), (300, 50), (1200, 0)])
def test_slope_weights_are_the_slope_of_the_rolling_mean(n: int, unscored: int) -> None:
    """As one weighted sum. 20 hits are one window (a plain line), 300 use windows of 20, 1200 of 48."""
    rng = np.random.default_rng(n)
    scored = rng.permutation(np.arange(n + unscored) < n)
    hits = rng.random(n + unscored) < 0.4
    weights = slope_weights(scored)
    assert weights.shape == scored.shape and not weights[~scored].any()
    assert weights @ hits == pytest.approx(rolling_slope(hits[scored].astype(float)), abs=1e-12)
    if n > 2:
        rising = np.zeros(n + unscored)
        rising[scored] = np.arange(n)
        assert weights @ rising == pytest.approx(1)


def test_sums_are_compensated() -> None:
    """100,000 times 0.1 is off by hundreds of ulps when added naively in float32, and by less than one here."""
    term = np.float32(0.1)

    @jax.jit
    def add_up(sums: Sums) -> tuple[Sums, jax.Array]:
        def body(_: int, carry: tuple[Sums, jax.Array]) -> tuple[Sums, jax.Array]:
            sums, naive = carry
            flag, value = jnp.ones(2, bool), jnp.full(2, term)
            return sums.add({"requests": flag}, {"miss": value}), naive + value

        return jax.lax.fori_loop(0, 100_000, body, (sums, jnp.zeros(2, jnp.float32)))

    sums, naive = add_up(zero_sums(2, 0))
    exact = 100_000 * float(term)
    ulp = float(np.spacing(np.float32(exact)))
    assert abs(float(sums.named()["miss"][0]) - exact) <= ulp
    assert abs(float(naive[0]) - exact) > 100 * ulp
    assert sums.named()["requests"].tolist() == [100_000] * 2
    untouched = [name for name in (*COUNTS, *TOTALS) if name not in ("requests", "miss")]
    assert not any(np.asarray(sums.named()[name]).any() for name in untouched)


HAND = {
    "requests": 5,
    "hits": 3,
    "hits_second": 2,
    "recall": 2.5,
    "precision": 1.0,
    "f1": 1.5,
    "max_similarity": 4.0,
    "mean_similarity": 3.5,
    "answer_recall": 2.0,
    "miss": 2.0,
    "slope": 0.25,
    "available": 4,
    "queries": 8,
    "offers": 10,
    "duplicates": 2,
    "offers_full": 4,
    "admissions": 6,
    "evictions": 3,
    "final_size": 3,
}


def hand(**changed: float) -> dict[str, np.ndarray]:
    """Counters of one lane, as the engine stores them."""
    return {name: np.array([value]) for name, value in (HAND | changed).items()}


def test_derived_variables() -> None:
    """5 scored queries: halves of 3 and 2. 10 arrivals, 2 of them duplicates, 4 new ones at a full cache."""
    got = {name: value.item() for name, value in ds.derive(hand(), True, True).items()}
    assert got == {
        "requests": 5,
        "hit_rate": 0.6,
        "recall_at_k": 0.5,
        "precision_at_k": 0.2,
        "set_f1": 0.3,
        "max_similarity": 0.8,
        "mean_similarity": 0.7,
        "answer_recall": 0.4,
        "availability": 0.8,
        "hit_given_available": 0.75,
        "miss_cost": 0.4,
        "miss_cost_total": 2.0,
        "switches": 6,
        "offers": 10,
        "admissions": 6,
        "evictions": 3,
        "rejections": 2,
        "duplicates": 2,
        "store_rate": 0.6,
        "admissions_per_query": 0.75,
        "admission_rate_full": 0.75,
        "final_size": 3,
        "first_half": pytest.approx(1 / 3),
        "second_half": 1.0,
        "learning_slope": 0.25,
    }
    assert set(ds.derive(hand(), False, False)) == set(got) - {"answer_recall", "availability", "hit_given_available"}
    assert set(got) <= set(ds.VARIABLES)


def test_a_rate_of_nothing_is_nan() -> None:
    got = ds.derive(hand(requests=0, hits=0, hits_second=0, available=0, offers_full=0), True, True)
    empty = {name for name, value in got.items() if np.isnan(value).any()}
    assert {"hit_rate", "first_half", "second_half", "hit_given_available", "admission_rate_full"} <= empty
    assert "store_rate" not in empty


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"final_size": 4}, "admissions - evictions = residents"),
        ({"admissions": 12, "evictions": 1, "final_size": 11, "offers": 20}, "residents <= capacity"),
        ({"hits": 6}, "hits <= requests"),
        ({"offers": 7}, "admissions + duplicates <= offers"),
        ({"recall": np.nan}, "all sums finite"),
    ],
)
def test_broken_invariants_are_named(changed: dict[str, float], message: str) -> None:
    sound, broken = hand(), hand(**changed)
    ds.check_invariants(sound, np.array([10]), "lru")
    both = {name: np.concatenate([sound[name], broken[name]]) for name in sound}
    with pytest.raises(SweepError) as caught:
        ds.check_invariants(both, np.array([10, 10]), "lru")
    assert str(caught.value) == f"engine invariant broken in lru: {message} (lane 1)"


def test_frozen_and_training_steps_are_scored_and_not() -> None:
    """The traces contain what the counters must tell apart."""
    for trace in random_traces(6):
        asked = trace.query >= 0
        assert (asked & (trace.mode == StepMode.FROZEN)).any() and (asked & (trace.mode == StepMode.TRAIN)).any()
