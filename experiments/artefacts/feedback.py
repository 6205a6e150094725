"""The feedback study: what every policy gains when it learns whether the answer was good."""

from __future__ import annotations

from dataclasses import replace

import xarray as xr
from scipy import stats

from experiments import dialogues
from experiments.statistics import array_rows, sample_row, sweep_rows
from experiments.types import Artefact, Context, Plan, Results, Row, View
from solarjax.analysis import replicates, unit_of_replication

FEEDBACKS = ("retrieved", "liked", "liked_disliked")
GROUPS = ("P1 turns", "P2 mean=100", "P3 online")
CAPACITIES = (10, 50)
LISTENING = (
    "fifo,lru,lfu,arc,solar_e,solar_a(signal=miss),solar(signal=miss),solar_paper(fill=free),solar_e_paper,"
    "solar_e_discounted,weighted_value,posterior_mean,s3_fifo,sieve,w_tinylfu,lru_k,gdsf"
)
"""Policies whose decisions depend on accesses, and FIFO to compare with."""
DEAF = "two_q,gated_fifo(signal=miss),redundancy,k_center,bernoulli,reservoir,keep_first,random,oracle_cover"
"""Policies that look at no access, so that one run under `retrieved` holds for all feedbacks (2Q hears accesses only of
items that arrive again, and in these streams none does)."""
QUICK_LISTENING, QUICK_DEAF = "fifo,lru,lfu,solar_e,solar(signal=miss)", "k_center"


def plan(context: Context) -> Plan:
    """One sweep per protocol and feedback. Raises `Missing`."""
    groups = GROUPS[:1] if context.quick else GROUPS
    capacities = CAPACITIES[1:] if context.quick else CAPACITIES
    listening, deaf = (QUICK_LISTENING, QUICK_DEAF) if context.quick else (LISTENING, DEAF)
    found = {}
    for group, job in dialogues.plan(context, "locomo", groups).items():
        for feedback in FEEDBACKS:
            chosen = f"{listening},{deaf}" if feedback == FEEDBACKS[0] else listening
            found[f"{group} {feedback}"] = replace(job, policies=chosen, feedback=feedback, capacities=capacities)
    return found


def rows(results: Results) -> list[Row]:
    """`feedback`: hit rate per protocol and feedback, paired with FIFO. `effect`: each policy against itself under
    `retrieved`, paired by conversation. `rank`: place of each policy in its column, 1 for the best."""
    out: list[Row] = []
    groups = [name.removesuffix(f" {FEEDBACKS[0]}") for name in results if name.endswith(f" {FEEDBACKS[0]}")]
    for group in groups:
        plain = results[f"{group} {FEEDBACKS[0]}"]
        for feedback in FEEDBACKS:
            entry = f"{group} {feedback}"
            data = results[entry]
            chosen = ("hit_rate", "recall_at_k")
            out += sweep_rows(data, table="feedback", entry=entry, group=entry, measures=chosen)
            out += _ranks(data["hit_rate"], entry)
            if feedback != FEEDBACKS[0]:
                out += _effects(data["hit_rate"], plain["hit_rate"], entry)
    return out


def _effects(told: xr.DataArray, plain: xr.DataArray, entry: str) -> list[Row]:
    gain = replicates(told - plain.sel(policy=told["policy"])).transpose("policy", "capacity", "replicate")
    return [
        sample_row(
            gain.sel(policy=policy, capacity=capacity).values, contrast=True, unit=unit_of_replication(told),
            table="effect", group=entry, policy=policy, measure="hit_rate", x_name="K", x=float(capacity),
            capacity=capacity, entry=entry,
        )
        for policy in map(str, told["policy"].values)
        if policy != "fifo"
        for capacity in map(int, told["capacity"].values)
    ]  # fmt: skip


def _ranks(hit: xr.DataArray, entry: str) -> list[Row]:
    # Per replicate, so that a place has a spread; policies that cannot listen are ranked under `retrieved` only.
    rank = xr.apply_ufunc(lambda x: stats.rankdata(-x, axis=-1), hit, input_core_dims=[["policy"]],
                          output_core_dims=[["policy"]])  # fmt: skip
    return array_rows(rank.transpose(*hit.dims), "rank", "rank", entry, entry, baseline=None)


ARTEFACT = Artefact(
    id="feedback",
    title="Feedback study",
    source="beyond the paper",
    plan=plan,
    rows=rows,
    views=(
        View("feedback", "hit_rate", "Hit rate", figure=False),
        View("effect", "hit_rate", "Gain of a policy from feedback, against itself without", figure=False),
        View("rank", "rank", "Mean rank", figure=False, compare=False),
    ),
    summary=(
        "`retrieved`: whatever is in the top 3 counts as accessed, as in the paper. `liked`: only when the answer was "
        "good (a relevant item was found). `liked_disliked`: a bad answer also counts against what was retrieved, for "
        "the policies that have a use for it (the Beta posteriors). Policies that look at no access are shown once."
    ),
    claims=("S22", "S23"),
)
