"""The store on disk: the same bits as in memory, and nothing unfinished is ever taken for finished."""

from __future__ import annotations

import gc
import resource
import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from solarjax import provenance
from solarjax.core.chunks import SweepError
from solarjax.core.metrics import TOTALS, zero_sums
from solarjax.core.task_runner import TaskRunner
from solarjax.core.tasks import plan_sweep
from solarjax.policies.registry import case
from solarjax.scale import distributed, zarr_store
from solarjax.scale.regions import cell_bytes, cells_per_seed
from solarjax.scale.shares import run_share, wait_for_all
from solarjax.scale.sinks import ChunkSink, RegionSink
from solarjax.scale.status import status
from solarjax.scale.zarr_store import ZarrStore, open_results
from solarjax.workloads.registry import make
from solarjax.workloads.sources import GeneratedSource
from tests.scale.worlds import assert_same, expected, small_plan
from tests.unit.test_core_chunks import snapshot


@pytest.fixture(scope="module")
def whole() -> xr.Dataset:
    """The sweep in memory; it also compiles what the others use."""
    return expected()


def sink(folder: Path, **options: object) -> RegionSink:
    return RegionSink(small_plan(), folder / "result.zarr", **options)  # type: ignore[arg-type]


class Stopped(Exception):
    """Stands for the end of a process."""


def run_some(target: RegionSink | ChunkSink, tasks: int) -> None:
    """Runs so many tasks and stops."""

    def stop(done: int, total: int, label: str) -> None:
        if done == tasks:
            raise Stopped

    with pytest.raises(Stopped):
        run_share(target, TaskRunner(target.plan), progress=stop)


def test_a_store_is_filled_stopped_inspected_and_finished(tmp_path: Path, whole: xr.Dataset) -> None:
    first = sink(tmp_path)
    regions = first.store.regions
    assert len(regions) == 12 and all(len(r.tasks) == 2 for r in regions)
    assert status(tmp_path).line().startswith(f"{tmp_path}: 0 of 21 (trace, seed) pairs done (0 %)")
    # Two regions, and a task of the third.
    stop = sum(len(r.tasks) for r in regions[:2]) + 1
    run_some(first, stop)
    assert first.open_regions == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = xr.open_zarr(str(tmp_path / "result.zarr"), chunks=None)
    done = seen["done"].values
    assert done.sum() == sum(r.stop - r.start for r in regions[:2]) and done[0, :4].all() and not done[0, 4:].any()
    assert np.isnan(seen["hit_rate"].values[~np.broadcast_to(done[:, None, None, None], seen["hit_rate"].shape)]).all()
    part = seen.isel(trace=[0], seed=slice(0, 4)).drop_vars("done")
    for name, values in part.data_vars.items():
        there = whole[name].isel({d: i for d, i in (("trace", [0]), ("seed", slice(0, 4))) if d in values.dims})
        assert values.values.tobytes() == there.values.tobytes(), name
    assert (status(tmp_path).done, status(tmp_path).complete) == (4, False)
    with pytest.raises(SweepError, match="10 of 12 regions are not finished"):
        first.result(TaskRunner(first.plan))
    with pytest.raises(SweepError, match="is not finished; repeat the command that began it"):
        open_results(tmp_path / "result.zarr")

    again = sink(tmp_path)
    assert run_share(again, TaskRunner(again.plan)) == len(again.plan.tasks) - (stop - 1)
    assert run_share(again, TaskRunner(again.plan)) == 0 and again.open_regions == 0
    assert_same(again.result(TaskRunner(again.plan)), whole)


def test_shares_of_processes_make_one_dataset(tmp_path: Path, whole: xr.Dataset) -> None:
    """Two writers in turn, in both kinds of store; each finds its own part and nothing twice."""
    for kind in ("regions", "files"):
        counts = []
        for index in (1, 0):
            folder = tmp_path / kind
            target = sink(folder, writers=2) if kind == "regions" else ChunkSink(small_plan(), folder)
            counts.append(run_share(target, TaskRunner(target.plan), index, 2))
        assert min(counts) > 0 and sum(counts) == len(target.plan.tasks)
        wait_for_all(target, patience=0)
        assert_same(target.result(TaskRunner(target.plan)), whole)


def test_process_0_takes_over_what_never_comes(tmp_path: Path, whole: xr.Dataset) -> None:
    target = ChunkSink(small_plan(), tmp_path / "chunks-0")
    notes: list[str] = []
    calls: list[tuple[int, int, str]] = []
    run_some(target, 5)  # another process got so far
    assert status(tmp_path)[1:] == (5, 22, "chunks", False)
    distributed.run_together(
        target, TaskRunner(target.plan), 0, 2, 0.01, lambda *call: calls.append(call), notes.append
    )  # fmt: skip
    (note,) = notes
    assert note.endswith("tasks of the other processes are missing and none was finished for 0.01 s; they run here now")
    assert any(label == "waiting for the other processes" for _, _, label in calls)
    assert_same(target.result(TaskRunner(target.plan)), whole)


