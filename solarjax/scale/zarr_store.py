"""The dataset of a sweep on disk, filled region by region while it runs.

A zarr (format 3) group with the variables of `core.dataset.VARIABLES` and `done [trace, seed] bool`, which becomes
true only after everything of those cells has reached the disk. Unfinished cells are NaN, or 0 in whole-number
variables: `data.where(data.done)` keeps what can be believed. Any reader may open it at any time:

    xarray.open_zarr("runs/big/result.zarr")
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from solarjax import provenance
from solarjax.core.chunks import SweepError, cannot_write, check_same
from solarjax.core.gather import Gather
from solarjax.core.metrics import zero_sums
from solarjax.core.tasks import SweepPlan
from solarjax.scale.regions import Region, lay_out, regions

DONE = "done"
_OWN = ("layout", "code", "lambdas")  # attributes of the store that results do not have


def _zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise SweepError("a zarr store needs the package zarr: pip install 'solarjax[scale]'") from None
    return zarr


class ZarrStore:
    """One sweep's dataset in the folder `path`; several processes may write different regions.

    Args:
      path: made if it does not exist. A store is either there complete with its metadata, or not at all.
      plan: the sweep. How it is cut is decided by whoever makes the store; see `plan` and `regions` afterwards.
      writers: processes that will share the work.
      layout: how to cut it, from `scale.regions.lay_out`, which decides by default.

    Raises:
      SweepError: zarr is not installed, the folder holds something else or another sweep, or cannot be written.
    """

    def __init__(self, path: Path, plan: SweepPlan, writers: int = 1, layout: Mapping[str, Any] | None = None):
        self.path = Path(path)
        zarr = _zarr()
        if not self.path.exists():
            layout = lay_out(plan, writers) if layout is None else layout
            _create(zarr, self.path, plan.laid_out(layout), layout)
        try:
            self._group = zarr.open_group(str(self.path), mode="r+")
            layout = dict(self._group.attrs["layout"])
            held = {**json.loads(self._group.attrs["config"]), **{n: self._group.attrs[n] for n in _OWN[1:]}}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SweepError(f"{self.path} is not a sweep's store; choose another directory") from error
        want = {**plan.config, "code": provenance.code_fingerprint(), "lambdas": plan.lambdas}
        check_same(self.path, held, json.loads(json.dumps(want)))
        self.plan = plan.laid_out(layout)
        self.regions = regions(self.plan, int(layout["region_seeds"]))

    def done(self) -> np.ndarray:
        """`[trace, seed] bool`: cells whose metrics are on disk, as it is now."""
        return np.asarray(self._group[DONE][:], bool)

    def unfinished(self) -> list[Region]:
        """Regions that have to be computed (again), in order."""
        done = self.done()
        return [r for r in self.regions if not done[r.trace, r.start : r.stop].all()]

    def write(self, region: Region, data: xr.Dataset) -> None:
        """Writes a region's metrics, then marks it.

        Raises:
          SweepError: the disk refuses; the region stays unmarked.
        """
        there = {str(name) for name in data.data_vars}
        asked = {name for name, array in self._group.arrays() if name not in data.coords} - {DONE}
        assert there == asked, f"variables {sorted(there ^ asked)} differ from the store's"
        try:
            files = [self._put(str(name), region, values.values) for name, values in data.data_vars.items()]
            for file in files:
                _sync(file)
            _sync(self._put(DONE, region, np.ones((1, region.stop - region.start), bool)))
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def _put(self, name: str, region: Region, values: np.ndarray) -> Path:
        """Writes one variable's chunk; the file that holds it (none if all of it is the fill value)."""
        array = self._group[name]
        assert array.dtype == values.dtype, f"{name} is {values.dtype}, {array.dtype} in the store"
        place: list[slice] = [slice(None)] * array.ndim
        at = array.metadata.dimension_names.index("seed")
        place[0], place[at] = slice(region.trace, region.trace + 1), slice(region.start, region.stop)
        array[tuple(place)] = values
        key = [0] * array.ndim
        key[0], key[at] = region.trace, region.start // array.chunks[at]
        return self.path / name / array.metadata.encode_chunk_key(tuple(key))


