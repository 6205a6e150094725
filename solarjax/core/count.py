"""Counting one step into the carried sums."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.lanes import Rules
from solarjax.core.metrics import Sums
from solarjax.core.observe import Step
from solarjax.core.relevance import relevance_of
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

    asked = step.query >= 0
    scored = (step.mode >= np.uint8(StepMode.SCORED)) & asked
    on = scored.astype(jnp.float32)
    good = scored & (scores.hit > 0)
    new = view.has_candidate & ~view.candidate_resident
    counts = {
        "requests": scored,
        "hits": good,
        "hits_second": good & step.second_half,
        "queries": asked,
        "offers": view.has_candidate,
        "duplicates": view.candidate_resident,
        "offers_full": new & (view.size >= view.capacity),
        "admissions": writes,
        "evictions": evicts,
    }
    names = ("recall", "precision", "f1", "max_similarity", "mean_similarity")
    totals = {name: getattr(scores, name) * on for name in names}
    totals["miss"] = miss * on
    totals["slope"] = jnp.where(good, step.slope_weight, np.float32(0))
    if tables.answer_recall is not None:
        totals["answer_recall"] = scores.answer_recall * on
    if rules.availability:
        relevant = relevance_of(tables, row[None], view.resident_id) > 0
        counts["available"] = scored & (relevant & view.occupied).any(axis=0)
    sums = sums.add(counts, totals)
    if rules.categories and tables.category is not None:
        category = tables.category.reshape(-1)[row]
        group = (jnp.arange(rules.categories, dtype=jnp.int32)[:, None] == category[None]) & scored[None]
        sums = sums._replace(
            category_requests=sums.category_requests + group.astype(jnp.int32),
            category_hits=sums.category_hits + (group & good[None]).astype(jnp.int32),
        )
    return sums
