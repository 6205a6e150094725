"""Results as plain rows, for `--json`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

MEANS = ("hit_rate", "precision_at_k", "store_rate", "admissions", "evictions", "final_size")


def rows(data: xr.Dataset) -> list[dict[str, Any]]:
    """One row per trace, policy, capacity and grid point.

    Each holds `policy`, `capacity`, `trace`, the grid point's parameters, `seeds` (how many), means over
    seeds of `hit_rate`, `precision_at_k`, `store_rate`, `admissions`, `evictions`, `final_size`, and
    `hit_rate_sd` (sample standard deviation over seeds, None for one seed). With per-step results also
    `hits`: one 0/1 character per scored step of the first seed. Missing numbers are None.
    """
    import numpy as np

    from solarjax.analysis.curves import plain
    from solarjax.report.variants import grid_axes

    grid = grid_axes(data)
    axes = ("trace", "policy", "capacity", *grid)
    arrays = {name: data[name].transpose(*axes, "seed").values.astype(np.float64) for name in MEANS}
    steps = data["hits"].isel(seed=0).transpose(*axes, "step").values if "hits" in data else None
    scored = data["scored"].isel(seed=0).transpose("trace", "step").values.astype(bool) if "hits" in data else None
    found = []
    for at in itertools.product(*(range(data.sizes[axis]) for axis in axes)):
        label = {axis: plain(data[axis].values[i]) for axis, i in zip(axes, at, strict=True)}
        row: dict[str, Any] = {
            "policy": label["policy"],
            "capacity": label["capacity"],
            "trace": label["trace"],
        }
        row.update({axis: label[axis] for axis in grid})
        row["seeds"] = data.sizes["seed"]
        for name in MEANS:
            row[name] = plain(arrays[name][at].mean())
            if name == "hit_rate":
                values = arrays[name][at]
                row["hit_rate_sd"] = plain(values.std(ddof=1)) if len(values) > 1 else None
        if steps is not None and scored is not None:
            row["hits"] = "".join(map(str, steps[at][scored[at[0]]]))
        found.append(row)
    return found
