"""`solarjax run` over real processes: two under jax.distributed, and a Ray cluster that loses a worker."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import xarray as xr

from solarjax.cli.job import Job, execute
from solarjax.cli.launch import Launch
from solarjax.cli.main import main
from solarjax.cli.sources import SourceSpec
from solarjax.core import task_runner
from solarjax.core.chunks import SweepError
from solarjax.report import stored
from solarjax.scale.rendezvous import meet, reach
from solarjax.scale.status import status
from tests.support.ports import free_port
from tests.support.sweeps import assert_part_of

SETTINGS = ("n_topics=6", "n_cycles=4", "dim=16")
SEEDS = 12
OPTIONS = ["--capacities", "3", "--seeds", str(SEEDS), "-q"]
AT_ONCE = ["run", "--workload", "cycling", *(word for pair in SETTINGS for word in ("--set", pair)), *OPTIONS]
RUN = [*AT_ONCE, "--memory", "14KB"]
LIMIT = 600  # seconds until a child is given up; nothing is measured


JOB = Job(SourceSpec("workload", "cycling", SETTINGS), "fifo,solar_e", capacities=(3,), seeds=tuple(range(SEEDS)))


@pytest.fixture(scope="module")
def whole() -> xr.Dataset:
    """The same sweep in this process, on two devices and in one block."""
    return JOB.sweep(None)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of the children: one CPU device each, a compile cache in common, Ray's sockets in a folder with a short name."""
    # jax sets the log level of whoever imports it, which a child would take for its user's wish.
    own = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as short:
        yield {
            **own, "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
            "XLA_FLAGS": " ".join(flag for flag in own["XLA_FLAGS"].split() if "device_count" not in flag),
            "SOLARJAX_CACHE": str(tmp_path_factory.mktemp("cache")), "RAY_TMPDIR": short,
        }  # fmt: skip


