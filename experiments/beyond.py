"""Policies that the paper does not compare, put into its tables: which ones, and how they join the paper's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from experiments.types import Context

CLASSICS = "two_q,s3_fifo,sieve,w_tinylfu,lru_k,gdsf"
"""Rules for exact keys, carried over to semantic hits (`solarjax/policies/exact_keys.py`)."""
DIVERSITY = "redundancy,k_center"
BANDITS = "posterior_mean,solar_e_discounted,solar_e_paper"
ABLATION = "weighted_value"
CONTROLS = "bernoulli,reservoir,keep_first,random"
OFFLINE = "oracle,oracle_cover"
VARIANTS = "gdsf(miss_weight=1),lru_k(history=3)"

OURS = f"{CLASSICS},{DIVERSITY},{BANDITS},{ABLATION},{CONTROLS},{OFFLINE},{VARIANTS}"
DRAWN = ("fifo", *CLASSICS.split(","), *DIVERSITY.split(","), "posterior_mean", "reservoir", "solar",
         "solar(signal=miss)", "oracle_cover")  # fmt: skip
"""What the figures of those tables show."""
QUICK = f"{CLASSICS},{DIVERSITY},posterior_mean,reservoir"


def policies(context: Context) -> str:
    """What a table adds to the paper's. A program per policy has to be compiled, so a quick run takes ten."""
    return QUICK if context.quick else OURS


def join(base: xr.Dataset, ours: xr.Dataset, capacities: Sequence[int] | None = None) -> xr.Dataset:
    """One dataset of the policies of both sweeps, at `capacities` (default: those of `ours`).

    Pairing by seed and trace stays valid: a seed draws the same workload in both. A policy that is in both is taken
    from `base`.

    Raises:
      ValueError: the sweeps differ in traces, seeds or settings, so that their policies cannot be compared.
    """
    wanted = list(map(int, ours["capacity"].values)) if capacities is None else list(capacities)
    for name in ("trace", "seed"):
        if not np.array_equal(base[name].values, ours[name].values):
            raise ValueError(f"the sweeps to join differ in {name}")
    for name in ("quality", "feedback", "k", "root_seed"):
        if base.attrs.get(name) != ours.attrs.get(name):
            raise ValueError(f"the sweeps to join differ in {name}: {base.attrs.get(name)}, {ours.attrs.get(name)}")
    known = set(base["policy"].values)
    new = [p for p in ours["policy"].values if p not in known]
    parts = [base.sel(capacity=wanted), ours.sel(capacity=wanted, policy=new)]
    common = [v for v in parts[0].data_vars if v in parts[1].data_vars]
    return xr.concat(
        [part[common] for part in parts], "policy", data_vars="minimal", coords="minimal", compat="override",
        join="override", combine_attrs="override",
    )  # fmt: skip
