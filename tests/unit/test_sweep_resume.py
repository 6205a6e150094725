"""A stopped sweep continues: finished chunks are not computed again, damaged ones are, and the result is the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from solarjax.core import task_runner
from solarjax.core.sweep import sweep
from solarjax.policies.registry import case
from solarjax.workloads.registry import make
from solarjax.workloads.sources import GeneratedSource

CAPACITIES = [4, 6]
SEEDS = [0, 1, 2, 5, 9, 11]


class Killed(Exception):
    """Stands for the signal that ends the process."""


def test_a_killed_sweep_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = GeneratedSource(make("cycling", n_topics=8, n_cycles=4, dim=16, min_sep=0.2))
    cases = [case("fifo"), case("random")]

    def run(**settings: object) -> xr.Dataset:
        return sweep(source, cases, CAPACITIES, SEEDS, memory_bytes=60_000, **settings)  # type: ignore[arg-type]

    def kill_after_three(done: int, total: int, label: str) -> None:
        if done == 3:
            raise Killed

    whole = run()
    with pytest.raises(Killed):
        run(out_dir=tmp_path, progress=kill_after_three)
    chunks = sorted((tmp_path / "chunks").glob("*.npz"))
    assert len(chunks) == 3
    chunks[0].write_bytes(chunks[0].read_bytes()[:100])  # a disk that lied
    computed: list[str] = []
    totals: list[int] = []
    real = task_runner.run_chunk

    def counted(task, *args):
        computed.append(task.name)
        return real(task, *args)

    monkeypatch.setattr(task_runner, "run_chunk", counted)
    again = run(out_dir=tmp_path, progress=lambda done, total, label: totals.append(total))
    xr.testing.assert_identical(again, whole)
    assert totals[0] > 3
    assert len(computed) == totals[0] - 2
    assert chunks[0].stem in computed
    assert not {chunk.stem for chunk in chunks[1:]} & set(computed)
    computed.clear()
    xr.testing.assert_identical(run(out_dir=tmp_path), whole)
    assert computed == []
    assert len(np.unique(whole.hit_rate.sel(policy="random"))) > 2