def test_a_damaged_file_is_computed_again(tmp_path: Path, whole: xr.Dataset) -> None:
    target = ChunkSink(small_plan(), tmp_path)
    runner = TaskRunner(target.plan)
    run_share(target, runner)
    victim = sorted((tmp_path / "chunks").glob("*.npz"))[4]
    victim.write_bytes(victim.read_bytes()[:200])
    assert_same(target.result(runner), whole)


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """No file of this process may grow beyond `limit` bytes: the kernel refuses in the middle of a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path: Path, whole: xr.Dataset) -> None:
    target = sink(tmp_path)
    before = snapshot(tmp_path)
    with full_disk(60), pytest.raises(SweepError) as caught:
        run_share(target, TaskRunner(target.plan))
    assert str(caught.value) == f"cannot write to {tmp_path / 'result.zarr'}: File too large"
    assert not target.store.done().any() and before.keys() <= snapshot(tmp_path).keys()
    files = ChunkSink(small_plan(), tmp_path / "files")
    with full_disk(60), pytest.raises(SweepError, match="files/chunks: File too large"):
        run_share(files, TaskRunner(files.plan))
    assert not files.finished() and list(snapshot(tmp_path / "files")) == ["sweep.json"]
    with full_disk(60), pytest.raises(SweepError, match="cannot write to .*: File too large"):
        sink(tmp_path / "new")
    assert not snapshot(tmp_path / "new")
    again = sink(tmp_path)
    run_share(again, TaskRunner(again.plan))
    assert_same(again.result(TaskRunner(again.plan)), whole)


def test_killed_between_the_metrics_and_the_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = sink(tmp_path)
    real = ZarrStore._put

    def killed(store: ZarrStore, name: str, *rest: object) -> Path:
        if name == zarr_store.DONE:
            raise Stopped
        return real(store, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ZarrStore, "_put", killed)
    with pytest.raises(Stopped):
        run_share(target, TaskRunner(target.plan))
    monkeypatch.undo()
    again = sink(tmp_path)
    assert [r.index for r in again.store.unfinished()] == list(range(12)) and not again.finished()
    assert not np.isnan(xr.open_zarr(str(tmp_path / "result.zarr"), chunks=None)["hit_rate"][0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("change", "named"), [({"root_seed": 5}, "root_seed"), ({"lambdas": [1]}, "lambdas"), ({}, "code")]
)
def test_another_sweep_in_the_folder(tmp_path: Path, change: dict, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink(tmp_path)
    before = snapshot(tmp_path)
    if not change:
        monkeypatch.setattr(provenance, "code_fingerprint", lambda: "0" * 16)
    with pytest.raises(SweepError) as caught:
        RegionSink(small_plan(**change), tmp_path / "result.zarr")
    expected = f"{tmp_path / 'result.zarr'} holds another sweep (different {named}); choose another directory"
    assert str(caught.value) == expected
    assert snapshot(tmp_path) == before


def test_a_folder_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "result.zarr").mkdir()
    with pytest.raises(SweepError, match="result.zarr is not a sweep's store; choose another directory"):
        sink(tmp_path)
    with pytest.raises(SweepError, match="holds no run; name the folder that --out named"):
        status(tmp_path / "nowhere")


def test_two_processes_that_begin_together_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find nothing; the second must take the cut of the first, and leave nothing else behind."""
    real = zarr_store._create

    def other_first(zarr, path, plan, layout):  # type: ignore[no-untyped-def]
        monkeypatch.undo()
        sink(path.parent, layout={"block_pairs": 2, "by_trace": True, "region_seeds": 4})
        real(zarr, path, plan, layout)

    monkeypatch.setattr(zarr_store, "_create", other_first)
    assert len(sink(tmp_path).store.regions) == len(sink(tmp_path).store.regions) == 6
    assert [path.name for path in tmp_path.iterdir()] == ["result.zarr"]


def test_memory_does_not_grow_with_the_lanes(tmp_path: Path) -> None:
    """10 regions of made-up counters: each needs what the first needs, and nothing of it stays.

    Measured are the allocations of Python and numpy. The bound per cell that regions are cut by holds as well.
    """
    source = GeneratedSource(make("cycling", n_topics=20))
    plan = plan_sweep(source, [case("fifo"), case("lru")], [10, 12, 14, 16, 18, 20], 2500)
    layout = {"block_pairs": 50, "by_trace": True, "region_seeds": 250}
    target = RegionSink(plan, tmp_path / "result.zarr", layout=layout)
    names = [name for name in zero_sums(1, 0).named() if not name.startswith("category")] + ["final_size"]
    chunk = {name: np.full(50 * 6, 7, np.float32 if name in TOTALS else np.int32) for name in names}
    chunk |= {name: np.zeros((0, 50 * 6), np.int32) for name in ("category_requests", "category_hits")}
    peaks, held = [], []
    tracemalloc.start()
    try:
        for region in target.store.regions:
            tracemalloc.reset_peak()
            for task in region.tasks:
                target.put(task, {name: values.copy() for name, values in chunk.items()})
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
            peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    everything = sum(v.nbytes for v in target.result(TaskRunner(target.plan)).data_vars.values())
    assert len(peaks) == 10 and target.store.done().all()
    assert everything / len(peaks) <= layout["region_seeds"] * cells_per_seed(plan) * cell_bytes(plan)
    assert max(peaks[1:]) < everything / 2
    assert max(peaks[-1] - peaks[1], held[-1] - held[1]) < everything / 10
