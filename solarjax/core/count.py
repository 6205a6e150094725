"""Counting one step into the carried sums."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.lanes import Rules, take
from solarjax.core.metrics import Sums
from solarjax.core.observe import Step
from solarjax.core.tables import Tables
from solarjax.core.trace import StepMode
from solarjax.core.types import Scores, View


def count_step(
    rules: Rules,
    tables: Tables,
    sums: Sums,
    scores: Scores,
    miss: Array,
    step: Step,
    row: Array,
    view: View,
    writes: Array,
    evicts: Array,
) -> Sums:
    """The sums after one step. `row [B]`: the query's row in the tables; `writes`, `evicts`: `[B] bool`."""

    def one(flag: Array) -> Array:
        return flag.astype(jnp.int32)

    asked = step.query >= 0
    scored = (step.mode >= np.uint8(StepMode.SCORED)) & asked
    on = scored.astype(jnp.float32)
    hit = scores.hit > 0
    good = scored & hit
    full = view.size >= view.capacity
    update: dict[str, Any] = {
        "requests": sums.requests + one(scored),
        "hits": sums.hits + one(good),
        "hits_second": sums.hits_second + one(good & step.second_half),
        "miss": sums.miss.add(miss * on),
        "slope": sums.slope.add(jnp.where(good, step.slope_weight, np.float32(0))),
        "queries": sums.queries + one(asked),
        "offers": sums.offers + one(view.has_candidate),
        "duplicates": sums.duplicates + one(view.candidate_resident),
        "offers_full": sums.offers_full + one(view.has_candidate & ~view.candidate_resident & full),
        "admissions": sums.admissions + one(writes),
        "evictions": sums.evictions + one(evicts),
    }
    for name in ("recall", "precision", "f1", "max_similarity", "mean_similarity"):
        update[name] = getattr(sums, name).add(getattr(scores, name) * on)
    if tables.answer_recall is not None:
        update["answer_recall"] = sums.answer_recall.add(scores.answer_recall * on)
    if rules.availability:
        relevant = take(tables.relevance, row[None], view.resident_id).astype(jnp.float32) > 0
        update["available"] = sums.available + one(scored & (relevant & view.occupied).any(axis=0))
    if rules.categories and tables.category is not None:
        category = tables.category.reshape(-1)[row]
        group = (jnp.arange(rules.categories, dtype=jnp.int32)[:, None] == category[None]) & scored[None]
        update["category_requests"] = sums.category_requests + one(group)
        update["category_hits"] = sums.category_hits + one(group & hit[None])
    return sums._replace(**update)
