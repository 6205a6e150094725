"""Statistics of results: intervals, paired comparisons, capacity curves."""

from solarjax.analysis.curves import capacity_curve, headroom, tidy
from solarjax.analysis.paired import difference, paired
from solarjax.analysis.summary import (
    AnalysisError,
    Estimate,
    estimate,
    replicates,
    t_interval,
    unit_of_replication,
)

__all__ = [
    "AnalysisError",
    "Estimate",
    "capacity_curve",
    "difference",
    "estimate",
    "headroom",
    "paired",
    "replicates",
    "t_interval",
    "tidy",
    "unit_of_replication",
]
