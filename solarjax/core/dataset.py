"""From counters to a labelled dataset: names, units and definitions in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from solarjax.core.chunks import SweepError

_PER_QUERY = "1"
# name -> (long name, unit)
VARIABLES: dict[str, tuple[str, str]] = {
    "requests": ("scored queries", "queries"),
    "hit_rate": ("share of scored queries with a relevant item in the top-k", _PER_QUERY),
    "recall_at_k": ("relevance retrieved / relevance there is, mean over scored queries", _PER_QUERY),
    "precision_at_k": (
        "relevance retrieved / items retrieved (k, or fewer while filling), mean over scored queries",
        _PER_QUERY,
    ),
    "set_f1": ("harmonic mean of precision@k and recall@k per query, mean over scored queries", _PER_QUERY),
    "max_similarity": (
        "best cosine of the retrieved, clipped to [0, 1], mean over scored queries",
        _PER_QUERY,
    ),
    "mean_similarity": (
        "mean cosine of the retrieved, clipped to [0, 1], mean over scored queries",
        _PER_QUERY,
    ),
    "answer_recall": ("best token recall of the gold answer in one retrieved text, mean", _PER_QUERY),
    "availability": ("share of scored queries with a relevant item anywhere in the cache", _PER_QUERY),
    "hit_given_available": ("hits / queries with a relevant resident (NaN if none)", _PER_QUERY),
    "miss_cost": ("1 - quality, mean over scored queries", _PER_QUERY),
    "miss_cost_total": ("1 - quality, sum over scored queries", "miss cost"),
    "switches": ("steps at which the cache content changed", "steps"),
    "total_cost": ("miss_cost_total + lambda * switches", "miss cost"),
    "offers": ("arrivals, duplicates of residents included", "items"),
    "admissions": ("items written to the cache", "items"),
    "evictions": ("writes that replaced a resident", "items"),
    "rejections": ("arrivals of non-resident items that were not written", "items"),
    "duplicates": ("arrivals of items already resident", "items"),
    "store_rate": ("admissions / arrivals", _PER_QUERY),
    "admissions_per_query": ("admissions / queries of any kind", "items/query"),
    "admission_rate_full": (
        "admissions at a full cache / new arrivals at a full cache (NaN if none)",
        _PER_QUERY,
    ),
    "final_size": ("residents at the end", "items"),
    "first_half": ("hit rate over the first half of the scored queries", _PER_QUERY),
    "second_half": ("hit rate over the second half of the scored queries", _PER_QUERY),
    "learning_slope": ("least-squares slope of the rolling mean of hits, window max(20, n // 25)", "1/query"),
    "category_requests": ("scored queries of the category", "queries"),
    "category_hit_rate": ("hit rate over the queries of the category (NaN if none)", _PER_QUERY),
    "hits": ("1 where a scored step's query hit, 0 elsewhere", "1"),
}


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Elementwise quotient in f64, NaN where the denominator is 0."""
    return np.divide(
        numerator, denominator, out=np.full(np.shape(numerator), np.nan), where=np.asarray(denominator) != 0
    )


def derive(sums: Mapping[str, np.ndarray], answers: bool, availability: bool) -> dict[str, np.ndarray]:
    """Variables of the dataset from the counters of `core.metrics.Sums` (any common shape)."""
    n = sums["requests"]
    second = n - (n + 1) // 2
    new = sums["offers"] - sums["duplicates"]
    out = {
        "requests": n,
        "hit_rate": ratio(sums["hits"], n),
        "recall_at_k": ratio(sums["recall"], n),
        "precision_at_k": ratio(sums["precision"], n),
        "set_f1": ratio(sums["f1"], n),
        "max_similarity": ratio(sums["max_similarity"], n),
        "mean_similarity": ratio(sums["mean_similarity"], n),
        "miss_cost": ratio(sums["miss"], n),
        "miss_cost_total": sums["miss"],
        "switches": sums["admissions"],
        "offers": sums["offers"],
        "admissions": sums["admissions"],
        "evictions": sums["evictions"],
        "rejections": new - sums["admissions"],
        "duplicates": sums["duplicates"],
        "store_rate": ratio(sums["admissions"], sums["offers"]),
        "admissions_per_query": ratio(sums["admissions"], sums["queries"]),
        "admission_rate_full": ratio(sums["evictions"], sums["offers_full"]),
        "final_size": sums["final_size"],
        "first_half": ratio(sums["hits"] - sums["hits_second"], (n + 1) // 2),
        "second_half": ratio(sums["hits_second"], second),
        "learning_slope": sums["slope"],
    }
    if answers:
        out["answer_recall"] = ratio(sums["answer_recall"], n)
    if availability:
        out["availability"] = ratio(sums["available"], n)
        out["hit_given_available"] = ratio(sums["hits"], sums["available"])
    return out


def check_invariants(sums: Mapping[str, np.ndarray], capacity: np.ndarray, label: str) -> None:
    """End-of-run invariants of the engine; a violation is a bug in the engine, never in the input.

    Raises:
      SweepError: naming the invariant and the first lane that breaks it.
    """
    rules = {
        "admissions - evictions = residents": sums["admissions"] - sums["evictions"] == sums["final_size"],
        "residents <= capacity": sums["final_size"] <= capacity,
        "hits <= requests": sums["hits"] <= sums["requests"],
        "admissions + duplicates <= offers": sums["admissions"] + sums["duplicates"] <= sums["offers"],
        "all sums finite": np.logical_and.reduce([np.isfinite(sums[n]) for n in ("miss", "recall", "f1", "slope")]),
    }
    for name, holds in rules.items():
        if not np.all(holds):
            raise SweepError(f"engine invariant broken in {label}: {name} (lane {int(np.argmin(holds))})")


def assemble(
    values: Mapping[str, np.ndarray],
    dims: Sequence[str],
    coords: Mapping[str, Sequence],
    lambdas: Sequence[float],
    answers: bool,
    availability: bool,
    categories: Sequence[str],
    attrs: Mapping[str, object],
) -> xr.Dataset:
    """The labelled dataset; `values` holds counters of shape `[dims...]` (`category_*`: plus a last axis)."""
    dims = tuple(dims)
    data: dict[str, tuple] = {name: (dims, array) for name, array in derive(values, answers, availability).items()}
    lam = np.asarray(lambdas, float)
    cost = data["miss_cost_total"][1][..., None] + lam * data["switches"][1][..., None]
    data["total_cost"] = ((*dims, "lambda"), cost)
    coords = {**coords, "lambda": list(lam)}
    if categories:
        data["category_requests"] = ((*dims, "category"), values["category_requests"])
        rate = ratio(values["category_hits"], values["category_requests"])
        data["category_hit_rate"] = ((*dims, "category"), rate)
        coords["category"] = list(categories)
    if "step_hits" in values:
        data["hits"] = ((*dims, "step"), values["step_hits"])
        data["scored"] = (("trace", "seed", "step"), values["step_scored"])
    dataset = xr.Dataset(data, coords=coords, attrs=dict(attrs))
    for name, (long_name, units) in VARIABLES.items():
        if name in dataset:
            dataset[name].attrs.update(long_name=long_name, units=units)
    if "scored" in dataset:
        dataset["scored"].attrs.update(long_name="1 where the step's query is scored", units="1")
    return dataset
