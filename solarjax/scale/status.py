"""How far a sweep's folder is, read while it runs or afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from solarjax.core.chunks import SweepError, read_header


class Status(NamedTuple):
    """done of total `unit`; complete: the run has ended and its results are whole."""

    folder: Path
    done: int
    total: int
    unit: str
    complete: bool

    def line(self) -> str:
        """One line for people."""
        share = 100 * self.done / self.total if self.total else 100.0
        end = "complete" if self.complete else "repeat its command to go on, from any number of processes"
        return f"{self.folder}: {self.done} of {self.total} {self.unit} done ({share:.0f} %); {end}"


def status(folder: Path) -> Status:
    """Progress of the run in `folder` (what `--out` named).

    Raises:
      SweepError: there is no run in it, or its store cannot be read.
    """
    folder = Path(folder)
    complete = (folder / "provenance.json").exists()
    if (folder / "result.zarr").exists():
        import xarray as xr

        try:
            with xr.open_zarr(str(folder / "result.zarr"), chunks=None) as data:
                done = data["done"].values
        except (ImportError, OSError, ValueError, KeyError) as error:
            raise SweepError(f"{folder / 'result.zarr'} cannot be read: {error}") from error
        return Status(folder, int(done.sum()), done.size, "(trace, seed) pairs", complete)
    if complete:
        return Status(folder, 1, 1, "runs", True)
    begun = sorted(folder.glob("chunks-*/sweep.json"), key=lambda path: path.stat().st_mtime)
    if not begun:
        raise SweepError(f"{folder} holds no run; name the folder that --out named")
    parts = begun[-1].parent
    total = int(read_header(parts)[1].get("tasks", 0))
    return Status(folder, sum(1 for _ in (parts / "chunks").glob("[!.]*.npz")), total, "chunks", False)