def child(environment: dict[str, str], *arguments: object) -> subprocess.Popen[str]:
    """A process of the command line."""
    command = [sys.executable, "-m", "solarjax.cli.main", *map(str, arguments), "--devices", "1"]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def alone(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> xr.Dataset:
    """The same sweep by one process of the command line, in one block.

    Not made in this process: programs that other tests compiled here, with other settings of the compiler, would be
    used again.
    """
    out = tmp_path_factory.mktemp("alone") / "run"
    process = child(environment, *AT_ONCE, "--policies", "fifo,solar_e", "--out", out)
    told = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, told
    return stored.load(out).data


def test_two_processes_write_one_dataset(tmp_path: Path, alone: xr.Dataset, environment: dict[str, str]) -> None:
    """FIFO and SOLAR-E under jax.distributed, into one zarr store; each process computed a part of it."""
    out = tmp_path / "run"
    together = ["--launcher", "distributed", "--coordinator", f"127.0.0.1:{free_port()}", "--processes", 2]
    words = [*RUN, "--policies", "fifo,solar_e", "--store", "zarr", "--out", out, *together]
    processes = [child(environment, *words, "--process", index) for index in (0, 1)]
    try:
        ends = [process.communicate(timeout=LIMIT) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], ends
    assert [end for _, end in ends] == ["", ""]
    run = stored.load(out)
    assert run.provenance["device"]["count"] == 2  # both processes' devices
    assert sorted(path.name for path in out.iterdir()) == ["figures", "provenance.json", "result.zarr"]
    assert_part_of(run.data, alone)
    assert run.data.sizes == alone.sizes and status(out).complete
    assert float(alone["hit_rate"].std()) > 0


def test_shares_that_know_nothing_of_each_other(
    tmp_path: Path, whole: xr.Dataset, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a job array: the second share, then the first, then the plain command that finds everything there."""
    monkeypatch.setenv("SOLARJAX_COMPILE_CACHE", "0")
    words = shlex.split(JOB.command(tmp_path))[1:]
    for done, process in ((1, 1), (2, 0)):
        with pytest.raises(SystemExit) as stop:
            main([*words, "--launcher", "array", "--processes", "2", "--process", str(process)])
        shown = capsys.readouterr()
        assert stop.value.code == 0 and shown.out == ""
        assert f"{done} of 2 chunks done ({50 * done} %); repeat its command to go on" in shown.err
        assert not (tmp_path / "result.nc").exists()
    monkeypatch.setattr(task_runner, "run_chunk", lambda *_: pytest.fail("a chunk was computed again"))
    assert_part_of(execute(JOB, tmp_path).data, whole)
    assert status(tmp_path).line() == f"{tmp_path}: 1 of 1 runs done (100 %); complete"


def descendants(ancestor: int) -> dict[int, str]:
    """Command lines of all processes below one, by number."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # ended meanwhile
    found = {}
    for process in parents:
        above: int | None = process
        while above is not None and above != ancestor:
            above = parents.get(above)
        if above == ancestor and process != ancestor:
            try:
                found[process] = (Path("/proc") / str(process) / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
    return found


def test_ray_survives_a_killed_worker(tmp_path: Path, alone: xr.Dataset, environment: dict[str, str]) -> None:
    """A worker is killed in the middle of a task; the task runs again elsewhere and no bit of the dataset changes."""
    out = tmp_path / "run"
    driver = child(environment, *RUN, "--policies", "fifo", "--out", out, "--launcher", "ray")
    try:
        until = time.monotonic() + LIMIT
        victim = None
        while victim is None and driver.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
            busy = [p for p, command in descendants(driver.pid).items() if command.startswith("ray::run_named")]
            victim = min(busy, default=None)
        assert victim is not None, driver.communicate(timeout=LIMIT)
        os.kill(victim, signal.SIGKILL)
        _, told = driver.communicate(timeout=LIMIT)
    finally:
        driver.terminate()
        driver.communicate(timeout=LIMIT)
    assert driver.returncode == 0, told
    assert "a worker was lost (" in told and "fifo N=3, block" in told and told.count("runs again") == told.count("\n")
    run = stored.load(out)
    assert_part_of(run.data, alone)
    assert run.data.sizes["seed"] == SEEDS and run.data["policy"].values.tolist() == ["fifo"]
    assert not descendants(driver.pid)


def error(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line of a command that fails."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in (*RUN, *arguments)])
    shown = capsys.readouterr()
    assert stop.value.code == 2 and shown.out == "" and shown.err.count("\n") == 1, shown
    return shown.err.removeprefix("solarjax: error: ").rstrip()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--store", "hdf"], "--store 'hdf' is not one of netcdf, zarr"),
        (["--launcher", "dask"], "--launcher 'dask' is not one of local, array, distributed, ray"),
        (["--store", "zarr"], "--store zarr needs --out, the folder that takes the results"),
        (["--launcher", "array", "--processes", 2], "--launcher array needs --out, the folder that takes the results"),
        (
            ["--launcher", "array", "--processes", 2, "--out", "x"],
            "--launcher array needs --processes (how many) and --process (which, from 0)",
        ),
        (
            ["--launcher", "array", "--processes", 2, "--process", 2, "--out", "x"],
            "--process 2 of 2: allowed are 0..1",
        ),
        (["--process", 0], "--processes and --process need --launcher array or distributed"),
        (
            ["--launcher", "distributed", "--process", 0, "--out", "x"],
            "--processes and --process need --coordinator; without it jax finds all three",
        ),
        (["--coordinator", "a:1"], "--coordinator only applies to --launcher distributed"),
        (["--ray-address", "a:1"], "--ray-address and --ray-gpus only apply to --launcher ray"),
        (["--timeout", "-1"], "--timeout -1 is out of range; allowed are seconds above 0"),
        (["--ray-gpus", "-1", "--launcher", "ray"], "--ray-gpus -1 is out of range; allowed are numbers from 0"),
        (
            ["--launcher", "ray", "--ray-address", "nowhere"],
            "Ray cluster 'nowhere' is not HOST:PORT",
        ),
        (["--status", "nowhere"], "nowhere holds no run; name the folder that --out named"),
    ],
)
def test_wrong_options(
    arguments: list, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert error(capsys, *arguments) == message
    assert not list(tmp_path.iterdir())


def test_a_coordinator_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In bounded time, before jax starts and before anything is written."""
    port = free_port()
    out = tmp_path / "run"
    words = ["--launcher", "distributed", "--processes", 2, "--process", 1, "--timeout", 0.3, "--out", out]
    said = error(capsys, *words, "--coordinator", f"127.0.0.1:{port}")
    assert said == f"coordinator 127.0.0.1:{port} was not reached within 0.3 s: Connection refused"
    assert error(capsys, *words, "--coordinator", "127.0.0.1") == "coordinator '127.0.0.1' is not HOST:PORT"
    assert not out.exists()


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SweepError, match=f"127.0.0.1:{port}: the port cannot be used: Address already in use"):
            meet(f"127.0.0.1:{port}", 2, 0, 5)


def outcomes(*calls: tuple[int, int], seconds: float = 20) -> dict[tuple[int, int], str]:
    """What (number, how many) processes hear that meet at one port, in this order; '' is success."""
    address = f"127.0.0.1:{free_port()}"
    heard: dict[tuple[int, int], str] = {}

    def one(position: int, number: int, count: int) -> None:
        try:
            meet(address, count, number, seconds)
            heard[position, number] = ""
        except SweepError as refused:
            heard[position, number] = str(refused)

    threads = [threading.Thread(target=one, args=(i, *call)) for i, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return heard


def test_processes_meet() -> None:
    assert set(outcomes((2, 3), (1, 3), (0, 3)).values()) == {""}


def test_two_processes_of_one_number() -> None:
    heard = outcomes((0, 3), (1, 3), (1, 3))
    assert set(heard.values()) == {"two processes say they are process 1"} and len(heard) == 3


def test_processes_that_count_differently() -> None:
    assert set(outcomes((0, 2), (1, 3)).values()) == {
        "process 1 was started with --processes 3, process 0 with 2"
    }  # fmt: skip


def test_a_process_that_does_not_come() -> None:
    """Process 0 gives up in bounded time, and so do those that came."""
    heard = outcomes((0, 3), (1, 3), seconds=0.5)
    absent = "process(es) 2 did not come within 0.5 s"
    assert heard[0, 0] == absent and heard[1, 1] in (absent, "the other processes did not come within 0.5 s")


def test_a_stranger_at_the_coordinators_port() -> None:
    """Something else that connects there is ignored; something else that listens there is reported."""
    port = free_port()
    done: list[str] = []
    host = threading.Thread(target=lambda: done.append(str(meet(f"127.0.0.1:{port}", 2, 0, 20))))
    host.start()
    with reach(f"127.0.0.1:{port}", 5) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
    meet(f"127.0.0.1:{port}", 2, 1, 20)
    host.join(20)
    assert done == ["None"]
    with socket.create_server(("127.0.0.1", 0)) as other:

        def greet() -> None:
            with other.accept()[0] as guest:
                guest.sendall(b"220 mail\r\n")

        answering = threading.Thread(target=greet)
        answering.start()
        with pytest.raises(SweepError, match="ended, or is not a process 0 of solarjax"):
            meet(f"127.0.0.1:{other.getsockname()[1]}", 2, 1, 5)
        answering.join(5)


def test_options_that_go_together(tmp_path: Path) -> None:
    """What must not be refused."""
    for launch in (
        Launch(),
        Launch("ray"),
        Launch("distributed"),
        Launch("array", processes=1, process=0),
        Launch("distributed", "zarr", 2, 1, "host:1"),
        Launch(store="zarr"),
    ):
        launch.check(tmp_path)
    assert Launch().plain and not Launch(store="zarr").plain and not Launch("ray").plain