def _create(zarr: Any, path: Path, plan: SweepPlan, layout: Mapping[str, Any]) -> None:
    """Makes the group with all its metadata beside `path` and moves it there, unless another process was first."""
    source, step = plan.source, int(layout["region_seeds"])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise cannot_write(path.parent, error) from error
    own = {"layout": dict(layout), "code": provenance.code_fingerprint(), "lambdas": plan.lambdas}
    sizes = {name: len(values) for name, values in plan.coords.items()}
    try:
        group = zarr.create_group(str(made), overwrite=True, attributes={**plan.attrs, **own})
        like = template(plan)
        for name, variable in like.data_vars.items():
            dims = [str(d) for d in variable.dims]
            missing = np.nan if variable.dtype.kind == "f" else 0
            group.create_array(
                str(name), dtype=variable.dtype, dimension_names=dims, attributes=dict(variable.attrs),
                shape=[sizes.get(d, like.sizes[d]) for d in dims], fill_value=missing,
                chunks=[{"trace": 1, "seed": step}.get(d, sizes.get(d, like.sizes[d])) for d in dims],
            )  # fmt: skip
        group.create_array(
            DONE, dtype=bool, dimension_names=["trace", "seed"], fill_value=False, chunks=[1, step],
            shape=[len(source.traces), len(plan.seeds)], attributes={"long_name": "1 where the cells are finished"},
        )  # fmt: skip
        for name, values in {**{str(n): c.values for n, c in like.coords.items()}, **plan.coords}.items():
            labels = np.asarray(values)
            text = labels.dtype.kind == "U"
            group.create_array(
                name, data=labels.astype(np.dtypes.StringDType()) if text else labels, dimension_names=[name]
            )
        with warnings.catch_warnings():
            # Readers look for consolidated metadata first; the format's text does not mention it yet.
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(str(made))
        made.chmod(0o755)
        for file in made.rglob("*"):
            _sync(file)
        os.rename(made, path)
        _sync(path.parent)
    except OSError as error:
        if not path.exists():
            raise cannot_write(path.parent, error) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def template(plan: SweepPlan) -> xr.Dataset:
    """Names, axes, types and attributes of the results, with one trace and one seed."""
    gathered = Gather(plan, traces=[0], seeds=plan.seeds[:1])
    axes = tuple(1 if d in ("trace", "seed") else len(plan.coords[d]) for d in plan.dims)
    counters = {name: np.asarray(x) for name, x in zero_sums(1, len(plan.source.categories)).named().items()}
    counters["final_size"] = np.zeros(1, np.int32)
    if plan.per_step:
        counters["step_hits"] = np.zeros((plan.source.num_steps, 1), np.uint8)
    gathered.values = {name: np.zeros((*axes, *x.shape[:-1]), x.dtype) for name, x in counters.items()}
    return gathered.labelled(np.zeros((1, 1, plan.source.num_steps), np.uint8) if plan.per_step else None)


def open_results(path: Path) -> xr.Dataset:
    """A finished store as `core.sweep.sweep` returns it, but read from disk when asked for.

    Raises:
      SweepError: zarr is not installed, or there is no readable and finished store.
    """
    _zarr()
    try:
        data = xr.open_zarr(str(path), chunks=None)
    except (OSError, ValueError, KeyError) as error:
        raise SweepError(f"{path} is not a sweep's store: {error}") from error
    if DONE not in data or not bool(data[DONE].all()):
        raise SweepError(f"{path} is not finished; repeat the command that began it")
    text = {n: (c.dims, np.array([str(v) for v in c.values])) for n, c in data.coords.items() if c.dtype.kind in "OT"}
    data = data.drop_vars(DONE).assign_coords(text)
    data.attrs = {name: value for name, value in data.attrs.items() if name not in _OWN}
    return data


def _sync(path: Path) -> None:
    """Makes a file or folder that exists reach the disk, with its folder's entry."""
    for target in (path, path.parent):
        if target.exists():
            handle = os.open(target, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
