"""Parity with the authors' release: stochastic policies, by their mean hit rate.

Ours is the mean over at least 200 policy seeds. Where the reference has fewer than 10 its spread is unknown, so ours
stands for both.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.golden.release import SHORT, STREAM, cases_of, run_cases, split_case

pytestmark = [pytest.mark.golden, pytest.mark.usefixtures("optimised")]

STOCHASTIC = ("solar_e", "solar")
POLICY_SEEDS = 200
# From this capacity on nothing is evicted, and all policy seeds are one run.
NEVER_FULL = {"working_set": 100, "retrieval_noise_stream": 500}
# The means of the stream (6,000 steps, up to 200 slots, 200 policy seeds) take minutes: SOLARJAX_PARITY=full adds them.
IN_MEAN = SHORT + STREAM if os.environ.get("SOLARJAX_PARITY") == "full" else SHORT


def distances(family: str, reference: dict, folder: Path) -> dict[str, float]:
    """Distance of our mean hit rate from the reference's, in combined standard errors, per case and policy."""
    cases = cases_of(reference, (family,))
    policies = tuple(p for p in STOCHASTIC if p in reference[cases[0]])
    fixed = tuple(c for c in cases if split_case(c)[1] >= NEVER_FULL.get(family, 10**9))
    varied = tuple(c for c in cases if c not in fixed)
    out = {}
    for some, seeds in ((varied, POLICY_SEEDS), (fixed, 2)):
        result = run_cases(policies, seeds, folder, some) if some else None
        for name in some:
            trace, capacity = split_case(name)
            for policy in policies:
                want = reference[name][policy]
                ours = result.hit_rate.sel(trace=trace, capacity=capacity, policy=policy).values
                spread = ours.std(ddof=1)
                theirs = want["hit_rate_sd"] if want["policy_seeds"] >= 10 else spread
                error = np.sqrt(spread**2 / len(ours) + theirs**2 / want["policy_seeds"])
                distance = abs(ours.mean() - want["hit_rate_mean"])
                if error < 1e-9:
                    assert distance < 1e-6, (name, policy, "differs although nothing is random")
                    continue
                out[f"{name} {policy}"] = float(distance / error)
    return out


def test_stochastic_policies_in_mean(reference: dict, shared_data: Path) -> None:
    """Within 3 combined standard errors at 200 policy seeds.

    48 means are compared (54 with the stream), so one exceeds 3 standard errors by chance in one run of eight. The
    rule is fixed for all of them together: at most one beyond 3 and none beyond 4 (false alarm below 2 %).
    """
    found: dict[str, float] = {}
    for family in IN_MEAN:
        found |= distances(family, reference, shared_data / "solar_synthetic")
    assert len(found) >= 44
    beyond = {name: round(z, 2) for name, z in found.items() if z > 3}
    assert len(beyond) <= 1 and max(found.values()) <= 4, beyond
    # The comparison compares something: the largest of that many distances is well above 0.
    assert max(found.values()) > 1
