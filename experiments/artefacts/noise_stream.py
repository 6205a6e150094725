"""Retrieval noise as a stream (Table 11): each item once, then 1,000 queries without arrivals."""

from __future__ import annotations

from experiments import published
from experiments.statistics import sweep_rows
from experiments.types import Artefact, Context, Plan, Results, Row, View
from solarjax.cli.job import Job
from solarjax.cli.sources import SourceSpec

CAPACITIES = (50, 100, 200, 500, 1000)
POLICIES = "fifo,lfu,solar_e,solar_a,solar,gated_fifo,bernoulli,bernoulli(p=0.1),keep_first,reservoir,solar(fill=free)"


def plan(context: Context) -> Plan:
    """One sweep. The quick run keeps to the capacities of at most 200."""
    capacities = CAPACITIES[:3] if context.quick else CAPACITIES
    policies = "fifo,solar,gated_fifo,bernoulli,keep_first" if context.quick else POLICIES
    seeds = context.synthetic_seeds[:20] if context.quick else context.synthetic_seeds
    return {
        "stream": Job(SourceSpec("workload", "retrieval_noise_stream"), policies, capacities=capacities, seeds=seeds)
    }


def rows(results: Results) -> list[Row]:
    """x is K."""
    return sweep_rows(results["stream"], table="stream", entry="stream")


ARTEFACT = Artefact(
    id="noise_stream",
    title="Retrieval noise, streamed",
    source="Table 11",
    plan=plan,
    rows=rows,
    views=(
        View("stream", "hit_rate", "Hit rate by capacity"),
        View("stream", "final_size", "Items in the cache when the queries start", compare=False),
    ),
    summary=(
        "The items of the probe arrive once each in random order with a query of their topic (not scored), then "
        "1,000 scored queries. What the cache holds by then decides everything."
    ),
    published=published.NOISE_STREAM,
    claims=("S08",),
    quick=False,
)
